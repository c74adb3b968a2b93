"""Markers that are not tags (`Action Input:`, `functools`, `>>>`), and how they are escaped in a text.

Rule: which they are follows from the dialects. A marker is escaped wherever it stands. But a start marker that consists
of words (`functools`, `Action:`) is common in all text: before JSON only, if the call is JSON, and not at all if the
header behind it has words or tags of its own, which are escaped instead.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from fcshim.parse.body_selection import UnionBody
from fcshim.parse.dialect import Body, Dialect
from fcshim.parse.json.body import JsonShape
from fcshim.parse.json.header import HeaderShape
from fcshim.parse.tagged.syntax import TaggedCalls


class PendingTail(NamedTuple):
    """A tail of a text: its start, the length of its opening, and the number of underscores after that."""

    start: int
    opening: int
    underscores: int


_BOM = "\ufeff"
"""As a character, not as an escape: a text is cut at characters that the patterns do not have."""
_SPACE = rf"(?>(?:[\s{_BOM}]|\\[nrt]){{0,64}})"
"""White space, also escaped as in JSON; bounded, so that a stream holds back a bounded tail."""
_BEFORE_JSON = rf"{_SPACE}(?:[\[{{`｛［\s{_BOM}]|\\[nrt])"
"""What may be a call: JSON, a fence, or more white space than the bound, behind which either may stand."""
_PARTIAL_SPACE = rf"(?:[\s{_BOM}]|\\[nrt]){{0,64}}\\?"
_OR_SPACE = r"|\s|\\[nrt]"
_WORDS = re.compile(r"[\w\s*:=]+")
_COMMON_LANGUAGES = frozenset({"", "json", "python"})
"""Languages of code fences that are common in all text."""
_ATOM = re.compile(r"\[[^\]]+\]|\\.|.", re.DOTALL)


@dataclass(frozen=True, slots=True)
class PlainMarker:
    """A marker as regular expressions: `head`, after which the underscore goes, `tail`, and a `lookahead` after it.

    `head` and `tail` consist of single characters, escaped for a pattern; `head` does not end with an underscore.
    """

    text: str
    """The marker itself."""
    head: str
    tail: str
    rest: str
    """The text of `tail`."""
    lookahead: str = ""
    partial_lookahead: str = ""
    """The pattern of a text that may still become `lookahead`, up to its end."""
    in_text: str = ""
    """The pattern of the head in a text where it depends on what is before it; a search skips to its first character,
    so it begins with one."""

    def contains(self, other: "PlainMarker") -> bool:
        """Return whether another marker is part of this one, whatever follows, so that it is escaped with it."""
        beyond = f"{other.tail}(?s:.)" if other.lookahead else ""
        return re.search(other.pattern() + beyond, self.text) is not None

    def pattern(self) -> str:
        """Return the pattern of the head with its underscores."""
        return f"{self.in_text or self.head}_*(?={self.tail}{self.lookahead})"

    def pending_pattern(self) -> str:
        """Return the pattern of an end of a text that may still become this marker with an underscore."""
        partial = self.partial_lookahead
        for atom in reversed(_ATOM.findall(self.tail)):
            partial = f"(?:{atom}{partial})?"
        first, *others = _ATOM.findall(self.head)
        partial = f"(?:_+{partial})?"
        for atom in reversed(others):
            partial = f"(?:{atom}{partial})?"
        return rf"{first}{partial}\Z"


def plain_markers(dialect: Dialect) -> Iterator[PlainMarker]:
    """Yield the markers of a dialect that may not be tags; a single character cannot be escaped."""
    starts = (*dialect.openers(), *dialect.section.openers())
    results = (dialect.result.open, *dialect.result.opens, dialect.result.close)
    others = (*dialect.closers(), *dialect.turn.tokens, *results, *header_words(dialect.body))
    body = dialect.body
    # Whether white space may stand before a tool's name in a header.
    before_space = not isinstance(body, HeaderShape) or (body.match_header("x\n{", 0) is None) == (
        body.match_header(" x\n{", 0) is None
    )
    words = {_without_emphasis(text) for text in starts if _WORDS.fullmatch(text)}
    for marker in dict.fromkeys(map(_without_emphasis, (*starts, *others))):
        if marker.startswith("```"):
            language = marker.removeprefix("```")
            if language not in _COMMON_LANGUAGES:
                yield PlainMarker(marker, "```", re.escape(language), language)
        elif marker not in words:
            yield from plain_marker(marker, before_space=before_space)
        elif all(isinstance(each, JsonShape) for each in _bodies(body)):
            for word in plain_marker(marker):
                yield replace(word, lookahead=_BEFORE_JSON, partial_lookahead=_PARTIAL_SPACE)
        elif not _has_header(body):
            yield from plain_marker(marker)


def plain_marker(marker: str, *, before_space: bool = True) -> Iterator[PlainMarker]:
    """Yield a marker that is escaped wherever it stands, if it has at least two characters.

    If it repeats a character, the last ones of a longer row count. Without `before_space`, no call begins if white
    space follows such a row, as after the `>>>` of a doctest.
    """
    if len(marker) > 2 and len(set(marker)) == 1:
        one, size = re.escape(marker[0]), len(marker)
        yield PlainMarker(
            marker,
            one * (size - 1),
            one,
            marker[1:],
            f"(?!{one}{'' if before_space else _OR_SPACE})",
            "" if before_space else r"\\?",
            f"(?:{one}(?<!{one}{one}){one}*{one * (size - 2)})",
        )
        return
    head = marker[: len(marker) - len(marker.lstrip("_")) + 1]
    tail = marker[len(head) :]
    if tail:
        yield PlainMarker(marker, re.escape(head), re.escape(tail), tail)


def _without_emphasis(marker: str) -> str:
    """Return a marker without white space around it and asterisks before it: `**Action:**` is a kind of `Action:`."""
    text = marker.strip()
    return text.lstrip("*") or text


def _bodies(body: Body) -> tuple[Body, ...]:
    return body.bodies if isinstance(body, UnionBody) else (body,)


def header_words(body: Body) -> tuple[str, ...]:
    """Return the words and tokens of a call's header."""
    return tuple(word for each in _bodies(body) if isinstance(each, HeaderShape) for word in each.words)


