"""Join surrogates that came as two characters: some runtimes cut their text inside a character.

Rule: what leaves is valid Unicode; half of a pair becomes U+FFFD.
Neighbours: `stream` passes every piece through here.
"""

import re

_SURROGATES = re.compile("[\ud800-\udfff]+")


class HalfJoiner:
    """Makes text whole, piece by piece."""

    def __init__(self) -> None:
        self.half = ""
        """A first half that waits for its second."""

    def feed(self, text: str) -> str:
        """Give the piece with its pairs joined; a first half at its end waits."""
        if self.half:
            text, self.half = self.half + text, ""
        if _SURROGATES.search(text) is None:
            return text
        if "\ud800" <= text[-1] <= "\udbff":
            text, self.half = text[:-1], text[-1]
        return _SURROGATES.sub(_joined, text)

    def close(self) -> str:
        """Give what is left."""
        half, self.half = self.half, ""
        return "\ufffd" if half else ""


def _joined(found: re.Match[str]) -> str:
    return found[0].encode("utf-16", "surrogatepass").decode("utf-16", "replace")
