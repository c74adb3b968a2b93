"""Bodies with one tag per parameter: their tags and their reader."""
