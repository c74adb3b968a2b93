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
from fcshim.parse.machine.context import ROLE_MARKERS
from fcshim.parse.markers import MarkerSet

_MAX_SPACE = 64
_MAX_PIECES = 64
"""Harmless beginnings of markers in one piece of text that is taken the short way."""
_SPACE = re.compile(r"[ \t\r\n]*")


@dataclass(frozen=True, slots=True)
class Opening:
    """One thing that a marker may open."""

    dialect: Dialect
    primary: bool
    section: bool = False
    """True where the marker opens a section of calls, not a call."""
    starts_body: bool = False
    """True where the marker is itself the beginning of the body."""

    @property
    def must_be_last(self) -> bool:
        """True where the call counts only when nothing but calls follows it."""
        return (self.starts_body or self.dialect.at_line_start) and not self.primary

    def begins(self, text: str, start: int, end: int) -> bool | None:
        """Say whether this is what begins here; the marker is `text[start:end]`."""
        if not self.section:
            return self.dialect.body.begins(text, start if self.starts_body else end)
        found = _SPACE.match(text, end, end + _MAX_SPACE)
        assert found is not None
        at = found.end()
        if any(text.startswith(opener, at) for opener in self.dialect.openers()):
            return True
        rest = text[at : at + _MAX_SPACE]
        return None if any(opener.startswith(rest) for opener in self.dialect.openers()) else False


class StartMarkers:
    """The markers of one parser; `asked` is the dialect that was asked for, None where all count the same."""

    def __init__(self, primary: Dialect | None, others: tuple[Dialect, ...], *, allow_bare: bool) -> None:
        rows = [
            *([primary] if primary else []),
            *(row for row in others if primary is None or row.name != primary.name),
        ]
        self.openings: dict[str, list[Opening]] = {}
        for row in rows:
            self._add(row, primary=row is primary, allow_bare=allow_bare)
        tagged = [row for row in reversed(rows) if row.result_open and (row is primary or row.result_open[0] != "\n")]
        self.result_tags = {row.result_open: row.result_close for row in tagged}
        self.markup = frozenset(
            token for row in rows for token in row.markup if _is_dropped_markup(token, row, primary)
        )
        self.fence_openings = {
            line: o for line, opens in self.openings.items() if line[0] == "`" for o in opens if o.primary
        }
        self.line_start_markers = tuple(
            marker[1:] for marker in sorted(self.openings, key=len, reverse=True) if marker[0] == "\n"
        )
        """Openers that count only at the start of a line; in text each is searched with the newline before it."""
        self.body_start_chars = "".join(sorted(marker for marker in self.openings if marker in "[{"))
        """Characters that open a body at the start of a line."""
        inline = [marker for marker in self.openings if marker[0] != "`"]
        self.inline_markers = tuple(
            marker for marker in inline if marker not in self.body_start_chars and marker[0] != "\n"
        )
        """The openers that count anywhere."""
        self.inline_marker_set = MarkerSet(self.inline_markers)
        self.all_markers = MarkerSet([*inline, *self.result_tags, *self.markup, *ROLE_MARKERS], extra_pattern="`+|~+")
        everything = [*inline, *self.result_tags, *self.markup, *ROLE_MARKERS]
        self.plain_text = _text_without_markers(everything)
        """Matches text in which nothing begins."""
        self.plain_text_in_line = _text_without_markers(
            [marker for marker in everything if marker not in self.body_start_chars], "\n"
        )
        """Matches text without a newline in which nothing begins when it stands inside a line."""

    def _add(self, dialect: Dialect, *, primary: bool, allow_bare: bool) -> None:
        if dialect.bare and not allow_bare and not primary:
            return
        for opener in dialect.openers():
            marker = "\n" + opener if dialect.at_line_start and opener[0] != "`" else opener
            self.openings.setdefault(marker, []).append(Opening(dialect, primary))
        for opener in dialect.section_openers():
            self.openings.setdefault(opener, []).append(Opening(dialect, primary, section=True))
        for char in dialect.starts:
            self.openings.setdefault(char, []).append(Opening(dialect, primary, starts_body=True))

    def line_start_marker_at(self, text: str, pos: int) -> str:
        """Give the opener for a line's start that stands at `pos`, or an empty string."""
        return next((word for word in self.line_start_markers if text.startswith(word, pos)), "")

    def find_opening(self, marker: str, text: str, start: int) -> Opening | bool | None:
        """Give what the marker at `start` opens: False when it opens nothing, None when more text must be seen."""
        openings = self.openings[marker]
        if len(openings) == 1 and not openings[0].section and not openings[0].dialect.bare:
            return openings[0]
        for opening in openings:
            begins = opening.begins(text, start, start + len(marker))
            if begins is None:
                return None
            if begins:
                return opening
        return False


def _is_dropped_markup(token: str, dialect: Dialect, primary: Dialect | None) -> bool:
    """Say whether markup of a dialect is no text to a parser that was asked for this dialect, or for none."""
    if dialect is primary:
        return True
    if primary is None:
        return not token.strip("</>").isalpha()  # a tag that is a mere word (`<response>`) may be meant as it stands
    return token.startswith(ROLE_MARKERS)  # else it would end the reading


def _text_without_markers(markers: Iterable[str], excluded: str = "") -> re.Pattern[str]:
    """Give a pattern for text that holds no beginning of a marker, nor of code, nor any of the characters `never`.

    A character that begins a marker is passed over where the next one shows that it does not begin one here.
    """
    seconds: dict[str, set[str]] = {char: {""} for char in "`~" + excluded}
    for marker in markers:
        seconds.setdefault(marker[0], set()).add(marker[1:2])
    harmless = [
        f"{re.escape(char)}(?=[^{re.escape(''.join(sorted(following)))}])"
        for char, following in seconds.items()
        if "" not in following
    ]
    plain = f"[^{re.escape(''.join(seconds))}]++"
    return re.compile(f"(?:{'|'.join([plain, *harmless])}){{0,{_MAX_PIECES}}}")


@functools.lru_cache(maxsize=64)
def compile_start_markers(primary: Dialect | None, *, others: bool, allow_bare: bool) -> StartMarkers:
    """Give the openers of a dialect, of the table's with `others`; `bare` says whether calls without markers count."""
    return StartMarkers(primary, tuple(DIALECTS.values()) if others else (), allow_bare=allow_bare)
