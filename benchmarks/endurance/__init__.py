"""Mixed traffic with faults for a long time: what is left of it in the proxy, and how every request ended."""
