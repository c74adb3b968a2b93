"""Escaping of markers and chat-template tokens in text that clients, tools and models wrote.

Rule: an underscore is inserted after the opening character (`<function_call>` becomes `<_function_call>`, and that
becomes `<__function_call>`), so that escaping is reversible: `unescape(escape(text)) == text` for every text. Markers
that are not tags (`plain_markers`) get it after their head (`A_ction Input:`), anywhere in a text: a marker that begins
a call at the start of a line follows a quote or an escape when the model copies it into arguments.

Why it is reversible: between its opening character and its end, a marker contains no other opening character. So
markers never overlap, and an inserted underscore does not affect other markers. A text has its markers at the same
places before and after; afterwards each of them has at least one underscore. Neither the rest of a marker that is not a
tag nor its lookahead contains an underscore.

Not escaped: a bracket at the start of a line, and code fences without a language or with JSON or Python. Some dialects
mark calls by nothing else, but they are common in all text; the parser accepts such calls only if nothing but calls
follows them.

The markers of all bundled dialects are escaped in every request, since the parser of any dialect may read the text. The
markers of a custom dialect are escaped only in its own requests. In a text that arrives in chunks, only a tail that may
still become an escaped marker is held back; the opening characters of a marker never change, so they are emitted at
once.
"""

import functools
import re
from collections.abc import Callable, Iterable, Iterator

from fcshim.events import JSON
from fcshim.parse.dialects import DIALECTS, Dialect
from fcshim.parse.tagged.syntax import TaggedCalls
from fcshim.parse.tagged.tags import Tags
from fcshim.prompt.marker_names import (
    BEGINNINGS,
    BRACKET_KEYS,
    CLOSED_KEYS,
    INVISIBLE,
    OPEN_KEYS,
    PIPED,
    TURNS,
    MarkerNames,
    keys_of,
    name_key,
)
from fcshim.prompt.plain_markers import (
    PIECE,
    PendingTail,
    PlainMarker,
    PlainMarkers,
    cut_pieces,
    plain_marker,
    plain_markers,
)


class UnescapePass:
    """One pass over a text: `unescape` undoes escapes up to a position, `pending` finds the tail to hold back."""

    __slots__ = ("_buffer", "_emitted", "_pending", "_unescape")

    def __init__(self, unescape: Callable[[str, int], str], pending: Callable[[str], PendingTail | None]) -> None:
        self._unescape = unescape
        self._pending = pending
        self._buffer = ""
        self._emitted = 0  # characters of the buffer that were emitted already

    def feed(self, text: str) -> str:
        """Take the next chunk and return the text that cannot change any more."""
        text, emitted = self._buffer + text, self._emitted
        pending = self._pending(text)
        if pending is None:
            self._buffer, self._emitted = "", 0
            return self._unescape(text, len(text))[emitted:]
        start, opening, underscores = pending
        # Unescaping removes one underscore, so all but one are emitted: otherwise a long row of them would be scanned
        # again with every chunk.
        extra = max(underscores - 1, 0)
        self._buffer = text[start : start + opening] + text[start + opening + extra :]
        self._emitted = opening
        return (self._unescape(text, start) + text[start : start + opening] + "_" * extra)[emitted:]

    def close(self) -> str:
        """End the text and return what was held back."""
        rest = self._unescape(self._buffer, len(self._buffer))[self._emitted :]
        self._buffer, self._emitted = "", 0
        return rest


_UNFINISHED = "|".join(map(re.escape, BEGINNINGS)) or r"(?!)"

_GAP = rf"[\s{INVISIBLE}]{{0,8}}+"  # bounded, so that a stream holds back a bounded tail
# The opening character may itself be escaped, as an HTML entity or in JSON (Go's encoder does so): a model decodes
# both.
# It begins with a set of characters, by which the search skips all others.
_OPEN = (
    r"(?P<open>[<＜\[&\\](?:(?P<square>(?<=\[))|(?<=[<＜])|(?<=&)(?i:lt|\#0{0,4}60|\#x0{0,4}3c);|(?<=\\)(?i:u003c|x3c)))"
    r"(?P<under>_*+)"
)
# No marker begins at a bracket that only white space separates from another one: a million of them are few matches.
# Bounded, since each of a row of backslashes without a bracket behind it would be searched to the end.
_RUN = rf"[<＜\[&\\][<＜\[&\\_\s{INVISIBLE}]{{0,64}}(?=[<＜\[&])"
_END = r"(?:[>＞]|&(?i:gt|\#62|\#x3e);|\\(?i:u003e|x3e))"
_NAME = rf"[\w:\-{INVISIBLE}]{{1,80}}+"
_BARRED = r"[^\s<＜\[\]&\\>＞|｜]{1,64}+"

