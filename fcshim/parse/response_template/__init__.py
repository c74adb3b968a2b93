"""Hugging Face's `response_template`: its fields as a dialect, its patterns matched in linear time."""
