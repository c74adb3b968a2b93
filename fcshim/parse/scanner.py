"""Reads tokens from text that arrives in pieces: where the text ends within or after a token, it cannot be decided.

Rule: what is read must be bounded, so that it is decided after a bounded number of characters.
"""

import functools
import re
from collections.abc import Callable
from typing import ParamSpec, TypeVar

_P = ParamSpec("_P")
_T = TypeVar("_T")
SPACE = re.compile(r"\s{0,64}+")
"""White space between tokens."""
WORD = re.compile(r"[^\W\d][\w.-]{0,127}+")
"""The name of an element, an attribute or a parameter."""


class MoreNeeded(Exception):  # noqa: N818 # no error: control flow
    """More text is needed to decide."""


def decided(answer: _T | None) -> _T:
    """Return the answer of a function that returns None for `MoreNeeded`."""
    if answer is None:
        raise MoreNeeded
    return answer


class Scanner:
    """A position in a text; each method raises `MoreNeeded` if its answer may change with more text."""

    __slots__ = ("pos", "text")

    def __init__(self, text: str, pos: int) -> None:
        self.text = text
        self.pos = pos

    def peek(self) -> str:
        """Return the next character."""
        if self.pos == len(self.text):
            raise MoreNeeded
        return self.text[self.pos]

    def take(self, pattern: re.Pattern[str] = SPACE) -> str:
        """Read what the pattern matches, at most; return an empty string, and read nothing, if it matches nothing."""
        found = pattern.match(self.text, self.pos)
        end = self.pos if found is None else found.end()
        if end == len(self.text):
            raise MoreNeeded
        start, self.pos = self.pos, end
        return self.text[start:end]

    def skip(self, *literals: str) -> str:
        """Read the first of these that stands here, and return it; an empty string for none."""
        for literal in literals:
            if self.text.startswith(literal, self.pos):
                self.pos += len(literal)
                return literal
        size = len(self.text) - self.pos
        if any(size < len(literal) and literal.startswith(self.text[self.pos :]) for literal in literals):
            raise MoreNeeded
        return ""


def none_if_more_needed(function: Callable[_P, _T]) -> Callable[_P, _T | None]:
    """Let a function that scans return None if more text is needed to decide."""

    @functools.wraps(function)
    def decide(*args: _P.args, **kwargs: _P.kwargs) -> _T | None:
        try:
            return function(*args, **kwargs)
        except MoreNeeded:
            return None

    return decide
