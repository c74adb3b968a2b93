"""Finds text at the front of a prompt that varies between requests, so that the server reads all that follows again.

Rule: no I/O. Only the system text is looked at, since the conversation after it is another one in each session. Lines
are known by their hashes; the line that varies is taken from the prompt at hand.
"""

from collections import Counter, deque
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from fcshim.messages import Request, count_leading_system, text_of
from fcshim.prompt.compose import CHARACTERS_PER_TOKEN

_MAX_PROMPTS = 8
"""System texts of a model that are compared: the agents and sub-agents that work at the same time."""
_MAX_LINES = 4_096
"""Lines of a system text that are compared; those of coding agents have some hundred."""
_MIN_CHARACTERS = 4_096
"""Characters that are read again, below which nothing is said: about 1,000 tokens, a second on a laptop."""
_EXCERPT = 120


class VaryingFront(msgspec.Struct, frozen=True):
    """A line of the system text that varies, and how many characters after it stayed the same."""

    number: int
    """The line's number, from 1."""
    line: str
    characters: int

    def __str__(self) -> str:
        tokens = self.characters // CHARACTERS_PER_TOKEN
        return (
            f"about {tokens:,} tokens of the system prompt are read again: its line {self.number} differs from the "
            f"requests before: {self.line[:_EXCERPT]!r}"
        )


class _Line(NamedTuple):
    key: int
    characters: int


class PromptFronts:
    """The system texts of one model's last requests."""

    def __init__(self) -> None:
        self._texts: deque[tuple[_Line, ...]] = deque(maxlen=_MAX_PROMPTS)

    def compare(self, prompt: Request) -> VaryingFront | None:
        """Take a prompt; return the line at which it leaves all that came before, if the same text follows."""
        system = prompt.messages[: count_leading_system(prompt.messages)]
        lines = "\n".join(text_of(message.content) for message in system).splitlines()[:_MAX_LINES]
        own = tuple(_Line(hash(line), len(line) + 1) for line in lines)
        if own in self._texts:
            return None
        front = max((_shared_front(own, text) for text in self._texts), default=0)
        characters = max((_size_of_same(own[front:], text) for text in self._texts), default=0)
        self._texts.append(own)
        if characters < _MIN_CHARACTERS or front == len(lines):
            return None
        return VaryingFront(front + 1, lines[front], characters)


def _size_of_same(lines: Sequence[_Line], others: Sequence[_Line]) -> int:
    """Return the characters of the lines that both have, wherever they stand."""
    same = Counter(lines) & Counter(others)
    return sum(line.characters * count for line, count in same.items())


def _shared_front(lines: Sequence[_Line], others: Sequence[_Line]) -> int:
    """Return how many lines both begin with."""
    at = 0
    while at < min(len(lines), len(others)) and lines[at] == others[at]:
        at += 1
    return at
