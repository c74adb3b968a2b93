"""Bodies of JSON: the envelope, its prefix and trailer, headers, encoded arguments, and the repair of lenient JSON."""