def _has_header(body: Body) -> bool:
    """Return whether words or tags of a header, or of the call itself, stand in every call."""
    return all(
        bool(each.words) if isinstance(each, HeaderShape) else isinstance(each, TaggedCalls) and each.header is not None
        for each in _bodies(body)
    )


PIECE = 16_384
"""Characters that are searched at once, at most some 2 ms: the interpreter's lock is held meanwhile."""


def cut_pieces(text: str, cut: re.Pattern[str]) -> Iterator[str]:
    """Cut a text before characters that `cut` finds, which stand at the start of what is searched or outside of it."""
    start = 0
    while len(text) - start > PIECE:
        found = cut.search(text, start + PIECE)
        if found is None:
            break
        yield text[start : found.start()]
        start = found.start()
    yield text[start:] if start else text


def _searches(markers: Iterable[PlainMarker]) -> Iterator[tuple[str, Callable[[str], object]]]:
    """Yield the search for the markers with one head, and a part that they all have: it is found 50 times faster."""
    groups: dict[str, list[PlainMarker]] = {}
    for marker in markers:
        groups.setdefault(marker.head, []).append(marker)
    for group in groups.values():
        low, high = min(marker.rest for marker in group), max(marker.rest for marker in group)
        shared = next((low[:at] for at, one in enumerate(low) if one != high[at]), low)
        yield shared or group[0].text[0], re.compile("|".join(marker.pattern() for marker in group)).search


class PlainMarkers:
    """Some markers, and their escaping in a text."""

    def __init__(self, markers: Sequence[PlainMarker]) -> None:
        self._searches = tuple(_searches(markers))
        self._marker_re = re.compile("|".join(marker.pattern() for marker in markers))
        self._cut_re = re.compile(f"[^{re.escape(''.join(sorted(set(self._marker_re.pattern))))}\\s]")  # in no marker
        self._pending_re = re.compile("|".join(marker.pending_pattern() for marker in markers))
        self._head_re = re.compile(f"({'|'.join(dict.fromkeys(marker.head for marker in markers))})(_*)")

    def escape(self, text: str) -> str:
        """Escape every marker in a text."""
        if len(text) <= PIECE:
            return self._escape_piece(text)
        return "".join(map(self._escape_piece, self.pieces(text)))

    def pieces(self, text: str) -> Iterator[str]:
        """Cut a long text where no marker is."""
        return cut_pieces(text, self._cut_re)

    def _escape_piece(self, text: str) -> str:
        return self._marker_re.sub(lambda found: f"{found[0]}_", text) if self.may_occur_in(text) else text

    def unescape(self, text: str, end: int | None = None) -> str:
        """Undo `escape` in `text[:end]`; the text after `end` still serves as lookahead."""
        end = len(text) if end is None else end
        if not self.may_occur_in(text):
            return text[:end]
        changed = self._marker_re.sub(lambda at: at[0].removesuffix("_") if at.end() <= end else at[0], text)
        return changed[: len(changed) - len(text) + end]

    def may_occur_in(self, text: str) -> bool:
        """Return false only if the text contains no marker, escaped or not."""
        for literal, search in self._searches:  # noqa: SIM110  # a generator takes longer than the search of a name
            if literal in text and search(text):
                return True
        return False

    def pending(self, text: str) -> PendingTail | None:
        """Return the tail that may still become an escaped marker."""
        found = self._pending_re.search(text)
        if found is None:
            return None
        head = self._head_re.match(text, found.start())
        if head is None:  # the head is not complete yet
            return PendingTail(found.start(), len(found[0]), 0)
        return PendingTail(found.start(), len(head[1]), len(head[2]))
