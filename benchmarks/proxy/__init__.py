"""Compares the proxy with a bare relay on the same stack and with nginx: CPU, latency, memory."""
