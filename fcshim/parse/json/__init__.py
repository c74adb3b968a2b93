"""Bodies of JSON: the envelope, its prefix and trailer, headers, and the repair of lenient JSON."""
