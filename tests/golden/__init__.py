"""The golden corpus: upstream bytes to client bytes, and conversations to prompts, frozen as data."""
