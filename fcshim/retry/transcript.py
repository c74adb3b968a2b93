"""What the model said in one try, as it said it, to be shown to it again.

Rule: memory is bounded; a reply that does not fit is not asked for again.
Neighbours: the shim's stream says every text here, `second` writes it into the next request.
"""

import io

MAX_CHARACTERS = 64 * 2**10
"""Of one try: longer ones would cost more to read again than is mended by it."""


class Transcript:
    """The text of one try. It is written into a buffer: a list of small pieces takes ten times the memory."""

    __slots__ = ("_remaining", "_text")

    def __init__(self) -> None:
        self._remaining = MAX_CHARACTERS
        self._text = io.StringIO()

    def append(self, text: str) -> None:
        """Take the next piece."""
        self._remaining -= len(text)
        if self._remaining >= 0:
            self._text.write(text)

    @property
    def is_complete(self) -> bool:
        """Whether all of it was kept."""
        return self._remaining >= 0

    @property
    def text(self) -> str:
        """What was said."""
        return self._text.getvalue()
