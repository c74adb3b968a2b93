"""Searches stop sequences in streaming text.

Rule: the match that ends first wins, as in an engine that checks after each token, however the text is split. Only
text that may still become a stop sequence is held back. The shim searches text, never calls.
"""

from collections.abc import Sequence


class StopSearch:
    """Search the stop sequences of a request in one choice's text, in linear time (Knuth-Morris-Pratt)."""

    def __init__(self, stops: Sequence[str]) -> None:
        self._needles = [_Needle(stop) for stop in stops if stop]
        self._buffer = ""
        self.found = False

    def feed(self, text: str) -> str:
        """Take the next text; return what cannot be part of a stop sequence. At a match `found` becomes true."""
        if self.found:
            return ""
        matches = [(end, -len(needle.word)) for needle in self._needles if (end := needle.feed(text))]
        text, buffered = self._buffer + text, len(self._buffer)
        if matches:
            end, negative_size = min(matches)  # of two that end at the same place, the longer one
            self.found, self._buffer = True, ""
            return text[: buffered + end + negative_size]
        kept = len(text) - max((needle.matched for needle in self._needles), default=0)
        self._buffer = text[kept:]
        return text[:kept]

    def flush(self) -> str:
        """Return the text that was held back: no match can continue, since a call begins or the reply has ended."""
        rest, self._buffer = self._buffer, ""
        for needle in self._needles:
            needle.matched = 0
        return rest


class _Needle:
    """One stop sequence; the text that was fed so far ends with its first `matched` characters."""

    def __init__(self, word: str) -> None:
        self.word = word
        self.matched = 0
        self._borders = _borders(word)

    def feed(self, text: str) -> int:
        """Return the position in `text` where the first match ends, or 0."""
        at = 0
        while at < len(text):
            if not self.matched:
                at = text.find(self.word[0], at)
                if at < 0:
                    return 0
            self._step(text[at])
            at += 1
            if self.matched == len(self.word):
                return at
        return 0

    def _step(self, character: str) -> None:
        while self.matched and self.word[self.matched] != character:
            self.matched = self._borders[self.matched - 1]
        self.matched += self.word[self.matched] == character


def _borders(word: str) -> list[int]:
    """Return, for each prefix of `word`, the length of its longest proper prefix that is also a suffix of it."""
    borders = [0] * len(word)
    size = 0
    for at in range(1, len(word)):
        while size and word[at] != word[size]:
            size = borders[size - 1]
        size += word[at] == word[size]
        borders[at] = size
    return borders
