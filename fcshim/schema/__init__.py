"""JSON Schema: what tools demand of their arguments."""
