"""Bodies whose arguments are literals, in Python's or Gemma's syntax: the shared reader, and one for each syntax."""
