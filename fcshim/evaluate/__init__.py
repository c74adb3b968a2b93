"""How well a model calls tools, and how it is best asked: measured on the real endpoint."""
