"""Read calls that are written as Gemma does: `call:f{key:<|"|>text<|"|>,n:5,list:[true,{a:1}]}`.

Theory of operation. Keys are bare words, strings stand between tokens and have no escapes, all else is as in JSON. Also
read: keys and strings in ordinary quotes, and strings without any, up to the next comma or bracket.

    _begin --call:--> _named --{--> _item --word--> _word --:--> _item --token--> _in_string --> _after
       ^                                                                                           |
       +-----------------------------------------------------------------------------------}------+

Rule: every tolerance is named in `gemma_call.lark`.
Neighbours: `body` has the brackets, `gemma_strings` and `python_strings` the strings, `atoms` the numbers.
"""

import re
from dataclasses import dataclass

from fcshim.parse.arguments.fast_patterns import SPACE, value_pattern
from fcshim.parse.body import BodyReader, BodyStatus
from fcshim.parse.dialect import Dialect
from fcshim.parse.limits import Limits
from fcshim.parse.literals.atoms import atom_to_json
from fcshim.parse.literals.body import LiteralBody
from fcshim.parse.literals.brackets import ARGUMENTS, ARRAY, DICT, OpenBracket
from fcshim.parse.literals.calls import ATOM, KEY, MalformedError
from fcshim.parse.literals.gemma_strings import GemmaString
from fcshim.parse.literals.python_strings import PythonString, python_string_syntax
from fcshim.parse.literals.quoted_strings import json_escape
from fcshim.parse.sink import CallSink

_SPACE = re.compile(r"[ \t\r\n\f]*+")
_CALL = re.compile(r"[ \t\r\n]{0,64}call[ \t]{0,16}:")
_PARTIAL_CALL = re.compile(r"[ \t\r\n]{0,64}(?:c(?:a(?:ll?)?)?|call[ \t]{1,16})?\Z")
_NAME = re.compile(r"[^{<\n]*+")
_KEY = re.compile(r"[^:,{}\[\]<\n]*+")
_VALUE = re.compile(r"[^,{}\[\]<\n]*+")
_LESS_THAN = re.compile("<")
_FAST_VALUE = value_pattern(("true", "false", "null"), value_starts=r"<\"'\[{", after_atom=r",}\]")
_MEMBER = rf"(?:(?P<key>[^\W\d][\w-]{{0,40}}+)(?::{SPACE}{_FAST_VALUE}|\Z)|\Z)"
_FIRST_MEMBER = re.compile(rf"\{{{SPACE}{_MEMBER}")
_NOT_A_NUMBER = frozenset({"nan", "inf", "infinity", "undefined"})


@dataclass(frozen=True, slots=True)
class GemmaCalls:
    """Calls as Gemma writes them; the dialect's `quote` is what stands around a string."""

    grammar: str = "gemma_call"

    def begins(self, text: str, pos: int) -> bool | None:
        """Say whether `call:` stands here."""
        if _CALL.match(text, pos):
            return True
        return None if _PARTIAL_CALL.match(text, pos) else False

    def reader(self, dialect: Dialect, _opener: str, sink: CallSink, limits: Limits) -> BodyReader:
        """Make the reader of one body."""
        return GemmaBody(dialect, sink, limits)


