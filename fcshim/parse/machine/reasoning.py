"""The start of the reply, where reasoning may stand, and the reasoning.

Theory of operation. Reasoning tags open only at the start of the reply or behind reasoning. The policy says what
becomes of a call inside: it is none, or one if the reasoning never closes and the call comes last, or always one.

Rule: reasoning is said as such, byte for byte, and its tags are dropped.
Neighbours: `surroundings` has the tags, `held` keeps a call until the reasoning has ended, `stream` reads the answer.
"""

import re
from abc import abstractmethod
from collections.abc import Callable
from typing import Literal

from fcshim.parse.dialect import Dialect
from fcshim.parse.limits import Limits
from fcshim.parse.machine.context import REASONING_TAGS, LineContext
from fcshim.parse.machine.pending_calls import PendingCallMachine
from fcshim.parse.machine.start_markers import Opening, StartMarkers
from fcshim.parse.markers import marker_set
from fcshim.parse.sink import CallSink

ReasoningPolicy = Literal["ignore", "recover", "promote"]

_SPACE = re.compile(r"\s*+")


class ReasoningMachine(PendingCallMachine):
    """The states before the answer."""

    def __init__(
        self,
        start_markers: StartMarkers,
        sink: CallSink,
        limits: Limits,
        *,
        primary: Dialect | None,
        fenced_calls: bool,
        policy: ReasoningPolicy,
    ) -> None:
        super().__init__(start_markers, sink, limits, primary=primary, fenced_calls=fenced_calls)
        self._policy = policy
        self._reasoning_end_tag = ""
        self._reasoning_markers = start_markers.all_markers

    @abstractmethod
    def _begin_call(self, opening: Opening, marker: str, start: int, return_state: Callable[[int], int]) -> int:
        """Open what begins here, held where it may be quoted or must be the last thing."""

    def _before_answer(self, pos: int) -> int:
        found = _SPACE.match(self._buffer, pos)
        assert found is not None
        self._output.emit_text(found[0])
        pos = found.end()
        rest = self._buffer[pos : pos + 32]
        begun = (*(opener for opener, _ in REASONING_TAGS), *self._start_markers.line_start_markers)
        if rest and any(opener != rest and opener.startswith(rest) for opener in begun):
            self._wait = True
            return pos
        for opener, closer in REASONING_TAGS:
            if rest.startswith(opener):
                self._enter_reasoning(closer)
                return pos + len(opener)
        word = self._start_markers.line_start_marker_at(self._buffer, pos)
        if word and self._output.line.at_line_start():
            return self._read_line_start_marker(word, pos)
        if rest:
            self._state = self._in_text
        return pos

    def _read_line_start_marker(self, marker: str, pos: int) -> int:
        """A word that opens a call at the start of a line stands where no newline was before it."""
        picked = self._start_markers.find_opening("\n" + marker, self._buffer, pos - 1)
        if picked is None:
            self._wait = True
        elif isinstance(picked, Opening):
            return self._begin_call(picked, marker, pos, self._in_text)
        else:
            self._state = self._in_text
        return pos

    def _enter_reasoning(self, end_tag: str) -> None:
        self._output.flush()
        self._output.in_reasoning = True
        self._reasoning_end_tag = end_tag
        seen = () if self._policy == "ignore" else self._start_markers.inline_markers
        self._reasoning_markers = marker_set((end_tag, *seen))
        self._state = self._in_reasoning

    def _in_reasoning(self, pos: int) -> int:
        found = self._reasoning_markers.search(self._buffer, pos)
        if found is None:
            return self._emit_up_to(self._reasoning_markers.partial_start(self._buffer, pos), pos)
        start, end = found.span()
        self._output.emit_text(self._buffer[pos:start])
        if self._reasoning_markers.is_partial(self._buffer, start):
            self._wait = True
            return start
        if found[0] != self._reasoning_end_tag:
            return self._begin_call_in_reasoning(found[0], start, end)
        self._output.flush()
        self._output.in_reasoning = False
        self._output.line = LineContext()
        self._state = self._before_answer
        return end

    def _begin_call_in_reasoning(self, marker: str, start: int, end: int) -> int:
        picked = self._start_markers.find_opening(marker, self._buffer, start)
        if picked is None:
            self._wait = True
            return start
        if not isinstance(picked, Opening):
            self._output.emit_text(marker)
            return end
        if self._policy == "recover":
            self._output.begin_pending("reasoning")
        return self._open(picked, marker, start, self._in_reasoning)
