"""The states before the answer: the start of the reply, and reasoning.

Theory of operation. Reasoning tags count only at the start of the reply or after other reasoning. The policy decides
whether markup of a call inside reasoning is a call: never (`ignore`), only if the reasoning never ends and the call
comes last (`recover`), or always (`promote`).

Rule: reasoning is emitted as reasoning, byte for byte; its tags are dropped.
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
        """Open the call or section at `start`, pending if it may be quoted or must come last in the reply."""

    def _before_answer(self, pos: int) -> int:
        found = _SPACE.match(self._buffer, pos)
        assert found is not None
        self._output.emit_text(found[0])
        pos = found.end()
        ahead = self._buffer[pos : pos + 32]
        markers = (*(start_tag for start_tag, _ in REASONING_TAGS), *self._start_markers.line_start_markers)
        if ahead and any(marker != ahead and marker.startswith(ahead) for marker in markers):
            self._wait = True
            return pos
        for start_tag, end_tag in REASONING_TAGS:
            if ahead.startswith(start_tag):
                self._enter_reasoning(end_tag)
                return pos + len(start_tag)
        marker = self._start_markers.line_start_marker_at(self._buffer, pos)
        if marker and self._output.line.at_line_start():
            return self._read_line_start_marker(marker, pos)
        if ahead:
            self._state = self._in_text
        return pos

    def _read_line_start_marker(self, marker: str, pos: int) -> int:
        """Read a line-start marker at the start of the reply, which no newline precedes."""
        opening = self._start_markers.find_opening("\n" + marker, self._buffer, pos - 1)
        if opening is None:
            self._wait = True
        elif isinstance(opening, Opening):
            return self._begin_call(opening, marker, pos, self._in_text)
        else:
            self._state = self._in_text
        return pos

    def _enter_reasoning(self, end_tag: str) -> None:
        self._output.flush()
        self._output.in_reasoning = True
        self._reasoning_end_tag = end_tag
        markers = () if self._policy == "ignore" else self._start_markers.inline_markers
        self._reasoning_markers = marker_set((end_tag, *markers))
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
        opening = self._start_markers.find_opening(marker, self._buffer, start)
        if opening is None:
            self._wait = True
            return start
        if not isinstance(opening, Opening):
            self._output.emit_text(marker)
            return end
        if self._policy == "recover":
            self._output.begin_pending("reasoning")
        return self._open(opening, marker, start, self._in_reasoning)
