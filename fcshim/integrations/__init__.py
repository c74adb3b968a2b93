"""Runs the proxy inside other programs."""
