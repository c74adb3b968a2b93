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
from fcshim.parse.literals.atoms import strict_atom
from fcshim.parse.literals.body import LiteralBody
from fcshim.parse.literals.calls import ATOM, KEY, MalformedError
from fcshim.parse.literals.frames import ARGUMENTS, ARRAY, DICT, Frame
from fcshim.parse.literals.gemma_strings import GemmaString
from fcshim.parse.literals.python_strings import PythonString, quotation_of
from fcshim.parse.literals.quoted import spelled
from fcshim.parse.sink import CallSink

_SPACE = re.compile(r"[ \t\r\n\f]*+")
_CALL = re.compile(r"[ \t\r\n]{0,64}call[ \t]{0,16}:")
_CALL_BEGUN = re.compile(r"[ \t\r\n]{0,64}(?:c(?:a(?:ll?)?)?|call[ \t]{1,16})?\Z")
_NAME = re.compile(r"[^{<\n]*+")
_KEY = re.compile(r"[^:,{}\[\]<\n]*+")
_VALUE = re.compile(r"[^,{}\[\]<\n]*+")
_LESS = re.compile("<")
_TYPED = value_pattern(("true", "false", "null"), value_starts=r"<\"'\[{", after_atom=r",}\]")
_MEMBER = rf"(?:(?P<key>[^\W\d][\w-]{{0,40}}+)(?::{SPACE}{_TYPED}|\Z)|\Z)"
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
        return None if _CALL_BEGUN.match(text, pos) else False

    def reader(self, dialect: Dialect, _opener: str, sink: CallSink, limits: Limits) -> BodyReader:
        """Make the reader of one body."""
        return GemmaBody(dialect, sink, limits)


class GemmaBody(LiteralBody):
    """Reads one body."""

    _next_value = re.compile(f"{SPACE},{SPACE}{_TYPED}")
    _next_member = _next_argument = re.compile(f"{SPACE},{SPACE}{_MEMBER}")

    # Around the calls.

    def _begin(self, text: str, pos: int) -> int:
        found = _CALL.match(text, pos)
        if found is not None:
            self._state = self._named
            return found.end()
        return self._no_body(pos, _CALL_BEGUN.match(text, pos))

    def _named(self, text: str, pos: int) -> int:
        """The name of the tool, up to the bracket."""
        end = self._gather(_NAME, text, pos)
        if end == len(text) and self._fits_name:
            return end
        if not self._fits_name or text[end] != "{":
            self._sink.finish()
            self.status = BodyStatus.NO_BODY
            return end
        self._call_begins(self._taken_token().strip(), "}")
        if self._frames:
            self._frames[0].key = True
        return end + 1

    def _between(self, text: str, pos: int) -> int:
        """Between two calls, or behind the last; brackets too many are passed over."""
        pos = self._space(text, pos)
        if pos == len(text):
            return pos
        if text[pos] in ",;}":
            return self._passed(pos + 1)
        if _CALL.match(text, pos):
            self._state = self._begin
        elif _CALL_BEGUN.match(text, pos) and not self._final:
            self._wait = True
        else:
            self._state = self._behind
        return pos

    def _space(self, text: str, pos: int) -> int:
        found = _SPACE.match(text, pos)
        assert found is not None
        return found.end()

    # Items.

    def _usual_key(self, frame: Frame, key: str) -> None:
        if frame.kind is ARGUMENTS:
            self._put_key(key)
        else:
            self._put(KEY, key)
        frame.keyed, frame.key = True, False

    def _put_item(self, pos: int) -> None:
        frame = self._frames[-1]
        if frame.kind is not ARGUMENTS:
            super()._put_item(pos)
        elif frame.key:
            self._hold()

    def _item_begins(self, text: str, pos: int) -> int:
        """Read the beginning of a value or a key."""
        char, quote = text[pos], self._dialect.quote
        if text.startswith(quote, pos):
            self._string_begins(GemmaString(quote, self._closers, self._limits), pos)
            return pos + len(quote)
        if quote.startswith(text[pos : pos + len(quote)]) and not self._final:
            self._wait = True
            return pos
        if char in "\"'":
            self._string_begins(self._quoted(char), pos)
            return pos + 1
        if char in "[{":
            return self._bracket(text, pos)
        if char in ",:}]<":
            return self._odd(text, pos)
        self._state = self._word
        return pos

    def _bracket(self, text: str, pos: int) -> int:
        if text[pos] == "{":
            return self._open_brace(DICT, _FIRST_MEMBER, text, pos)
        return self._open(ARRAY, "]", pos)

    def _quoted(self, quote: str) -> PythonString:
        """Make the reader of a string in ordinary quotes."""
        frame = self._frames[-1]
        quotation = quotation_of("", quote, self._closers, self._dialect.quote)
        return PythonString(quotation, frame.closing, self._limits, key=frame.key)

    # Words.

    def _word(self, text: str, pos: int) -> int:
        """A key, a number, a literal, or a string without quotes."""
        frame = self._frames[-1]
        end, ended = self._gather_word(_KEY if frame.key else _VALUE, text, pos)
        if not ended:
            return end
        if text[end] == "<" and not self._ends_word(text, end):
            return self._less_than(text, end)
        self._word_ended(frame, end)
        return end

    def _ends_word(self, text: str, pos: int) -> bool:
        return text.startswith(self._dialect.quote, pos) or bool(self._closers.marker_at(text, pos))

    def _less_than(self, text: str, pos: int) -> int:
        """`<` that begins no token is part of the word."""
        quote = self._dialect.quote
        begun = quote.startswith(text[pos : pos + len(quote)]) or self._closers.is_partial(text, pos)
        if begun and not self._final:
            self._wait = True
            return pos
        return self._gather(_LESS, text, pos)

    def _word_ended(self, frame: Frame, pos: int) -> None:
        word = self._taken_token().strip()
        atom = None if frame.key else strict_atom(word)
        if atom is None and not frame.key and word.lstrip("+-").lower() in _NOT_A_NUMBER:
            raise MalformedError("expected a literal", pos)
        self._put_item(pos)
        if atom is not None:
            self._put(ATOM, atom)
        else:
            self._put_string(spelled(word))
        self._state = self._after
