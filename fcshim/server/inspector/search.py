"""Searches the texts of captured requests: what the client sent, and what the model wrote.

Rule: only texts without credentials are searched, so that no search can guess one.
"""

from collections.abc import Iterator
from typing import Self
from urllib.parse import parse_qs

from fcshim.errors import RequestError
from fcshim.server.inspector.capture import CapturedRequest
from fcshim.server.reply_strings import reply_strings

_MAX_WORDS = 200
"""Characters of what is searched for."""


class SearchWords:
    """Words that all have to occur in a request or its reply, in any case of letters."""

    def __init__(self, words: list[str]) -> None:
        self._words = words

    @classmethod
    def from_query(cls, query: bytes) -> Self | None:
        """Read the parameter `text`; None if it is missing or blank. Raises `RequestError` for one that is too long."""
        text = " ".join(parse_qs(query.decode("latin-1"), max_num_fields=10).get("text", []))
        if len(text) > _MAX_WORDS:
            raise RequestError(f"text: expected at most {_MAX_WORDS} characters, got {len(text)}", param="text")
        words = text.casefold().split()
        return cls(words) if words else None

    def match(self, capture: CapturedRequest) -> bool:
        """Return whether each word occurs. Long work: call it outside of the event loop."""
        missing = self._words
        for text in _texts(capture):
            folded = text.casefold()
            missing = [word for word in missing if word not in folded]
            if not missing:
                return True
        return False


def _texts(capture: CapturedRequest) -> Iterator[str]:
    yield f"{capture.model} {capture.path} {capture.error}"
    try:
        yield from reply_strings(capture.body)
    except RecursionError:
        yield capture.body.decode("utf-8", "replace")
    replies = [capture.decoded(attempt) for attempt in capture.attempts] or [capture.received()]
    for each in replies:
        for reply in each:
            yield "".join(piece.text for piece in reply.pieces)
