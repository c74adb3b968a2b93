"""Bodies of JSON: the reader of the envelope, and what may stand before, inside, behind and instead of it."""
