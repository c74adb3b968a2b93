"""Second tries: a call that came to nothing is asked for once more, and the client does not notice.

Rule: no I/O; what a client has seen stands, so a second try only adds to it.
Neighbours: `tries` drives one exchange after the other, `screen` decides what of each is seen.
"""

from fcshim.retry.retrying_exchange import DEFAULT_MAX_RETRIES, RetryingExchange, make_exchange

__all__ = ["DEFAULT_MAX_RETRIES", "RetryingExchange", "make_exchange"]
