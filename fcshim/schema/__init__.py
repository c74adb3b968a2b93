"""JSON Schema of tool arguments: expectations, coercion, validation and conversion for providers."""
