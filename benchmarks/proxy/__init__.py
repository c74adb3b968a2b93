"""The proxy beside a bare relay on the same stack and beside nginx: CPU, latency, memory."""
