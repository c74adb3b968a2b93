"""Bodies in a literal notation, Python's or Gemma's: what they have in common, and the reader of each."""
