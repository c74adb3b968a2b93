"""Read calls that are written as Python: `[f(a=1), g(b='x')]`, or `f(a=1)` on a line of its own.

    _begin --[--> _between --word--> _named --> _open_call --(--> the arguments (`python_values`)
                    ^                                                 |
                    +--------------------------)----------------------+

Rule: calls only, with a name and brackets; what stands in them is not this file's.
Neighbours: `python_values` reads the arguments, `dialects.python_calls` has the rows.
"""

import re
from dataclasses import dataclass

from fcshim.parse.body import BodyReader, BodyStatus
from fcshim.parse.dialect import Dialect
from fcshim.parse.limits import Limits
from fcshim.parse.literals.python_values import PythonValues
from fcshim.parse.sink import CallSink

_NAME = re.compile(r"[\w.-]*+")
_NAME_START = re.compile(r"[^\W\d]")
_FENCE = re.compile(r"```[a-z_]{0,16}[ \t]*\r?\n")
_PARTIAL_FENCE = re.compile(r"[ \t\r\n]*+`{1,3}(?:(?<=```)[a-z_]{0,16}[ \t]{0,8}\r?)?\Z")
_LOOK_AHEAD = 128
_BODY_PREFIX = r"[ \t\r\n]*+(?:```[a-z_]{0,16}[ \t]*\r?\n[ \t\r\n]*+)?"
_CALL_START = re.compile(_BODY_PREFIX + r"\[*+[ \t\r\n]*+[^\W\d][\w.-]*+[ \t]*+\(")
_PARTIAL_CALL_START = re.compile(_BODY_PREFIX + r"(?:\[++[ \t\r\n]*+)?(?:[^\W\d][\w.-]*+[ \t]*+)?\Z")
_BARE_LIST_START = re.compile(r"\[[ \t\r\n]*+[^\W\d][\w.-]*+[ \t]*+\(")
_PARTIAL_BARE_LIST_START = re.compile(r"\[[ \t\r\n]*+(?:[^\W\d][\w.-]*+[ \t]*+)?\Z")


@dataclass(frozen=True, slots=True)
class PythonCalls:
    """Python calls, in a list or one after the other."""

    bare: bool = False
    """True where no marker surrounds them: then only a list is read."""
    grammar: str = "python_call"

    def begins(self, text: str, pos: int) -> bool | None:
        """Say whether a name and a bracket stand here, at the beginning of a list or alone."""
        end = pos + _LOOK_AHEAD
        if (_BARE_LIST_START if self.bare else _CALL_START).match(text, pos, end):
            return True
        begun = _PARTIAL_BARE_LIST_START if self.bare else _PARTIAL_CALL_START
        return None if len(text) < end and (begun.match(text, pos) or _PARTIAL_FENCE.match(text, pos)) else False

    def reader(self, dialect: Dialect, _opener: str, sink: CallSink, limits: Limits) -> BodyReader:
        """Make the reader of one body."""
        return PythonBody(self, dialect, sink, limits)


class PythonBody(PythonValues):
    """Reads one body."""

    def __init__(self, syntax: PythonCalls, dialect: Dialect, sink: CallSink, limits: Limits) -> None:
        super().__init__(dialect, sink, limits)
        self._bare = syntax.bare
        self._list_depth = 0
        """Brackets that are open around the calls."""

    def _before_first_call(self, text: str, pos: int) -> int:
        pos = self._skip_space(text, pos)
        if pos == len(text):
            return pos
        if text[pos] == "`":
            return self._skip_fence(text, pos)
        if text[pos] == "[":
            self._list_depth += 1
            return pos + 1
        if not _NAME_START.match(text, pos):
            self.status = BodyStatus.NO_BODY
            return pos
        self._state = self._read_name
        return pos

    def _skip_fence(self, text: str, pos: int) -> int:
        """Pass over the line of a code fence inside the markers."""
        found = _FENCE.match(text, pos)
        if found is not None:
            return found.end()
        return self._reject_or_wait(pos, _PARTIAL_FENCE.match(text, pos))

    def _read_name(self, text: str, pos: int) -> int:
        """The name of the tool."""
        end = self._gather(_NAME, text, pos)
        if not self._fits_name:
            return self._end_or_reject(end)
        if end < len(text):
            self._state = self._after_name
        return end

    def _after_name(self, text: str, pos: int) -> int:
        """Behind the name."""
        if text[pos] in " \t":
            return pos + 1
        if text[pos] != "(":
            return self._end_or_reject(pos)
        name = self._take_token()
        if name == "print" and not self._bare and self._sink.resolve(name) is None:
            self._state = self._between_calls  # `print(f(a=1))` shows what the call gives
            return pos + 1
        self._seen_keyword = False
        self._begin_call(name, ")", "]" * self._list_depth)
        return pos + 1

    def _end_or_reject(self, pos: int) -> int:
        """A word that begins no call: there are no more calls, or there never was one."""
        if self.call_count and not self._bare:
            self._take_token()
            self._state = self._skip_trailing_text
        else:
            self._sink.finish()
            self.status = BodyStatus.NO_BODY
        return pos

    def _between_calls(self, text: str, pos: int) -> int:
        """Between two calls, or behind the last."""
        pos = self._skip_space(text, pos)
        if pos == len(text):
            return pos
        char = text[pos]
        if char == "]" and self._list_depth:
            self._list_depth -= 1
            if not self._list_depth:
                self._state = self._after_list if self._bare else self._after_calls
            return self._continue_at(pos + 1)
        if char in ",;" or (char in ")]" and not self._bare):
            return self._continue_at(pos + 1)
        if _NAME_START.match(text, pos):
            self._state = self._read_name
            return pos
        if self._bare:
            return self._end_or_reject(pos)
        self._state = self._after_calls
        return pos

    def _after_list(self, text: str, pos: int) -> int:
        """Behind a list without markers: a bracket shows that it was the text of a link."""
        if text[pos] == "(":
            self._sink.fail_truncated("a link, not a call")
        self._end_body()
        return pos

    def _after_calls(self, text: str, pos: int) -> int:
        """Behind the last call: brackets too many, a fence, then the closing marker."""
        pos = self._skip_space(text, pos)
        if pos < len(text) and text[pos] in ")]":
            return self._continue_at(pos + 1)
        return super()._after_calls(text, pos)

    def _open_depth(self) -> int:
        return self._list_depth + len(self._brackets)

    def _handle_unexpected(self, text: str, pos: int) -> int:
        """Meet the end of the list where that of the call is missing, or something that does not belong here."""
        if text[pos] == "]" and self._list_depth and len(self._brackets) == 1 and not self._brackets[0].expects_value:
            return self._close_bracket(pos) - 1
        return super()._handle_unexpected(text, pos)

    def _has_trailing_text(self) -> bool:
        return super()._has_trailing_text() or (self.call_count > 0 and bool(self._token))

    def _is_complete(self) -> bool:
        return self._state == self._after_list