_CANDIDATE = re.compile(
    rf"{_RUN}|{_OPEN}{_GAP}(?:\\?/{_GAP})?"
    rf"(?:(?P<wide>｜|(?(square)(?!)|(?i:{_UNFINISHED})))|(?P<bar>\|){_GAP}{_BARRED}{_GAP}(?:[|｜]{_GAP})?{_END}"
    rf"|(?P<name>{_NAME})(?![\w:\-{INVISIBLE}])(?:{_GAP}(?P<end>{_END}|\]))?)"
)


def _prefixes(*words: str) -> str:
    """Return a pattern of every nonempty proper prefix of the words."""
    return "|".join(sorted({re.escape(word[:size]) for word in words for size in range(1, len(word))}, reverse=True))


_OPEN_PREFIX = _prefixes("&lt;", "&#000060;", "&#60;", "&#x00003c;", "&#x3c;", "\\u003c", "\\x3c")
_END_PREFIX = _prefixes("&gt;", "&#62;", "&#x3e;", "\\u003e", "\\x3e")
_PIPED_PREFIX = _prefixes(*PIPED)
_PENDING = re.compile(
    rf"(?:(?i:{_OPEN_PREFIX})|{_OPEN}(?:(?<=_){_GAP}(?:\\|(?:\\?/{_GAP})?"
    rf"(?:\|{_GAP}(?:{_BARRED}{_GAP}(?:[|｜]{_GAP})?(?i:{_END_PREFIX})?)?"
    rf"|(?P<name>{_NAME})(?P<after>{_GAP}(?i:{_END_PREFIX})?)|(?i:{_PIPED_PREFIX}))?))?)\Z"
)


_CUT = re.compile(
    r"[\s<＜\[&\\](?:(?<=[<＜\[])|(?<=[.,!?)]\s)(?=[^\W_])|(?<=&)(?i:lt|#0{0,4}60|#x0{0,4}3c);|(?<=\\)(?i:u003c|x3c))"
)
"""A bracket, which no candidate has inside, or the space after a sentence or its part, which none has either."""


_SEPARATOR = "\0"
"""A character in no marker, name or gap, so that no marker crosses it."""


