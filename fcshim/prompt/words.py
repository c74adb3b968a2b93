"""Markers that are no tags (`Action Input:`, `functools`, `>>>`) made harmless, and back again.

Rule: one underscore goes in behind the marker's beginning (`A_ction Input:`), wherever it stands: a word that opens a
call at the start of a line stands behind a quotation mark or an escape when the model copies it into arguments.
Neighbours: `neutralise` does tags and control tokens, and puts this on top; `pieces` restores what comes in pieces.

Why it can be undone: an underscore goes in behind a word's beginning only, and what is looked at behind the word holds
none; so the words stand at the same places before and after, and afterwards each has an underscore.
"""

import re
from dataclasses import dataclass

from fcshim.prompt.pieces import Pending

_SPACE = r"(?:\s|\\[nrt]){0,64}"
"""White space, also as JSON escapes it."""
_ATOM = re.compile(r"\[[^\]]+\]|\\.|.", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Word:
    """A marker, as regular expressions: where the underscore goes in behind, what follows it, and what follows that.

    `beginning` and `rest` are made of single characters and classes of them; `beginning` ends with no underscore.
    """

    beginning: str
    rest: str
    behind: str = ""
    behind_begun: str = ""
    """What may still become `behind`, up to the end of the text."""
    before: str = ""

    def found(self) -> str:
        """Give a pattern for the beginning of this word with the underscores behind it."""
        return f"{self.before}{self.beginning}_*(?={self.rest}{self.behind})"

    def pending(self) -> str:
        """Give a pattern for a tail of a text that may still become this word with an underscore."""
        begun = self.behind_begun
        for atom in reversed(_ATOM.findall(self.rest)):
            begun = f"(?:{atom}{begun})?"
        first, *others = _ATOM.findall(self.beginning)
        begun = f"(?:_+{begun})?"
        for atom in reversed(others):
            begun = f"(?:{atom}{begun})?"
        return rf"{first}{begun}\Z"


def _before_json(beginning: str, rest: str) -> Word:
    """Give a word that is too common to be touched where nothing follows it that a call is made of."""
    return Word(beginning, rest, rf"{_SPACE}[\[{{`]", rf"{_SPACE}\\?")


_KNOWN = (
    # ReAct and Command R: a line with `Action:` opens nothing without `Action Input:`, or an array.
    Word("A", "ction[ _]Input:"),
    _before_json("A", "ction:"),
    Word("O", "bservation:"),
    _before_json("f", "unctools"),
    _before_json("f", "unction call"),
    Word("t", r"o=functions\."),
    # Functionary. Of a run of them the last three count; a doctest has a space behind them.
    Word(">>", ">", r"(?![>\s]|\\[nrt])", r"\\?", before="(?<!>)>*"),
    Word("```", "tool_code"),
    Word("```", "tool_call"),
    # Control tokens of MiniMax and Gemma 4.
    Word(r"\[", r"e~\["),
    Word("<", r"turn\|>"),
)


class Words:
    """The words that are known, and how to change them in a text."""

    def __init__(self) -> None:
        self._words = list(_KNOWN)
        self._compile()

    def learn(self, marker: str) -> None:
        """Take one more word, from now on. A single character cannot be made harmless."""
        beginning = marker[: len(marker) - len(marker.lstrip("_")) + 1]
        word = Word(re.escape(beginning), re.escape(marker[len(beginning) :]))
        if word.rest and word not in self._words:
            self._words.append(word)
            self._compile()

    def _compile(self) -> None:
        self._found = re.compile("|".join(word.found() for word in self._words))
        self._pending = re.compile("|".join(word.pending() for word in self._words))
        self._beginning = re.compile(f"({'|'.join(word.beginning for word in self._words)})(_*)")

    def neutralise(self, text: str) -> str:
        """Give `text` with every word made harmless."""
        return self._found.sub(lambda found: f"{found[0]}_", text)

    def restore(self, text: str, end: int | None = None) -> str:
        """Undo `neutralise` in `text[:end]`; what stands behind `end` may decide whether a word stands before it."""
        end = len(text) if end is None else end
        changed = self._found.sub(lambda at: at[0].removesuffix("_") if at.end() <= end else at[0], text)
        return changed[: len(changed) - len(text) + end]

    def pending(self, text: str) -> Pending | None:
        """Find the tail that may still become a neutralised word."""
        found = self._pending.search(text)
        if found is None:
            return None
        begun = self._beginning.match(text, found.start())
        if begun is None:  # not even that is there
            return Pending(found.start(), len(found[0]), 0)
        return Pending(found.start(), len(begun[1]), len(begun[2]))


WORDS = Words()
"""The words of all dialects: one table, since a neutralised text may be read by any of them."""
