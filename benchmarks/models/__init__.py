"""Measures tool calling with language models that really run: models x modes, on BFCL and on conversations."""
