"""The arguments of a call as strict JSON: read, coerced by the tool's schema, repaired, or written by other readers."""
