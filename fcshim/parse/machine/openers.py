"""What one parser looks for in text: the markers of its dialects, and which dialect a marker means.

Rule: made once per choice of dialects; where several share a marker, what follows it decides, the asked one first.
Neighbours: `stream` searches with it, rows of the dialect table say their markers.
"""

import functools
import re
from collections.abc import Iterable
from dataclasses import dataclass

from fcshim.parse.dialect import Dialect
from fcshim.parse.dialects import DIALECTS
from fcshim.parse.machine.surroundings import ROLE_MARKERS
from fcshim.parse.markers import MarkerSet

_LONGEST_SPACE = 64
_MOST_PIECES = 64
"""Harmless beginnings of markers in one piece of text that is taken the short way."""
_SPACE = re.compile(r"[ \t\r\n]*")


@dataclass(frozen=True, slots=True)
class Opening:
    """One thing that a marker may open."""

    row: Dialect
    asked: bool
    section: bool = False
    """True where the marker opens a section of calls, not a call."""
    bare: bool = False
    """True where the marker is itself the beginning of the body."""

    @property
    def waits(self) -> bool:
        """True where the call counts only when nothing but calls follows it."""
        return (self.bare or self.row.at_line_start) and not self.asked

    def begins(self, text: str, start: int, end: int) -> bool | None:
        """Say whether this is what begins here; the marker is `text[start:end]`."""
        if not self.section:
            return self.row.body.begins(text, start if self.bare else end)
        found = _SPACE.match(text, end, end + _LONGEST_SPACE)
        assert found is not None
        at = found.end()
        if any(text.startswith(opener, at) for opener in self.row.openers()):
            return True
        rest = text[at : at + _LONGEST_SPACE]
        return None if any(opener.startswith(rest) for opener in self.row.openers()) else False


class Openers:
    """The markers of one parser; `asked` is the dialect that was asked for, None where all count the same."""

    def __init__(self, asked: Dialect | None, others: tuple[Dialect, ...], *, bare: bool) -> None:
        rows = [*([asked] if asked else []), *(row for row in others if asked is None or row.name != asked.name)]
        self.openings: dict[str, list[Opening]] = {}
        for row in rows:
            self._add(row, asked=row is asked, bare=bare)
        tagged = [row for row in reversed(rows) if row.result_open and (row is asked or row.result_open[0] != "\n")]
        self.results = {row.result_open: row.result_close for row in tagged}
        self.markup = frozenset(token for row in rows for token in row.markup if _is_dropped(token, row, asked))
        self.fences = {line: o for line, opens in self.openings.items() if line[0] == "`" for o in opens if o.asked}
        self.words = tuple(marker[1:] for marker in sorted(self.openings, key=len, reverse=True) if marker[0] == "\n")
        """Openers that count only at the start of a line; in text each is searched with the newline before it."""
        self.starts = "".join(sorted(marker for marker in self.openings if marker in "[{"))
        """Characters that open a body at the start of a line."""
        inline = [marker for marker in self.openings if marker[0] != "`"]
        self.anywhere = tuple(marker for marker in inline if marker not in self.starts and marker[0] != "\n")
        """The openers that count anywhere."""
        self.calls = MarkerSet(self.anywhere)
        self.markers = MarkerSet([*inline, *self.results, *self.markup, *ROLE_MARKERS], also="`+|~+")
        everything = [*inline, *self.results, *self.markup, *ROLE_MARKERS]
        self.plain = _nothing_begins(everything)
        """Matches text in which nothing begins."""
        self.plain_in_line = _nothing_begins([marker for marker in everything if marker not in self.starts], "\n")
        """Matches text without a newline in which nothing begins when it stands inside a line."""

    def _add(self, row: Dialect, *, asked: bool, bare: bool) -> None:
        if row.bare and not bare and not asked:
            return
        for opener in row.openers():
            marker = "\n" + opener if row.at_line_start and opener[0] != "`" else opener
            self.openings.setdefault(marker, []).append(Opening(row, asked))
        for opener in row.section_openers():
            self.openings.setdefault(opener, []).append(Opening(row, asked, section=True))
        for char in row.starts:
            self.openings.setdefault(char, []).append(Opening(row, asked, bare=True))

    def word(self, text: str, pos: int) -> str:
        """Give the opener for a line's start that stands at `pos`, or an empty string."""
        return next((word for word in self.words if text.startswith(word, pos)), "")

    def pick(self, marker: str, text: str, start: int) -> Opening | bool | None:
        """Give what the marker at `start` opens: False when it opens nothing, None when more text must be seen."""
        openings = self.openings[marker]
        if len(openings) == 1 and not openings[0].section and not openings[0].row.bare:
            return openings[0]
        for opening in openings:
            begins = opening.begins(text, start, start + len(marker))
            if begins is None:
                return None
            if begins:
                return opening
        return False


def _is_dropped(token: str, row: Dialect, asked: Dialect | None) -> bool:
    """Say whether markup of a dialect is no text to a parser that was asked for this dialect, or for none."""
    if row is asked:
        return True
    if asked is None:
        return not token.strip("</>").isalpha()  # a tag that is a mere word (`<response>`) may be meant as it stands
    return token.startswith(ROLE_MARKERS)  # else it would end the reading


def _nothing_begins(markers: Iterable[str], never: str = "") -> re.Pattern[str]:
    """Give a pattern for text that holds no beginning of a marker, nor of code, nor any of the characters `never`.

    A character that begins a marker is passed over where the next one shows that it does not begin one here.
    """
    seconds: dict[str, set[str]] = {char: {""} for char in "`~" + never}
    for marker in markers:
        seconds.setdefault(marker[0], set()).add(marker[1:2])
    harmless = [
        f"{re.escape(char)}(?=[^{re.escape(''.join(sorted(following)))}])"
        for char, following in seconds.items()
        if "" not in following
    ]
    plain = f"[^{re.escape(''.join(seconds))}]++"
    return re.compile(f"(?:{'|'.join([plain, *harmless])}){{0,{_MOST_PIECES}}}")


@functools.lru_cache(maxsize=64)
def openers(asked: Dialect | None, *, others: bool, bare: bool) -> Openers:
    """Give the openers of a dialect, of the table's with `others`; `bare` says whether calls without markers count."""
    return Openers(asked, tuple(DIALECTS.values()) if others else (), bare=bare)
