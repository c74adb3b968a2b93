"""Escaping of markers that are not tags (`Action Input:`, `functools`, `>>>`).

Rule: an underscore is inserted after the marker's head (`A_ction Input:`), anywhere in a text: a marker that begins a
call at the start of a line follows a quote or an escape when the model copies it into arguments.

Why it is reversible: an underscore is only inserted after a head, and neither the rest of a marker nor its lookahead
contains one. So the markers are at the same places before and after, and afterwards each has an underscore.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from fcshim.prompt.stream_unescape import PendingTail

_SPACE = r"(?:\s|\\[nrt]){0,64}"
"""White space, also escaped as in JSON."""
_ATOM = re.compile(r"\[[^\]]+\]|\\.|.", re.DOTALL)


@dataclass(frozen=True, slots=True)
class PlainMarker:
    """A marker as regular expressions: `head`, after which the underscore goes, `tail`, and a `lookahead` after it.

    `head` and `tail` consist of single characters and character classes; `head` does not end with an underscore.
    """

    head: str
    tail: str
    lookahead: str = ""
    partial_lookahead: str = ""
    """What may still become `lookahead`, up to the end of the text."""
    prefix: str = ""

    def pattern(self) -> str:
        """Return the pattern of the head with its underscores."""
        return f"{self.prefix}{self.head}_*(?={self.tail}{self.lookahead})"

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


def _if_json_follows(head: str, tail: str) -> PlainMarker:
    """Return a marker that is too common to escape unless an array, object or fence follows it."""
    return PlainMarker(head, tail, rf"{_SPACE}[\[{{`]", rf"{_SPACE}\\?")


def _literal_marker(marker: str) -> PlainMarker:
    """Return a marker that is escaped wherever it stands."""
    head = marker[: len(marker) - len(marker.lstrip("_")) + 1]
    return PlainMarker(re.escape(head), re.escape(marker[len(head) :]))


_BUNDLED = (
    # ReAct and Command R: `Action:` begins a call only with `Action Input:` or an array.
    PlainMarker("A", "ction[ _]Input:"),
    _if_json_follows("A", "ction:"),
    PlainMarker("O", "bservation:"),
    _if_json_follows("f", "unctools"),
    _if_json_follows("f", "unction call"),
    PlainMarker("t", r"o=functions\."),
    # Functionary. The last three of a row of `>` count; in a doctest a space follows them.
    PlainMarker(">>", ">", r"(?![>\s]|\\[nrt])", r"\\?", prefix="(?<!>)>*"),
    PlainMarker("```", "tool_code"),
    PlainMarker("```", "tool_call"),
    # Control tokens of MiniMax and Gemma 4.
    PlainMarker(r"\[", r"e~\["),
    PlainMarker("<", r"turn\|>"),
)


class PlainMarkers:
    """The plain markers of all bundled dialects and those in `added`, and their escaping in a text.

    A single character cannot be escaped and is ignored.
    """

    def __init__(self, added: Iterable[str] = ()) -> None:
        markers = tuple(dict.fromkeys((*_BUNDLED, *(marker for marker in map(_literal_marker, added) if marker.tail))))
        self._marker_re = re.compile("|".join(marker.pattern() for marker in markers))
        self._pending_re = re.compile("|".join(marker.pending_pattern() for marker in markers))
        self._head_re = re.compile(f"({'|'.join(marker.head for marker in markers)})(_*)")

    def escape(self, text: str) -> str:
        """Escape every marker in a text."""
        return self._marker_re.sub(lambda found: f"{found[0]}_", text)

    def unescape(self, text: str, end: int | None = None) -> str:
        """Undo `escape` in `text[:end]`; the text after `end` still serves as lookahead."""
        end = len(text) if end is None else end
        changed = self._marker_re.sub(lambda at: at[0].removesuffix("_") if at.end() <= end else at[0], text)
        return changed[: len(changed) - len(text) + end]

    def pending(self, text: str) -> PendingTail | None:
        """Return the tail that may still become an escaped marker."""
        found = self._pending_re.search(text)
        if found is None:
            return None
        head = self._head_re.match(text, found.start())
        if head is None:  # the head is not complete yet
            return PendingTail(found.start(), len(found[0]), 0)
        return PendingTail(found.start(), len(head[1]), len(head[2]))
