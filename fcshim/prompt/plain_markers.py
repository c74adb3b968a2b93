"""Markers that are no tags (`Action Input:`, `functools`, `>>>`) made harmless, and back again.

Rule: one underscore goes in behind the marker's beginning (`A_ction Input:`), wherever it stands: a word that opens a
call at the start of a line stands behind a quotation mark or an escape when the model copies it into arguments.
Neighbours: `neutralise` does tags and control tokens, and puts this on top; `pieces` restores what comes in pieces.

Why it can be undone: an underscore goes in behind a word's beginning only, and what is looked at behind the word holds
none; so the words stand at the same places before and after, and afterwards each has an underscore.
"""

import re
from dataclasses import dataclass

from fcshim.prompt.stream_unescape import PendingTail

_SPACE = r"(?:\s|\\[nrt]){0,64}"
"""White space, also as JSON escapes it."""
_ATOM = re.compile(r"\[[^\]]+\]|\\.|.", re.DOTALL)


@dataclass(frozen=True, slots=True)
class PlainMarker:
    """A marker, as regular expressions: where the underscore goes in behind, what follows it, and what follows that.

    `beginning` and `rest` are made of single characters and classes of them; `beginning` ends with no underscore.
    """

    head: str
    tail: str
    lookahead: str = ""
    partial_lookahead: str = ""
    """What may still become `behind`, up to the end of the text."""
    prefix: str = ""

    def pattern(self) -> str:
        """Give a pattern for the beginning of this word with the underscores behind it."""
        return f"{self.prefix}{self.head}_*(?={self.tail}{self.lookahead})"

    def pending_pattern(self) -> str:
        """Give a pattern for a tail of a text that may still become this word with an underscore."""
        begun = self.partial_lookahead
        for atom in reversed(_ATOM.findall(self.tail)):
            begun = f"(?:{atom}{begun})?"
        first, *others = _ATOM.findall(self.head)
        begun = f"(?:_+{begun})?"
        for atom in reversed(others):
            begun = f"(?:{atom}{begun})?"
        return rf"{first}{begun}\Z"


def _if_json_follows(beginning: str, rest: str) -> PlainMarker:
    """Give a word that is too common to be touched where nothing follows it that a call is made of."""
    return PlainMarker(beginning, rest, rf"{_SPACE}[\[{{`]", rf"{_SPACE}\\?")


_BUILTIN = (
    # ReAct and Command R: a line with `Action:` opens nothing without `Action Input:`, or an array.
    PlainMarker("A", "ction[ _]Input:"),
    _if_json_follows("A", "ction:"),
    PlainMarker("O", "bservation:"),
    _if_json_follows("f", "unctools"),
    _if_json_follows("f", "unction call"),
    PlainMarker("t", r"o=functions\."),
    # Functionary. Of a run of them the last three count; a doctest has a space behind them.
    PlainMarker(">>", ">", r"(?![>\s]|\\[nrt])", r"\\?", prefix="(?<!>)>*"),
    PlainMarker("```", "tool_code"),
    PlainMarker("```", "tool_call"),
    # Control tokens of MiniMax and Gemma 4.
    PlainMarker(r"\[", r"e~\["),
    PlainMarker("<", r"turn\|>"),
)


class PlainMarkers:
    """The words that are known, and how to change them in a text."""

    def __init__(self) -> None:
        self._markers = list(_BUILTIN)
        self._compile()

    def add(self, marker: str) -> None:
        """Take one more word, from now on. A single character cannot be made harmless."""
        beginning = marker[: len(marker) - len(marker.lstrip("_")) + 1]
        word = PlainMarker(re.escape(beginning), re.escape(marker[len(beginning) :]))
        if word.tail and word not in self._markers:
            self._markers.append(word)
            self._compile()

    def _compile(self) -> None:
        self._marker_re = re.compile("|".join(word.pattern() for word in self._markers))
        self._pending_re = re.compile("|".join(word.pending_pattern() for word in self._markers))
        self._head_re = re.compile(f"({'|'.join(word.head for word in self._markers)})(_*)")

    def escape(self, text: str) -> str:
        """Give `text` with every word made harmless."""
        return self._marker_re.sub(lambda found: f"{found[0]}_", text)

    def unescape(self, text: str, end: int | None = None) -> str:
        """Undo `neutralise` in `text[:end]`; what stands behind `end` may decide whether a word stands before it."""
        end = len(text) if end is None else end
        changed = self._marker_re.sub(lambda at: at[0].removesuffix("_") if at.end() <= end else at[0], text)
        return changed[: len(changed) - len(text) + end]

    def pending(self, text: str) -> PendingTail | None:
        """Find the tail that may still become a neutralised word."""
        found = self._pending_re.search(text)
        if found is None:
            return None
        begun = self._head_re.match(text, found.start())
        if begun is None:  # not even that is there
            return PendingTail(found.start(), len(found[0]), 0)
        return PendingTail(found.start(), len(begun[1]), len(begun[2]))


PLAIN_MARKERS = PlainMarkers()
"""The words of all dialects: one table, since a neutralised text may be read by any of them."""
