"""Replies as models that make mistakes write them, for the law that a delivered call is never wrong."""
