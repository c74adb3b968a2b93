"""What may stand behind a call of JSON in its body: the closing marker, further calls, a remark.

Rule: once a body is complete only a short remark may delay its end; without a marker behind it, it is text again.
Neighbours: `body` reads the calls, `mended` those that are not strict.
"""

import re
from abc import abstractmethod

from fcshim.parse.body import Status
from fcshim.parse.dialect import Dialect
from fcshim.parse.json.mended import MendedJson
from fcshim.parse.limits import Limits
from fcshim.parse.remark import Remark, RemarkReader
from fcshim.parse.sink import CallSink

_SEPARATOR = re.compile(r"[ \t\r\n]{0,32};[ \t\r\n]{0,32}")
_SEPARATOR_BEGUN = re.compile(r"[ \t\r\n]{0,32}(?:;[ \t\r\n]{0,32})?\Z")


class JsonEnding(MendedJson, RemarkReader):
    """Reads what follows a complete call."""

    def __init__(self, dialect: Dialect, opener: str, sink: CallSink, limits: Limits) -> None:
        super().__init__(dialect, opener, sink, limits)
        self._base_depth = 1
        self._semicolons = False
        self._remark = Remark(self._closers, self._markers)
        """What stands behind the last call, white space included."""

    @abstractmethod
    def _another_call(self) -> None:
        """Begin to read a further call of this body."""

    def _skip_space(self, text: str, pos: int) -> int:
        while pos < len(text) and text[pos] in " \t\r\n":
            pos += 1
        return pos

    def _done(self, text: str, pos: int) -> int:
        if not self._dialect.closes_bodies:
            return self._next_behind_semicolon(text, pos)
        start, pos = pos, self._skip_space(text, pos)
        if pos > start and not self._dry:
            self._remark.add(text[start:pos])
        if self._remark.size > self._limits.mend:
            self.rest = self._remark.text()
            self._end()
            return pos
        if pos == len(text):
            return pos
        end = self._closers.passed(text, pos)
        if end == pos:
            return self._not_closed(text, pos)
        if end is None:
            self._wait = True
            return pos
        self._end()
        return end

    def _not_closed(self, text: str, pos: int) -> int:
        """Meet something else than the closing marker behind a call."""
        if self._dry and self._dialect.fenced:
            self._state = self._skip
        elif self._dry:
            self.status = Status.ENDED
        elif text[pos] == "{" and self._base_depth == 1:
            self._remark.clear()
            self._another_call()
        else:
            self._state = self._pass_remark
        return pos

    def _next_behind_semicolon(self, text: str, pos: int) -> int:
        if self._semicolons and not self._dry:
            found = _SEPARATOR.match(text, pos)
            if found is not None and text.startswith("{", found.end()):
                self._another_call()
                return found.end()
            if _SEPARATOR_BEGUN.match(text, pos):
                self._wait = True
                return pos
        self._end()
        return pos

    def _close_complete(self, tail: str, *, natural: bool) -> None:
        if self._dry:
            return
        remarks = self._state == self._pass_remark
        begun = not remarks and len(tail) > 1 and self._closers.begun(tail, 0)
        self.rest = (self._remark.text() if remarks else "") + ("" if begun else tail)
        if natural or remarks:
            self._sink.finish()
        else:
            self._sink.cut_off("the reply ended before the closing marker")