class MarkerEscaper:
    """Escapes the markers of the bundled dialects, and those of a custom dialect."""

    def __init__(self, custom: Dialect | None = None) -> None:
        own = () if custom is None else tuple(_escapable(custom))
        keys = keys_of(marker.strip("<[/]>") for marker in own if marker[0] in "<＜[")
        self._open_keys = OPEN_KEYS | keys
        self._bracket_keys = BRACKET_KEYS | keys
        self._names = MarkerNames(self._open_keys | CLOSED_KEYS, self._bracket_keys, BEGINNINGS)
        self._plain_markers = PlainMarkers(self._choose(own))

    def _choose(self, own: Iterable[str]) -> list[PlainMarker]:
        """Return the plain markers: those that no tag or other marker in them escapes already."""
        rows = (marker for dialect in DIALECTS.values() for marker in plain_markers(dialect))
        added = (marker for text in (*own, *TURNS) for marker in plain_marker(text))
        chosen: list[PlainMarker] = []
        for marker in sorted(dict.fromkeys((*rows, *added)), key=lambda marker: len(marker.text)):
            text = marker.text
            if self._change_tags(text, self._escape_match) == text and not any(map(marker.contains, chosen)):
                chosen.append(marker)
        return chosen

    def escape(self, text: str) -> str:
        """Escape every marker and chat-template token in a text, in linear time."""
        if not text or (len(text) <= PIECE and not self._may_change(text)):
            return text
        return self._plain_markers.escape(self._change_tags(text, self._escape_match))

    def may_change(self, texts: Iterable[str]) -> bool:
        """Return false only if `escape` changes none of the texts, which are searched as one."""
        return self._may_change(_SEPARATOR.join(texts))

    def _may_change(self, text: str) -> bool:
        plain = self._plain_markers
        if len(text) <= PIECE:
            return self._names.may_occur_in(text) or plain.may_occur_in(text)
        return any(map(self._names.may_occur_in, cut_pieces(text, _CUT))) or any(
            map(plain.may_occur_in, plain.pieces(text))
        )

    def unescape(self, text: str) -> str:
        """Undo `escape`."""
        return self._unescape_tags(self._plain_markers.unescape(text), len(text))

    def unescape_passes(self) -> tuple[UnescapePass, UnescapePass]:
        """Return new passes that undo `escape` in a text that arrives in chunks, in this order."""
        plain_markers = UnescapePass(self._plain_markers.unescape, self._plain_markers.pending)
        return plain_markers, UnescapePass(self._unescape_tags, self._pending_tail)

    def _unescape_tags(self, text: str, end: int) -> str:
        return self._change_tags(text[:end], self._unescape_match)

    def _change_tags(self, text: str, change: Callable[[re.Match[str]], str]) -> str:
        return "".join(
            _CANDIDATE.sub(change, piece) if self._names.may_occur_in(piece) else piece
            for piece in cut_pieces(text, _CUT)
        )

    def _escape_match(self, match: re.Match[str]) -> str:
        if not self._is_marker(match):
            return match[0]
        start = len(match["open"])
        return f"{match['open']}_{match[0][start:]}"

    def _unescape_match(self, match: re.Match[str]) -> str:
        if not match["under"] or not self._is_marker(match):
            return match[0]
        start = len(match["open"])
        return match["open"] + match[0][start + 1 :]

    def _is_marker(self, match: re.Match[str]) -> bool:
        if match["open"] is None:
            return False
        if match["open"] == "[":
            return match["name"] is not None and match["end"] == "]" and name_key(match["name"]) in self._bracket_keys
        if match["name"] is None:  # full-width bar, barred token, unfinished marker
            return True
        key = name_key(match["name"])
        return key in self._open_keys or (key in CLOSED_KEYS and match["end"] not in (None, "]"))

    def _pending_tail(self, text: str) -> PendingTail | None:
        """Return the tail that may still become an escaped marker."""
        pending = _PENDING.search(text)
        while pending is not None and not self._may_be_marker(pending):
            pending = _PENDING.search(text, pending.start() + 1)
        if pending is None:
            return None
        return PendingTail(pending.start(), len(pending["open"] or ""), len(pending["under"] or ""))

    def _may_be_marker(self, pending: re.Match[str]) -> bool:
        if not pending["after"]:
            return True
        keys = self._bracket_keys if pending["open"] == "[" else CLOSED_KEYS
        return name_key(pending["name"]) in keys


_OPENING_BRACKETS = frozenset("<＜[")


def own_markers(dialect: Dialect) -> tuple[str, ...]:
    """Return every marker of a dialect, with the tags inside its calls."""
    body = dialect.body.tags if isinstance(dialect.body, TaggedCalls) else dialect.body
    inner = body.markers() if isinstance(body, Tags) else ()
    return tuple(dict.fromkeys(filter(None, (*_outer_markers(dialect), dialect.result.close, *inner))))


def _outer_markers(dialect: Dialect) -> tuple[str, ...]:
    return (*dialect.openers(), *dialect.closers(), *dialect.section.openers(), dialect.result.open)


def _escapable(dialect: Dialect) -> Iterator[str]:
    """Yield the markers of a custom dialect that are escaped, without white space around them.

    A code fence is not. Inside a call and at the end of a result only tags are: words there are common in all text.
    """
    outer = _outer_markers(dialect)
    for marker in own_markers(dialect):
        text = marker.strip()
        if text and text[0] != "`" and (marker in outer or not _OPENING_BRACKETS.isdisjoint(text)):
            yield text


BUNDLED = MarkerEscaper()
"""Escapes the markers of the bundled dialects only."""


@functools.lru_cache(maxsize=256)
def escaper_for(dialect: Dialect) -> MarkerEscaper:
    """Return the escaper of requests in a dialect."""
    return BUNDLED if dialect in DIALECTS.values() else MarkerEscaper(dialect)


def strings_of(value: JSON) -> list[str]:
    """Return every string in a JSON value, keys included, in no particular order."""
    texts: list[str] = []
    values = [value]
    for item in values:  # grows meanwhile
        if isinstance(item, str):
            texts.append(item)
        elif isinstance(item, dict):
            values += item
            values += item.values()
        elif isinstance(item, list):
            values += item
    return texts


def map_strings(value: JSON, change: Callable[[str], str]) -> JSON:
    """Apply `change` to every string in a JSON value, keys included. Raises `RecursionError` if it is too deep."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, list):
        return [map_strings(item, change) for item in value]
    if isinstance(value, dict):
        return {change(key): map_strings(item, change) for key, item in value.items()}
    return value
