"""What runs the proxy inside other programs."""
