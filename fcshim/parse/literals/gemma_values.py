"""Read the arguments of a call in Gemma's syntax.

Keys are bare words, strings are enclosed in quote tokens and have no escapes, everything else is as in JSON. Also
accepted: keys and strings in ordinary quotes, and unquoted strings up to the next comma or bracket.

Rule: every tolerance is named in `gemma_call.lark`.
"""

import functools
import re

from fcshim.parse.arguments.atoms import atom_to_json
from fcshim.parse.arguments.entities import holds_entity
from fcshim.parse.arguments.fast_patterns import SPACE, value_pattern
from fcshim.parse.arguments.literal_words import is_damaged_word
from fcshim.parse.dialect import Dialect
from fcshim.parse.limits import Limits
from fcshim.parse.literals.call import LiteralCall
from fcshim.parse.literals.context import ARGUMENTS, ARRAY, DICT, BracketKind
from fcshim.parse.literals.strings import LiteralError, Matcher, json_escape, string_syntax
from fcshim.parse.literals.values import LiteralValues
from fcshim.parse.markers import MAX_RUNS, EndMarkers, non_marker_char

_FAST_VALUE = value_pattern(("true", "false", "null"), value_starts=r"<\"'\[{", after_atom=r",}\]")
_MEMBER = rf"(?:(?P<key>[^\W\d][\w-]{{0,40}}+)(?::{SPACE}{_FAST_VALUE}|\Z)|\Z)"
_NEXT_PATTERNS: dict[BracketKind, Matcher] = {
    ARRAY: re.compile(f"{SPACE},{SPACE}{_FAST_VALUE}").match,
    **dict.fromkeys((DICT, ARGUMENTS), re.compile(f"{SPACE},{SPACE}{_MEMBER}").match),
}
_NESTED_CALL = re.compile(r"[^\W\d][\w.]*\(")
_HOLDS_KEY = re.compile(r"[^\W\d][\w-]*+:(?!//)")
"""A key in a string without quotes: a bracket or comma is missing before it."""
_NOT_A_NUMBER = frozenset({"nan", "inf", "infinity", "undefined"})


@functools.lru_cache(maxsize=64)
def _word_matcher(ends: str, markers: EndMarkers) -> Matcher:
    """Return a pattern for a word up to one of the characters `ends`; a `<` that begins no marker is a part of it."""
    non_markers = [non_marker_char(char, markers.markers) for char in sorted({each[0] for each in markers.markers})]
    plain = f"[^{ends}{markers.first_chars}]++"
    return re.compile(f"(?:{'|'.join([plain, *non_markers])}){{0,{MAX_RUNS}}}").match


class GemmaValues(LiteralValues):
    """Reads the arguments of one call."""

    _next_patterns = _NEXT_PATTERNS

    def __init__(self, call: LiteralCall, dialect: Dialect, limits: Limits) -> None:
        super().__init__(call, dialect, limits)
        self._match_key = _word_matcher(r":,{}\[\]\n", self.context.following_markers)
        self._match_value = _word_matcher(r",{}\[\]\n", self.context.following_markers)

    def begin(self, closer: str, enclosing: str) -> None:
        """Begin the arguments after their opening bracket; `enclosing` closes the brackets around the call."""
        super().begin(closer, enclosing)
        self.context.seen_keyword = True

    def _read_key(self, text: str, pos: int) -> int:
        self.string.key = ""
        return self._read_string_or_word(self._match_key, text, pos)

    def _read_value(self, text: str, pos: int) -> int:
        if text[pos] == "{":
            return self._open_bracket(DICT, "}", pos)
        if text[pos] == "[":
            return self._open_bracket(ARRAY, "]", pos)
        return self._read_string_or_word(self._match_value, text, pos)

    def _read_string_or_word(self, match_word: Matcher, text: str, pos: int) -> int:
        """Begin a string between tokens or in ordinary quotes, or read a word."""
        quote = self._token
        if not text.startswith(quote, pos):
            if quote.startswith(text[pos : pos + len(quote)]):
                self._progress.need_more(pos)
            if text[pos] not in "\"'":
                return self._read_word(match_word, text, pos)
            quote = text[pos]
        self._begin_string(string_syntax("", quote, self._end_markers))
        return pos + len(quote)

    def _read_word(self, match_word: Matcher, text: str, pos: int) -> int:
        """A key, a number, a literal or an unquoted string."""
        found = self._match_word(match_word, text, pos)
        end = found.end()
        if end == pos or text[pos] in ":<":
            raise LiteralError(f"expected a literal, found {text[pos]!r}", pos)
        if end < len(text):
            self._end_word(found[0].strip(), end, lacks_bracket=bool(self._end_markers.marker_at(text, end)))
        return end

    def _end_word(self, word: str, pos: int, *, lacks_bracket: bool) -> None:
        """Write a key or a value; text without quotes and without the bracket after it may have been longer."""
        if self.string.key is not None:
            self._call.words.add(word)
            self._end_key(json_escape(word))
            return
        atom = atom_to_json(word)
        if atom is not None:
            self._write_atom(atom)
            self._call.add_number(word, atom)
            return
        is_number = word.lstrip("+-").lower() in _NOT_A_NUMBER
        is_damaged = is_damaged_word(word) or word.count("(") != word.count(")") or _HOLDS_KEY.search(word)
        if lacks_bracket or is_number or is_damaged or holds_entity(word) or _NESTED_CALL.match(word):
            raise LiteralError("expected a literal", pos)
        self._call.words.add(word)
        self._call.writer.begin_string()
        self._call.writer.buffer.add_content(json_escape(word))
        self._call.writer.buffer.end_string()
        self.read_next = self._after_value
