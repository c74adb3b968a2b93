"""Join surrogates that came as two characters: some runtimes cut their text inside a character.

Rule: what leaves is valid Unicode; half of a pair becomes U+FFFD.
Neighbours: `stream` passes every piece through here.
"""

import re

_SURROGATES = re.compile("[\ud800-\udfff]+")


class SurrogateJoiner:
    """Makes text whole, piece by piece."""

    def __init__(self) -> None:
        self.pending = ""
        """A first half that waits for its second."""

    def feed(self, text: str) -> str:
        """Give the piece with its pairs joined; a first half at its end waits."""
        if self.pending:
            text, self.pending = self.pending + text, ""
        if _SURROGATES.search(text) is None:
            return text
        if "\ud800" <= text[-1] <= "\udbff":
            text, self.pending = text[:-1], text[-1]
        return _SURROGATES.sub(_join, text)

    def close(self) -> str:
        """Give what is left."""
        half, self.pending = self.pending, ""
        return "\ufffd" if half else ""


def _join(found: re.Match[str]) -> str:
    return found[0].encode("utf-16", "surrogatepass").decode("utf-16", "replace")
