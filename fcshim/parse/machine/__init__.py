"""The tag machine: finds calls in text by their markers and their context, and passes their bodies to body readers."""
