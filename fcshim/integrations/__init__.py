"""Runs the proxy inside other programs, and fcshim inside frameworks."""
