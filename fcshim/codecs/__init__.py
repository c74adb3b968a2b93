"""Wire formats: one file per provider's API, each usable alone."""
