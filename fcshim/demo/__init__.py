"""The embedded default: a tiny model that copies, a runtime for it, the demo and its evaluation.

Rule: `numpy`, `gguf` and `openai` are imported only where they are used; they are the `demo` extra.
Neighbours: `run` is behind `fcshim demo`; to the rest of fcshim the tiny model is an upstream like any other.
"""
