"""The states before the answer: the start of the reply, and reasoning.

Theory of operation. Reasoning tags count only at the start of the reply or after other reasoning. The policy decides
whether markup of a call inside reasoning is a call: never (`ignore`), only if the reasoning never ends and the call
comes last (`recover`), or always (`promote`).

Rule: reasoning is emitted as reasoning, byte for byte; its tags are dropped.
"""

import re
from typing import Literal

from fcshim.parse.machine.calls import CallStates
from fcshim.parse.machine.context import BYTE_ORDER_MARK, REASONING_TAGS
from fcshim.parse.machine.cursor import Cursor, State
from fcshim.parse.machine.openings import FoundOpening, OpeningFinder
from fcshim.parse.machine.output import Output
from fcshim.parse.machine.start_markers import Opening, StartMarkers
from fcshim.parse.markers import marker_set

ReasoningPolicy = Literal["ignore", "recover", "promote"]

_SPACE = re.compile(rf"[\s{BYTE_ORDER_MARK}]*+")
_LOOK_AHEAD = 64
"""Characters at the start of the answer that are compared with tags: the longest tag has 39."""


class ReasoningStates:
    """Separates the reasoning from the answer."""

    def __init__(
        self,
        cursor: Cursor,
        output: Output,
        start_markers: StartMarkers,
        openings: OpeningFinder,
        calls: CallStates,
        policy: ReasoningPolicy,
        own_tags: tuple[tuple[str, str], ...] = (),
    ) -> None:
        """Separate reasoning between `own_tags`, which are the dialect's, or between any known tags."""
        self._tags = (*own_tags, *REASONING_TAGS)
        self._cursor = cursor
        self._output = output
        self._start_markers = start_markers
        self._openings = openings
        self._calls = calls
        self._policy = policy
        self._end_tag = ""
        self._markers = start_markers.all_markers
        """The markers that are searched in reasoning."""

    def before_answer(self, pos: int) -> int:
        """Read the start of the reply, or what follows reasoning."""
        buffer = self._cursor.buffer
        found = _SPACE.match(buffer, pos)
        assert found is not None
        self._output.emit_text(found[0])
        pos = found.end()
        ahead = buffer[pos : pos + _LOOK_AHEAD]
        markers = (*(start_tag for start_tag, _ in self._tags), *self._start_markers.line_start_markers)
        if ahead and any(marker != ahead and marker.startswith(ahead) for marker in markers):
            return self._cursor.wait_from(pos)
        for start_tag, end_tag in self._tags:
            if ahead.startswith(start_tag):
                self.enter(end_tag)
                return pos + len(start_tag)
        marker = self._start_markers.line_start_marker_at(buffer, pos)
        if marker and self._output.line.at_line_start():
            return self._read_line_start_marker(marker, pos)
        call = self._find_line(ahead, pos)
        if call is None:
            return self._cursor.wait_from(pos)
        if not isinstance(call, bool):
            return self._calls.begin(*call, pos)
        if ahead and not self._calls.open_at_reply_start(pos):
            self._cursor.state = State.IN_TEXT
        return pos

    def _find_line(self, ahead: str, pos: int) -> FoundOpening:
        """Return the call without a marker at the start of the reply; a dialect's own body is found like in text."""
        own = not ahead or ahead[0] in self._start_markers.body_start_chars
        return (
            False
            if own or not self._output.line.at_line_start()
            else self._openings.find_line(self._cursor.buffer, pos)
        )

    def _read_line_start_marker(self, marker: str, pos: int) -> int:
        """Read a line-start marker at the start of the reply, which no newline precedes."""
        opening = self._start_markers.find_opening("\n" + marker, self._cursor.buffer, pos - 1)
        if opening is None:
            return self._cursor.wait_from(pos)
        if isinstance(opening, Opening):
            return self._calls.begin(opening, marker, pos)
        self._cursor.state = State.IN_TEXT
        return pos

    def enter(self, end_tag: str) -> None:
        """Enter the reasoning that `end_tag` ends."""
        self._output.flush()
        self._output.in_reasoning = True
        self._end_tag = end_tag
        markers = () if self._policy == "ignore" else self._start_markers.inline_markers
        self._markers = marker_set((end_tag, *markers))
        self._cursor.state = State.IN_REASONING

    def in_reasoning(self, pos: int) -> int:
        """Emit reasoning up to a marker."""
        cursor, buffer = self._cursor, self._cursor.buffer
        found = self._markers.search(buffer, pos)
        if found is None:
            return self._output.emit_up_to(cursor, pos, self._markers.partial_start(buffer, pos))
        start, end = found.span()
        self._output.emit_text(buffer[pos:start])
        if self._markers.is_partial(buffer, start):
            return cursor.wait_from(start)
        if found[0] != self._end_tag:
            return self._begin_call(found[0], start, end)
        self._output.flush()
        self._output.in_reasoning = False
        self._output.line.reset()
        cursor.state = State.BEFORE_ANSWER
        return end

    def _begin_call(self, marker: str, start: int, end: int) -> int:
        opening = self._start_markers.find_opening(marker, self._cursor.buffer, start)
        if opening is None:
            return self._cursor.wait_from(start)
        if not isinstance(opening, Opening):
            self._output.emit_text(marker)
            return end
        if self._policy == "recover":
            self._output.begin_pending("reasoning")
        return self._calls.open(opening, marker, start, State.IN_REASONING)
