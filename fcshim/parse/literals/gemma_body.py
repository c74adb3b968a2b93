"""Read calls in Gemma's syntax: `call:f{key:<|"|>text<|"|>,n:5,list:[true,{a:1}]}`.

    _before_first_call --call:--> _read_name --{--> _in_arguments (`gemma_values`)
    _between_calls     --call:--> _read_name    --otherwise--> _after_calls

Rule: this module reads names and the brace after a name; `gemma_values` reads the arguments.
"""

import re
from dataclasses import dataclass

from fcshim.parse.body import BodyReader
from fcshim.parse.dialect import Dialect
from fcshim.parse.limits import Limits
from fcshim.parse.literals.body import LiteralBody
from fcshim.parse.literals.gemma_values import GemmaValues
from fcshim.parse.sink import CallSink

# White space is bounded here because `begins` must look at a bounded number of characters.
_NEXT_CALL = re.compile(r"[ \t\r\n,;}]{0,64}call[ \t]{0,16}:")
_PARTIAL_NEXT_CALL = re.compile(r"[ \t\r\n,;}]{0,64}(?:c(?:a(?:ll?)?)?|call[ \t]{1,16})?\Z")
_PARTIAL_CALL = re.compile(r"[ \t\r\n]{0,64}(?:c(?:a(?:ll?)?)?|call[ \t]{1,16})?\Z")
_FIRST_CALL = re.compile(r"[ \t\r\n]{0,64}(?:call[ \t]{0,16})?:")
"""The word is often lost after the marker."""
_NAME_AND_BRACE = re.compile(r"[ \t]{0,4}+[^\W\d][\w.:-]{0,127}+[ \t]{0,4}+\{")
"""After the word as start marker."""
_PARTIAL_NAME = re.compile(r"[ \t]{0,4}+(?:[^\W\d][\w.:-]{0,127}+[ \t]{0,4}+)?\Z")
_MEMBER = re.compile(r"[\s}]{0,64},\s{0,64}[\w-]{1,64}\s{0,16}:")
"""A further member, behind the brace of its call."""
_NAME = re.compile(r"[^{<\n]{0,256}+")
"""The bound limits the text that is held back before it turns out not to be a call."""


@dataclass(frozen=True, slots=True)
class GemmaCalls:
    """Calls in Gemma's syntax; the dialect's `quote` is the token around a string."""

    grammar: str = "gemma_call"

    def begins(self, text: str, pos: int) -> bool | None:
        """Return whether `call:`, or a name and its brace, start at `pos`; None while they may."""
        if _FIRST_CALL.match(text, pos) or _NAME_AND_BRACE.match(text, pos):
            return True
        return None if _PARTIAL_CALL.match(text, pos) or _PARTIAL_NAME.match(text, pos) else False

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
        found = _FIRST_CALL.match(text, pos)
        if found is not None:
            self._state = self._read_name
            return found.end()
        return self._reject_or_wait(pos, _PARTIAL_CALL.match(text, pos))

    def _reject_or_wait(self, pos: int, partial: object) -> int:
        """Report that no body starts at `pos`, or wait where a partial match may become one."""
        if partial:
            self._progress.need_more(pos)
        self._progress.reject_body()
        return pos

    def _read_name(self, text: str, pos: int) -> int:
        """The name of the tool, up to the brace."""
        found = _NAME.match(text, pos)
        assert found is not None
        if text[found.end() : found.end() + 1] != "{":
            return self._reject_or_wait(pos, found.end() == len(text))
        self._begin_call(found[0].strip().removeprefix("call:"), "}")  # `:call:f` is written too
        return found.end() + 1

    def _between_calls(self, text: str, pos: int) -> int:
        """Between two calls or after the last one."""
        pos = self._skip_trailing_space(text, pos)
        if pos == len(text):
            return pos
        found = _NEXT_CALL.match(text, pos)
        if found is not None:
            self._state = self._read_name
            return self._skip_to(found.end())
        if _PARTIAL_NEXT_CALL.match(text, pos):
            self._progress.need_more(pos)
        self._state = self._after_calls
        return pos

    def _is_rest_of_call(self, text: str) -> bool:
        return _MEMBER.match(text) is not None or (text[:1] == "}" and self._call.has_unlisted_argument())
