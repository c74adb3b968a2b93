"""Constrained decoding: grammars and schemas for an upstream's sampler, made from the offered tools."""
