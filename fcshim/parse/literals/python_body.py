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
_NAME_BEGINS = re.compile(r"[^\W\d]")
_FENCE = re.compile(r"```[a-z_]{0,16}[ \t]*\r?\n")
_FENCE_BEGUN = re.compile(r"[ \t\r\n]*+`{1,3}(?:(?<=```)[a-z_]{0,16}[ \t]{0,8}\r?)?\Z")
_LOOK_AHEAD = 128
_LEAD = r"[ \t\r\n]*+(?:```[a-z_]{0,16}[ \t]*\r?\n[ \t\r\n]*+)?"
_BEGINS = re.compile(_LEAD + r"\[*+[ \t\r\n]*+[^\W\d][\w.-]*+[ \t]*+\(")
_BEGUN = re.compile(_LEAD + r"(?:\[++[ \t\r\n]*+)?(?:[^\W\d][\w.-]*+[ \t]*+)?\Z")
_BARE = re.compile(r"\[[ \t\r\n]*+[^\W\d][\w.-]*+[ \t]*+\(")
_BARE_BEGUN = re.compile(r"\[[ \t\r\n]*+(?:[^\W\d][\w.-]*+[ \t]*+)?\Z")


@dataclass(frozen=True, slots=True)
class PythonCalls:
    """Python calls, in a list or one after the other."""

    bare: bool = False
    """True where no marker surrounds them: then only a list is read."""
    grammar: str = "python_call"

    def begins(self, text: str, pos: int) -> bool | None:
        """Say whether a name and a bracket stand here, at the beginning of a list or alone."""
        end = pos + _LOOK_AHEAD
        if (_BARE if self.bare else _BEGINS).match(text, pos, end):
            return True
        begun = _BARE_BEGUN if self.bare else _BEGUN
        return None if len(text) < end and (begun.match(text, pos) or _FENCE_BEGUN.match(text, pos)) else False

    def reader(self, dialect: Dialect, _opener: str, sink: CallSink, limits: Limits) -> BodyReader:
        """Make the reader of one body."""
        return PythonBody(self, dialect, sink, limits)


class PythonBody(PythonValues):
    """Reads one body."""

    def __init__(self, shape: PythonCalls, dialect: Dialect, sink: CallSink, limits: Limits) -> None:
        super().__init__(dialect, sink, limits)
        self._bare = shape.bare
        self._lists = 0
        """Brackets that are open around the calls."""

    def _begin(self, text: str, pos: int) -> int:
        pos = self._space(text, pos)
        if pos == len(text):
            return pos
        if text[pos] == "`":
            return self._fence(text, pos)
        if text[pos] == "[":
            self._lists += 1
            return pos + 1
        if not _NAME_BEGINS.match(text, pos):
            self.status = BodyStatus.NO_BODY
            return pos
        self._state = self._named
        return pos

    def _fence(self, text: str, pos: int) -> int:
        """Pass over the line of a code fence inside the markers."""
        found = _FENCE.match(text, pos)
        if found is not None:
            return found.end()
        return self._no_body(pos, _FENCE_BEGUN.match(text, pos))

    def _named(self, text: str, pos: int) -> int:
        """The name of the tool."""
        end = self._gather(_NAME, text, pos)
        if not self._fits_name:
            return self._no_call(end)
        if end < len(text):
            self._state = self._open_call
        return end

    def _open_call(self, text: str, pos: int) -> int:
        """Behind the name."""
        if text[pos] in " \t":
            return pos + 1
        if text[pos] != "(":
            return self._no_call(pos)
        name = self._taken_token()
        if name == "print" and not self._bare and self._sink.resolve(name) is None:
            self._state = self._between  # `print(f(a=1))` shows what the call gives
            return pos + 1
        self._keywords = False
        self._call_begins(name, ")", "]" * self._lists)
        return pos + 1

    def _no_call(self, pos: int) -> int:
        """A word that begins no call: there are no more calls, or there never was one."""
        if self.call_count and not self._bare:
            self._taken_token()
            self._state = self._trailing
        else:
            self._sink.finish()
            self.status = BodyStatus.NO_BODY
        return pos

    def _between(self, text: str, pos: int) -> int:
        """Between two calls, or behind the last."""
        pos = self._space(text, pos)
        if pos == len(text):
            return pos
        char = text[pos]
        if char == "]" and self._lists:
            self._lists -= 1
            if not self._lists:
                self._state = self._behind_list if self._bare else self._behind
            return self._passed(pos + 1)
        if char in ",;" or (char in ")]" and not self._bare):
            return self._passed(pos + 1)
        if _NAME_BEGINS.match(text, pos):
            self._state = self._named
            return pos
        if self._bare:
            return self._no_call(pos)
        self._state = self._behind
        return pos

    def _behind_list(self, text: str, pos: int) -> int:
        """Behind a list without markers: a bracket shows that it was the text of a link."""
        if text[pos] == "(":
            self._sink.fail_truncated("a link, not a call")
        self._end_body()
        return pos

    def _behind(self, text: str, pos: int) -> int:
        """Behind the last call: brackets too many, a fence, then the closing marker."""
        pos = self._space(text, pos)
        if pos < len(text) and text[pos] in ")]":
            return self._passed(pos + 1)
        return super()._behind(text, pos)

    def _depth(self) -> int:
        return self._lists + len(self._frames)

    def _odd(self, text: str, pos: int) -> int:
        """Meet the end of the list where that of the call is missing, or something that does not belong here."""
        if text[pos] == "]" and self._lists and len(self._frames) == 1 and not self._frames[0].keyed:
            return self._close(pos) - 1
        return super()._odd(text, pos)

    def _remarks(self) -> bool:
        return super()._remarks() or (self.call_count > 0 and bool(self._token))

    def _whole(self) -> bool:
        return self._state == self._behind_list
