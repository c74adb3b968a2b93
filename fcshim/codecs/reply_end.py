"""Finds the end of a reply that is relayed without being decoded.

Rule: a reply ends with its API's own last event, whether or not its body does. Only an event that could be the last is
decoded. A whole reply ends with its JSON value. Any other body ends only when it is closed.
"""

import re

from fcshim.codecs.base import Codec
from fcshim.codecs.framing import SSESplitter, WholeReplyEnd, write_data
from fcshim.codecs.ndjson import NDJSON, NDJSONSplitter
from fcshim.errors import UpstreamError

_MAY_BE_LAST = re.compile(
    rb'^\s*\[DONE\]|"finishReason"|"message_stop"|"response\.(?:completed|incomplete|failed|cancelled)"|"error"|"done"'
)
"""Texts in the last events of all APIs. In the model's text they are escaped, or the event is decoded without a result.
"""


class EndDetector:
    """Searches the bytes of one reply of `codec`'s API; `content_type` determines how its events are separated."""

    def __init__(self, codec: Codec, content_type: str) -> None:
        self._codec = codec
        self._lines = content_type.startswith(NDJSON)
        splits = self._lines or content_type.startswith("text/event-stream")
        self._splitter = (NDJSONSplitter() if self._lines else SSESplitter()) if splits else None
        self._whole = WholeReplyEnd() if content_type.startswith("application/json") else None

    def feed(self, data: bytes) -> bool:
        """Take the next bytes of the body; return whether they hold the last event."""
        if self._splitter is None:
            return self._whole is not None and self._whole.feed(data)
        try:
            return any(map(self._is_last, self._splitter.feed(data)))
        except UpstreamError:  # an event above the limit is relayed without being examined
            self._splitter = None
            return False

    def _is_last(self, payload: bytes) -> bool:
        if not _MAY_BE_LAST.search(payload):
            return False
        decoder = self._codec.decoder()
        decoder.feed(payload + b"\n" if self._lines else write_data(payload))
        return decoder.ended
