"""Stop sequences, searched in streaming text.

Rule: the match that ends first counts (so did an engine that looks after each token), however the text is cut; held
back is only what may still become a stop sequence.
Neighbours: the shim cuts the reply's text where one is found; calls are never searched.
"""

from collections.abc import Sequence


class StopSearch:
    """Search the stop sequences of a request in one choice's text. Linear time: no character is compared again."""

    def __init__(self, stops: Sequence[str]) -> None:
        self._needles = [_Needle(stop) for stop in stops if stop]
        self._buffer = ""
        self.found = False

    def feed(self, text: str) -> str:
        """Take the next piece; give what comes before a stop sequence for certain. At a hit `found` becomes true."""
        if self.found:
            return ""
        ends = [(end, -len(needle.word)) for needle in self._needles if (end := needle.feed(text))]
        text, held = self._buffer + text, len(self._buffer)
        if ends:
            end, size = min(ends)
            self.found, self._buffer = True, ""
            return text[: held + end + size]
        kept = len(text) - max((needle.matched for needle in self._needles), default=0)
        self._buffer = text[kept:]
        return text[:kept]

    def flush(self) -> str:
        """The run of text has ended (a call begins, or the reply is over): give what was held back."""
        rest, self._buffer = self._buffer, ""
        for needle in self._needles:
            needle.matched = 0
        return rest


class _Needle:
    """One stop sequence by Knuth, Morris and Pratt; `matched` characters of it end what was fed so far."""

    def __init__(self, word: str) -> None:
        self.word = word
        self.matched = 0
        self._borders = _borders(word)

    def feed(self, text: str) -> int:
        """Give where in `text` the first match ends, or 0."""
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
    """Give for each beginning of `word` how long its longest proper beginning is that is also its end."""
    borders = [0] * len(word)
    size = 0
    for at in range(1, len(word)):
        while size and word[at] != word[size]:
            size = borders[size - 1]
        size += word[at] == word[size]
        borders[at] = size
    return borders
