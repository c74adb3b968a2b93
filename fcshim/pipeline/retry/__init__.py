"""Retries: after a missing or defective call the model is asked again, within the same response to the client.

Rule: no I/O. Events that the client has seen stand, so a retry only adds to them.
"""

from fcshim.pipeline.retry.retrying_exchange import DEFAULT_MAX_RETRIES, RetryingExchange, shim_exchange

__all__ = ["DEFAULT_MAX_RETRIES", "RetryingExchange", "shim_exchange"]
