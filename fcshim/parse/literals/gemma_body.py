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