class GemmaBody(LiteralBody):
    """Reads one body."""

    _next_value_pattern = re.compile(f"{SPACE},{SPACE}{_FAST_VALUE}")
    _next_member_pattern = _next_argument_pattern = re.compile(f"{SPACE},{SPACE}{_MEMBER}")

    # Around the calls.

    def _before_first_call(self, text: str, pos: int) -> int:
        found = _CALL.match(text, pos)
        if found is not None:
            self._state = self._read_name
            return found.end()
        return self._reject_or_wait(pos, _PARTIAL_CALL.match(text, pos))

    def _read_name(self, text: str, pos: int) -> int:
        """The name of the tool, up to the bracket."""
        end = self._gather(_NAME, text, pos)
        if end == len(text) and self._fits_name:
            return end
        if not self._fits_name or text[end] != "{":
            self._sink.finish()
            self.status = BodyStatus.NO_BODY
            return end
        self._begin_call(self._take_token().strip(), "}")
        if self._brackets:
            self._brackets[0].expects_key = True
        return end + 1

    def _between_calls(self, text: str, pos: int) -> int:
        """Between two calls, or behind the last; brackets too many are passed over."""
        pos = self._skip_space(text, pos)
        if pos == len(text):
            return pos
        if text[pos] in ",;}":
            return self._continue_at(pos + 1)
        if _CALL.match(text, pos):
            self._state = self._before_first_call
        elif _PARTIAL_CALL.match(text, pos) and not self._final:
            self._wait = True
        else:
            self._state = self._after_calls
        return pos

    def _skip_space(self, text: str, pos: int) -> int:
        found = _SPACE.match(text, pos)
        assert found is not None
        return found.end()

    # Items.

    def _set_fast_key(self, frame: OpenBracket, key: str) -> None:
        if frame.kind is ARGUMENTS:
            self._put_argument_name(key)
        else:
            self._put(KEY, key)
        frame.expects_value, frame.expects_key = True, False

    def _put_item_start(self, pos: int) -> None:
        frame = self._brackets[-1]
        if frame.kind is not ARGUMENTS:
            super()._put_item_start(pos)
        elif frame.expects_key:
            self._push_buffer()

    def _read_item(self, text: str, pos: int) -> int:
        """Read the beginning of a value or a key."""
        char, quote = text[pos], self._dialect.quote
        if text.startswith(quote, pos):
            self._begin_string(GemmaString(quote, self._end_markers, self._limits), pos)
            return pos + len(quote)
        if quote.startswith(text[pos : pos + len(quote)]) and not self._final:
            self._wait = True
            return pos
        if char in "\"'":
            self._begin_string(self._make_quoted_string(char), pos)
            return pos + 1
        if char in "[{":
            return self._read_bracket(text, pos)
        if char in ",:}]<":
            return self._handle_unexpected(text, pos)
        self._state = self._read_word
        return pos

    def _read_bracket(self, text: str, pos: int) -> int:
        if text[pos] == "{":
            return self._open_brace(DICT, _FIRST_MEMBER, text, pos)
        return self._open_bracket(ARRAY, "]", pos)

    def _make_quoted_string(self, quote: str) -> PythonString:
        """Make the reader of a string in ordinary quotes."""
        frame = self._brackets[-1]
        quotation = python_string_syntax("", quote, self._end_markers, self._dialect.quote)
        return PythonString(quotation, frame.closing_brackets, self._limits, may_be_key=frame.expects_key)

    # Words.

    def _read_word(self, text: str, pos: int) -> int:
        """A key, a number, a literal, or a string without quotes."""
        frame = self._brackets[-1]
        end, ended = self._gather_word(_KEY if frame.expects_key else _VALUE, text, pos)
        if not ended:
            return end
        if text[end] == "<" and not self._is_end_of_word(text, end):
            return self._read_less_than(text, end)
        self._end_word(frame, end)
        return end

    def _is_end_of_word(self, text: str, pos: int) -> bool:
        return text.startswith(self._dialect.quote, pos) or bool(self._end_markers.marker_at(text, pos))

    def _read_less_than(self, text: str, pos: int) -> int:
        """`<` that begins no token is part of the word."""
        quote = self._dialect.quote
        begun = quote.startswith(text[pos : pos + len(quote)]) or self._end_markers.is_partial(text, pos)
        if begun and not self._final:
            self._wait = True
            return pos
        return self._gather(_LESS_THAN, text, pos)

    def _end_word(self, frame: OpenBracket, pos: int) -> None:
        word = self._take_token().strip()
        atom = None if frame.expects_key else atom_to_json(word)
        if atom is None and not frame.expects_key and word.lstrip("+-").lower() in _NOT_A_NUMBER:
            raise MalformedError("expected a literal", pos)
        self._put_item_start(pos)
        if atom is not None:
            self._put(ATOM, atom)
        else:
            self._put_string(json_escape(word))
        self._state = self._after_item
