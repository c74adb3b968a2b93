"""Text to events: markers, the tag machine, body readers, grammars and the dialect table."""
