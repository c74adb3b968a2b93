"""Write the reading of a damaged text as strict JSON, which continues what was already sent."""

import json
import re
from dataclasses import dataclass

from fcshim.parse.arguments.atoms import atom_to_json
from fcshim.parse.arguments.buffering import CommitPoint
from fcshim.parse.readings.edits import BRACE_MISSING, BRACKET_MISSING, END_MISSING
from fcshim.parse.readings.steps import Frame, NoReadingError, Step, Token, edits_of, tokens_of

_OPENERS = "{["
_ESCAPE_OR_QUOTE = re.compile(r"\\([\s\S])|\"")
_CONTROLS = re.compile(r"[\x00-\x1f]")
_SURROGATE_ESCAPES = re.compile(r"(?:\\u[dD][89a-fA-F][0-9a-fA-F]{2})+")
_MAX_ESCAPES = 200
_MAX_BEFORE = 4_000
"""Characters of an open string that are read again: an end of it may be damaged, and was sent as content."""


@dataclass(frozen=True, slots=True)
class JsonReading:
    """Strict JSON that continues the text already sent; `complete` if no closing bracket was missing at the end.

    `lacks_brackets` if one was missing anywhere. `words` are its strings that stood without quotes, and its numbers in
    another spelling.
    """

    text: str
    complete: bool
    lacks_brackets: bool
    words: frozenset[str]


class JsonWriter:
    """Writes the tokens of a reading as strict JSON, without what was `sent` of the text and the brackets around it."""

    def __init__(self, text: str, sent: int, frame: Frame | None) -> None:
        self._text = text
        self._sent = sent
        self._has_members: list[bool] = []
        """Whether the open brackets hold something, outermost first."""
        while frame is not None:
            self._has_members.append(True)
            frame = frame.parent
        self._after_key = False
        self._words: set[str] = set()

    def write(self, last: Step, commit_point: CommitPoint) -> JsonReading:
        """Write the reading that ends with a step. Raises `NoReadingError` for a value that JSON lacks."""
        out: list[str] = []
        tokens = tokens_of(last)
        if commit_point == "string":
            _, start, end = tokens.pop(0)
            out.append(_strict_content(self._text[max(start, self._sent) : end], '"') + '"')
        elif commit_point == "opened":
            self._has_members[-1] = False
        for token in tokens:
            out += self._spell(token)
        missing = {BRACE_MISSING, BRACKET_MISSING, END_MISSING}.intersection(edits_of(last))
        return JsonReading("".join(out), missing <= {BRACE_MISSING}, bool(missing), frozenset(self._words))

    def _spell(self, token: Token) -> tuple[str, ...]:
        kind, start, end = token
        if kind in "}]":
            self._has_members.pop()
            return (kind,)
        separator = ", " if self._has_members and self._has_members[-1] and not self._after_key else ""
        if self._has_members:
            self._has_members[-1] = True
        self._after_key = kind == "key"
        if kind in _OPENERS:
            self._has_members.append(False)
            return separator, kind
        return separator, self._spell_text(kind, self._text[start:end], self._text[start - 1 : start])

    def _spell_text(self, kind: str, text: str, quote: str) -> str:
        if kind == "word":
            self._words.add(text)
            return json.dumps(text, ensure_ascii=False)
        if kind == "atom":
            return self._spell_atom(text)
        content = _strict_content(text, quote)
        if kind == "key":
            content = _CONTROLS.sub(lambda found: json.dumps(found[0])[1:-1], content)
            return f'"{_SURROGATE_ESCAPES.sub(_join_surrogates, content)}": '
        return f'"{content}"'

    def _spell_atom(self, text: str) -> str:
        atom = atom_to_json(text)
        if atom is None:
            raise NoReadingError(f"{text[:20]} is no JSON", whole=True)
        if atom != text and not text[0].isalpha():
            self._words.add(atom)
        return atom


def _strict_content(raw: str, quote: str) -> str:
    r"""Escape inner double quotes; `\'` becomes `'`. The strict reader fixes other escapes and control characters."""

    def spell(found: re.Match[str]) -> str:
        if found[1] is None:
            return '\\"'
        return "'" if found[1] == "'" and quote == "'" else found[0]

    return _ESCAPE_OR_QUOTE.sub(spell, raw)


def _join_surrogates(found: re.Match[str]) -> str:
    """Decode a run of surrogate escapes; a lone surrogate becomes U+FFFD."""
    surrogates: str = json.loads(f'"{found[0]}"')
    return surrogates.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def is_escaped(text: str, pos: int) -> bool:
    """Return whether an odd number of backslashes stands before `pos`."""
    before = text[max(0, pos - _MAX_ESCAPES) : pos]
    return (len(before) - len(before.rstrip("\\"))) % 2 == 1


def open_string_content(text: str) -> str:
    """Return the content of the open string at the end of JSON, or the end of it."""
    end = len(text)
    while (at := text.rfind('"', 0, end)) >= 0 and is_escaped(text, at):
        end = at
    return text[at + 1 :][-_MAX_BEFORE:]
