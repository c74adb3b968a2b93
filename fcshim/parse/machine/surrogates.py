"""Join surrogate pairs that arrive as two characters: some runtimes cut their text inside a character.

Rule: the result is valid Unicode; a lone surrogate becomes U+FFFD.
"""

import re

_SURROGATES = re.compile("[\ud800-\udfff]+")


class SurrogateJoiner:
    """Joins surrogate pairs, also across pieces."""

    def __init__(self) -> None:
        self.pending = ""
        """A high surrogate at the end of a piece, or an empty string."""

    def feed(self, text: str) -> str:
        """Return the piece with its pairs joined; a high surrogate at its end waits for the next piece."""
        if self.pending:
            text, self.pending = self.pending + text, ""
        if _SURROGATES.search(text) is None:
            return text
        if "\ud800" <= text[-1] <= "\udbff":
            text, self.pending = text[:-1], text[-1]
        return _SURROGATES.sub(_join, text)

    def close(self) -> str:
        """Return U+FFFD for a high surrogate that is still pending, else an empty string."""
        pending, self.pending = self.pending, ""
        return "\ufffd" if pending else ""


def _join(found: re.Match[str]) -> str:
    return found[0].encode("utf-16", "surrogatepass").decode("utf-16", "replace")
