"""Read calls in Gemma's syntax: `call:f{key:<|"|>text<|"|>,n:5,list:[true,{a:1}]}`.

    _before_first_call --call:--> _read_name --{--> _in_arguments (`GemmaValues`)
    _between_calls     --call:--> _read_name    --otherwise--> _after_calls

`GemmaBody` reads names and the brace after a name, `GemmaValues` the arguments. Keys are bare words, strings are
enclosed in quote tokens and have no escapes, everything else is as in JSON. Also accepted: keys and strings in ordinary
quotes, and unquoted strings up to the next comma or bracket.

Rule: every tolerance is named in `gemma_call.lark`.
"""

import functools
import re
from dataclasses import dataclass

from fcshim.parse.arguments.atoms import atom_to_json
from fcshim.parse.arguments.entities import holds_entity
from fcshim.parse.arguments.fast_patterns import SPACE as SPACE_PATTERN
from fcshim.parse.arguments.fast_patterns import value_pattern
from fcshim.parse.arguments.literal_words import is_damaged_word
from fcshim.parse.body import BodyReader
from fcshim.parse.dialect import Dialect
from fcshim.parse.limits import Limits
from fcshim.parse.literals.body import LiteralBody
from fcshim.parse.literals.call import LiteralCall
from fcshim.parse.literals.context import ARGUMENTS, ARRAY, DICT, BracketKind
from fcshim.parse.literals.strings import LiteralError, Matcher, json_escape, string_syntax
from fcshim.parse.literals.values import LiteralValues
from fcshim.parse.markers import MAX_RUNS, EndMarkers, non_marker_char
from fcshim.parse.scanner import SPACE, Scanner, decided, none_if_more_needed
from fcshim.parse.sink import CallSink

_SEPARATORS = re.compile(r"[ \t\r\n,;}]{0,64}")
"""Between two calls."""
_MEMBER = re.compile(r"[\s}]{0,64},\s{0,64}[\w-]{1,64}\s{0,16}:")
"""A further member, behind the brace of its call."""
_NAME = re.compile(r"[^{<\n]{0,256}+")
"""The bound limits the text that is held back before it turns out not to be a call."""
_NAME_ALONE = re.compile(r"[ \t]{0,4}+[^\W\d][\w.:-]{0,127}+[ \t]{0,4}+")
"""The name after the word as start marker."""


@none_if_more_needed
def _end_of_word(text: str, pos: int, space: re.Pattern[str], *, is_optional: bool) -> int:
    """Return the end of `call:` at `pos`, behind white space, or 0; None if more text is needed to decide.

    After a marker the word is often lost: then the colon alone counts.
    """
    scan = Scanner(text, pos)
    scan.take(space)
    word = scan.skip("call")
    if word:
        scan.take()
    return scan.pos if (word or is_optional) and scan.skip(":") else 0


@dataclass(frozen=True, slots=True)
class GemmaCalls:
    """Calls in Gemma's syntax; the dialect's `quote` is the token around a string."""

    grammar: str = "gemma_call"

    @none_if_more_needed
    def begins(self, text: str, pos: int) -> bool | None:
        """Return whether `call:`, or a name and its brace, start at `pos`; None while they may."""
        if decided(_end_of_word(text, pos, SPACE, is_optional=True)):
            return True
        scan = Scanner(text, pos)
        return bool(scan.take(_NAME_ALONE) and scan.skip("{"))

    def reader(self, dialect: Dialect, start_marker: str, sink: CallSink, limits: Limits) -> BodyReader:
        """Make the reader of one body."""
        return GemmaBody(dialect, start_marker, sink, limits)


class GemmaBody(LiteralBody):
    """Reads one body."""

    def __init__(self, dialect: Dialect, start_marker: str, sink: CallSink, limits: Limits) -> None:
        super().__init__(GemmaValues, dialect, sink, limits, has_keywords=False)
        if start_marker in dialect.call.words:
            self._state = self._read_name

    def _before_first_call(self, text: str, pos: int) -> int:
        end = _end_of_word(text, pos, SPACE, is_optional=True)
        if not end:
            return self._reject_or_wait(pos, may_go_on=end is None)
        self._state = self._read_name
        return end

    def _reject_or_wait(self, pos: int, *, may_go_on: bool) -> int:
        """Report that no body starts at `pos`, or wait where more text may make it one."""
        if may_go_on:
            self._progress.need_more(pos)
        self._progress.reject_body()
        return pos

    def _read_name(self, text: str, pos: int) -> int:
        """The name of the tool, up to the brace."""
        found = _NAME.match(text, pos)
        assert found is not None
        if text[found.end() : found.end() + 1] != "{":
            return self._reject_or_wait(pos, may_go_on=found.end() == len(text))
        self._begin_call(found[0].strip().removeprefix("call:"), "}")  # `:call:f` is written too
        return found.end() + 1

    def _between_calls(self, text: str, pos: int) -> int:
        """Between two calls or after the last one."""
        pos = self._skip_trailing_space(text, pos)
        if pos == len(text):
            return pos
        end = _end_of_word(text, pos, _SEPARATORS, is_optional=False)
        if end:
            self._state = self._read_name
            return self._skip_to(end)
        if end is None:
            self._progress.need_more(pos)
        self._state = self._after_calls
        return pos

    def _is_rest_of_call(self, text: str) -> bool:
        return _MEMBER.match(text) is not None or (text[:1] == "}" and self._call.has_unlisted_argument())


# The arguments.

_FAST_VALUE = value_pattern(("true", "false", "null"), value_starts=r"<\"'\[{", after_atom=r",}\]")
_NEXT_MEMBER = rf"(?:(?P<key>[^\W\d][\w-]{{0,40}}+)(?::{SPACE_PATTERN}{_FAST_VALUE}|\Z)|\Z)"
_NEXT_PATTERNS: dict[BracketKind, Matcher] = {
    ARRAY: re.compile(f"{SPACE_PATTERN},{SPACE_PATTERN}{_FAST_VALUE}").match,
    **dict.fromkeys((DICT, ARGUMENTS), re.compile(f"{SPACE_PATTERN},{SPACE_PATTERN}{_NEXT_MEMBER}").match),
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
