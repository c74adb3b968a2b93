"""Replies as models that make mistakes write them.

Rule: a mutant keeps what was meant, so a verdict needs no reader.
"""
