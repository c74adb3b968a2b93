"""Read the arguments of a call in Gemma's syntax.

Keys are bare words, strings are enclosed in quote tokens and have no escapes, everything else is as in JSON. Also
accepted: keys and strings in ordinary quotes, and unquoted strings up to the next comma or bracket.

    _before_item --word--> _read_word --> _after_item
                 --quote token--> _in_string --> _after_item

Rule: every tolerance is named in `gemma_call.lark`.
"""

import re

from fcshim.parse.arguments.atoms import atom_to_json
from fcshim.parse.arguments.fast_patterns import SPACE, value_pattern
from fcshim.parse.arguments.literal_words import is_damaged_word
from fcshim.parse.literals.brackets import ARGUMENTS, ARRAY, DICT, BracketKind, OpenBracket
from fcshim.parse.literals.call import ATOM, KEY
from fcshim.parse.literals.gemma_strings import GemmaString
from fcshim.parse.literals.python_strings import Matcher, PythonString, python_string_syntax
from fcshim.parse.literals.quoted_strings import json_escape
from fcshim.parse.literals.values import LiteralError, LiteralValues

_SPACE = re.compile(r"[ \t\r\n\f]*+")
_KEY = re.compile(r"[^:,{}\[\]<\n]*+")
_VALUE = re.compile(r"[^,{}\[\]<\n]*+")
_LESS_THAN = re.compile("<")
_FAST_VALUE = value_pattern(("true", "false", "null"), value_starts=r"<\"'\[{", after_atom=r",}\]")
_MEMBER = rf"(?:(?P<key>[^\W\d][\w-]{{0,40}}+)(?::{SPACE}{_FAST_VALUE}|\Z)|\Z)"
_NEXT_PATTERNS: dict[BracketKind, Matcher] = {
    ARRAY: re.compile(f"{SPACE},{SPACE}{_FAST_VALUE}").match,
    **dict.fromkeys((DICT, ARGUMENTS), re.compile(f"{SPACE},{SPACE}{_MEMBER}").match),
}
_FIRST_MEMBER = re.compile(rf"\{{{SPACE}{_MEMBER}")
_NESTED_CALL = re.compile(r"[^\W\d][\w.]*\(")
_HOLDS_KEY = re.compile(r"[^\W\d][\w-]*+:(?!//)")
"""A key in a string without quotes: a bracket or comma is missing before it."""
_NOT_A_NUMBER = frozenset({"nan", "inf", "infinity", "undefined"})


class GemmaValues(LiteralValues):
    """Reads the arguments of one call."""

    _next_patterns = _NEXT_PATTERNS

    def begin(self, closer: str, enclosing: str) -> None:
        """Begin the arguments after their opening bracket; `enclosing` closes the brackets around the call."""
        super().begin(closer, enclosing)
        self.brackets[0].expects_key = True

    def skip_space(self, text: str, pos: int) -> int:
        """Return the end of the white space at `pos`."""
        if text[pos] > " ":
            return pos
        found = _SPACE.match(text, pos)
        assert found is not None
        return found.end()

    # Items.

    def _set_fast_key(self, bracket: OpenBracket, key: str) -> None:
        if bracket.kind is ARGUMENTS:
            self._put_argument_name(key)
        else:
            self._put(KEY, key)
        bracket.expects_value, bracket.expects_key = True, False

    def _put_item_start(self, pos: int) -> None:
        bracket = self.brackets[-1]
        if bracket.kind is not ARGUMENTS:
            super()._put_item_start(pos)
        elif bracket.expects_key:
            self._call.push_buffer()

    def _read_item(self, text: str, pos: int) -> int:
        """Read the start of a value or a key."""
        char, quote = text[pos], self._dialect.quote
        if text.startswith(quote, pos):
            self._begin_string(GemmaString(quote, self._end_markers, self._limits), pos)
            return pos + len(quote)
        if quote.startswith(text[pos : pos + len(quote)]) and not self._progress.final:
            self._progress.wait = True
            return pos
        if char in "\"'":
            self._begin_string(self._make_quoted_string(char), pos)
            return pos + 1
        if char in "[{":
            return self._read_bracket(text, pos)
        if char in ",:}]<":
            return self._handle_unexpected(text, pos)
        self.read_next = self._read_word
        return pos

    def _read_bracket(self, text: str, pos: int) -> int:
        if text[pos] == "{":
            return self._open_brace(_FIRST_MEMBER, text, pos)
        return self._open_bracket(ARRAY, "]", pos)

    def _make_quoted_string(self, quote: str) -> PythonString:
        """Make the reader of a string in ordinary quotes."""
        bracket = self.brackets[-1]
        syntax = python_string_syntax("", quote, self._end_markers, self._dialect.quote)
        return PythonString(syntax, self._string_context(bracket), self._limits)

    # Words.

    def _read_word(self, text: str, pos: int) -> int:
        """A key, a number, a literal or an unquoted string."""
        bracket = self.brackets[-1]
        end = self._gather_word(_KEY if bracket.expects_key else _VALUE, text, pos)
        if end == len(text):
            return end
        if text[end] == "<" and not self._is_end_of_word(text, end):
            return self._read_less_than(text, end)
        self._end_word(bracket, end, lacks_bracket=text[end] == "<" and bool(self._end_markers.marker_at(text, end)))
        return end

    def _is_end_of_word(self, text: str, pos: int) -> bool:
        return text.startswith(self._dialect.quote, pos) or bool(self._end_markers.marker_at(text, pos))

    def _read_less_than(self, text: str, pos: int) -> int:
        """Read a `<` that starts no token as part of the word."""
        quote = self._dialect.quote
        partial = quote.startswith(text[pos : pos + len(quote)]) or self._end_markers.is_partial(text, pos)
        if partial and not self._progress.final:
            self._progress.wait = True
            return pos
        return self._word.gather(_LESS_THAN, text, pos)

    def _end_word(self, bracket: OpenBracket, pos: int, *, lacks_bracket: bool) -> None:
        """Write a key or a value; text without quotes and without the bracket after it may have been longer."""
        word = self._word.take().strip()
        atom = None if bracket.expects_key else atom_to_json(word)
        is_value = atom is None and not bracket.expects_key
        is_number = word.lstrip("+-").lower() in _NOT_A_NUMBER
        is_damaged = is_damaged_word(word) or word.count("(") != word.count(")") or _HOLDS_KEY.search(word)
        if is_value and (lacks_bracket or is_number or is_damaged or _NESTED_CALL.match(word)):
            raise LiteralError("expected a literal", pos)
        self._put_item_start(pos)
        if atom is not None:
            self._call.add_number(word, atom)
            self._put(ATOM, atom)
        else:
            self._call.words.add(word)
            self._call.put_string(json_escape(word))
        self.read_next = self._after_item
