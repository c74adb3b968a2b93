"""The model's text in one attempt, unchanged, to be repeated in the request of a retry.

Rule: memory is bounded; an attempt whose text does not fit is not retried.
"""

import io

MAX_CHARACTERS = 64 * 2**10
"""Characters of one attempt: to repeat a longer text in the prompt of a retry costs more than the retry is worth."""


class Transcript:
    """The text of one attempt, in a `StringIO`: a list of small strings takes ten times the memory."""

    __slots__ = ("_remaining", "_text")

    def __init__(self) -> None:
        self._remaining = MAX_CHARACTERS
        self._text = io.StringIO()

    def append(self, text: str) -> None:
        """Append a text; once the limit is exceeded, drop it."""
        self._remaining -= len(text)
        if self._remaining >= 0:
            self._text.write(text)

    @property
    def is_complete(self) -> bool:
        """Whether all of the text was kept."""
        return self._remaining >= 0

    @property
    def text(self) -> str:
        """The text that was kept."""
        return self._text.getvalue()
