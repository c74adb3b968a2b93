"""Wire formats: one package per provider's API, without I/O, and the modules that they share."""
