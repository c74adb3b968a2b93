"""Benchmarks with real models."""
