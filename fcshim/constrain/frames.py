"""What a dialect writes around the arguments of calls, learnt from its own templates.

Rule: only dialects whose templates write arguments as the JSON they are given have frames; nothing is said twice.
Neighbours: `prompt.render` writes the calls, `calls` makes a grammar of the frames.
"""

import functools
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass

from fcshim.parse.dialect import Dialect
from fcshim.prompt.render import render_calls

MOST_CALLS = 8
"""Calls of one reply that a grammar admits."""

_BLANK = re.compile(r'("[^"\\]*+(?:\\.[^"\\]*+)*"?)|[ \t\r\n]+', re.DOTALL)
"""A string, which may be cut off, or white space between."""

_MARK = '{"\ue000":0}'
_NAME = "\ue001"


@dataclass(frozen=True, slots=True)
class Frames:
    """Texts with places for names: before the first call's arguments, before those of each further one, and at the end.

    `more` is empty where only one call at a time can be told.
    """

    first: str
    more: tuple[str, ...]
    end: str

    def head(self, at: int) -> str:
        """Give what stands before the name of call number `at`, from the end of the arguments before it."""
        return self._before(at).partition(_NAME)[0]

    def behind(self, at: int, name: str) -> str:
        """Give the name and what stands between it and the arguments."""
        _, place, rest = self._before(at).partition(_NAME)
        quoted = f'"{_NAME}"' in self.first
        return (place + rest).replace(_NAME, json.dumps(name, ensure_ascii=False)[1:-1] if quoted else name)

    def _before(self, at: int) -> str:
        return self.more[at - 1] if at else self.first


@functools.lru_cache(maxsize=256)
def frames_of(dialect: Dialect) -> Frames | None:
    """Give the frames, None where the templates do not write arguments as JSON, or not without something else."""
    pieces = _pieces(dialect, [_NAME] * MOST_CALLS)
    single = _pieces(dialect, [_NAME])
    if single is None or _NAME not in single[0]:
        return None
    alone = Frames(single[0].lstrip(), (), single[-1].rstrip())
    if pieces is None or (pieces[0], pieces[-1]) != (single[0], single[-1]):
        return alone
    return Frames(alone.first, tuple(pieces[1:-1]), alone.end)


def beginning_of_calls(dialect: Dialect, calls: Sequence[tuple[str, str]]) -> str | None:
    """Write a reply of calls, of which the last one has only begun: names, each with its arguments' strict JSON so far.

    White space between values is left out: what may follow does not depend on it. None where the dialect has no frames,
    or none for so many calls.
    """
    frames = frames_of(dialect)
    if frames is None or not calls or len(calls) > 1 + len(frames.more):
        return None
    return "".join(
        frames.head(at) + frames.behind(at, name) + _BLANK.sub(r"\1", arguments)
        for at, (name, arguments) in enumerate(calls)
    )


def _pieces(dialect: Dialect, names: list[str]) -> list[str] | None:
    """Give what the templates write around the arguments of these calls."""
    try:
        text = render_calls(dialect, [(name, _MARK) for name in names])
    except ValueError:
        return None
    pieces = text.split(_MARK)
    return pieces if len(pieces) == len(names) + 1 and not any("\ue000" in piece for piece in pieces) else None
