"""Talks HTTP to the model's endpoint: sends requests, and reads replies as they arrive.

Rule: only this package talks to the endpoint.
"""

from fcshim.upstream.endpoint import Upstream, api_url, key_header, root_url, upstream_for
from fcshim.upstream.reply import Timeouts, UpstreamReply, os_error_reason

__all__ = [
    "Timeouts",
    "Upstream",
    "UpstreamReply",
    "api_url",
    "key_header",
    "os_error_reason",
    "root_url",
    "upstream_for",
]
