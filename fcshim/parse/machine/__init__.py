"""The tag machine: finds calls in text, by markers and by what stands around them; body readers do the rest."""
