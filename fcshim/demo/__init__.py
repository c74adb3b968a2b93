"""The embedded demo model: a tiny model that copies, its runtime, `fcshim demo`, and an evaluation.

Rule: `numpy`, `gguf` and `openai` are the `demo` extra and are imported only where they are used. Other packages use
the model as an upstream like any other.
"""
