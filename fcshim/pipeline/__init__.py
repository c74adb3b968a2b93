"""Events to events: what happens to one request and its reply between two codecs, without I/O."""
