"""What a call's arguments are, whatever language they came in: strict JSON, typed by the schema, mended, written."""
