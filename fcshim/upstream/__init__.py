"""The endpoint behind us: asked over HTTP, its replies read as they come.

Rule: only this room talks to an endpoint.
Neighbours: `client` and `server` are loops around it; `detection` and `inquiry` ask it small things.
"""

from fcshim.upstream.address import api_url, root_url
from fcshim.upstream.endpoint import Upstream, key_header, upstream_for
from fcshim.upstream.reply import UpstreamReply
from fcshim.upstream.timeouts import Timeouts
from fcshim.upstream.transport_errors import os_error_reason

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
