"""The states of the answer's text: markers, tool results that the model repeats, the end at a role marker.

Rule: no text is searched twice; only a tail that is a proper prefix of a marker waits.
"""

from fcshim.parse.machine.calls import CallStates
from fcshim.parse.machine.code import CodeStates
from fcshim.parse.machine.cursor import Cursor, State
from fcshim.parse.machine.openings import FoundOpening, OpeningFinder
from fcshim.parse.machine.output import Output
from fcshim.parse.machine.pending_calls import PendingCallStates
from fcshim.parse.machine.start_markers import StartMarkers
from fcshim.parse.markers import marker_set


class TextStates:
    """Searches the answer for markers."""

    def __init__(
        self,
        cursor: Cursor,
        output: Output,
        start_markers: StartMarkers,
        openings: OpeningFinder,
        code: CodeStates,
        calls: CallStates,
        pending_calls: PendingCallStates,
    ) -> None:
        self._cursor = cursor
        self._output = output
        self._start_markers = start_markers
        self._openings = openings
        self._code = code
        self._calls = calls
        self._pending_calls = pending_calls
        self._result_end_tag = ""

    def find_plain_end(self, text: str) -> int:
        """Return the end of a piece of plain text, which may end with a proper marker prefix; else -1."""
        markers = self._start_markers
        head = self._output.line.head
        # Inside a line fewer characters can begin a marker, but that pattern matches only up to a newline.
        for plain in (
            (markers.plain_text_in_line, markers.plain_text) if head and not head.isspace() else (markers.plain_text,)
        ):
            found = plain.match(text)
            assert found is not None
            end = found.end()
            if end == len(text) or markers.all_markers.is_partial(text, end):
                return end
        return -1

    def in_text(self, pos: int) -> int:
        """Emit text up to a marker or a run of backticks or tildes."""
        cursor, buffer, markers = self._cursor, self._cursor.buffer, self._start_markers.all_markers
        found = markers.search(buffer, pos)
        if found is None:
            return self._output.emit_up_to(cursor, pos, markers.partial_start(buffer, pos))
        start, end, marker = found.start(), found.end(), found[0]
        if len(buffer) - start < markers.max_length:
            tail = markers.partial_start(buffer, pos)
            if tail < start:  # the match may be part of a longer marker that is not complete yet
                return self._output.emit_up_to(cursor, pos, tail)
        self._output.emit_text(buffer[pos:start])
        if marker[0] == "`" and self._output.line.at_line_start():
            opened = self._read_code_span(start)
            if opened >= 0:
                return opened
        if marker[0] in "`~":
            return self._code.read_run(start, end, self._pending_calls.open_fence)
        if markers.is_partial(buffer, start):
            return cursor.wait_from(start)
        return self._read_marker(marker, start, end)

    def _read_marker(self, marker: str, start: int, end: int) -> int:
        if marker in self._start_markers.openings or marker in self._start_markers.line_start_chars:
            return self._read_start_marker(marker, start, end)
        if marker in self._start_markers.result_tags:
            return self._read_result_tag(marker, end)
        if marker in self._start_markers.markup:
            self._cursor.state = State.BEFORE_ANSWER
        else:
            self._output.emit_text(marker)
            self._cursor.state = State.AFTER_ROLE_MARKER
        return end

    def _read_start_marker(self, marker: str, start: int, end: int) -> int:
        """Open a call, or emit the marker as text if it is quoted or opens nothing here."""
        found = self._find_opening(marker, start)
        if found is None:
            return self._cursor.wait_from(start)
        if isinstance(found, bool) or (marker[0] != "\n" and self._output.line.is_block_quote()):
            self._output.emit_text(marker)
            return end
        opening, marker = found
        if marker[0] == "\n":
            self._output.emit_text("\n")
            start, marker = start + 1, marker[1:]
        return self._calls.begin(opening, marker, start)

    def _read_code_span(self, start: int) -> int:
        """Open a call in a code span that stands at the start of a line; return -1 if it has none."""
        found = self._openings.find_line(self._cursor.buffer, start)
        if found is None:
            return self._cursor.wait_from(start)
        return self._calls.begin(*found, start) if isinstance(found, tuple) else -1

    def _find_opening(self, marker: str, start: int) -> FoundOpening:
        if marker not in self._start_markers.line_start_chars:
            return self._openings.find(marker, self._cursor.buffer, start)
        at_line_start = self._output.line.at_line_start()
        return self._openings.find_at_line_start(marker, self._cursor.buffer, start) if at_line_start else False

    def _read_result_tag(self, marker: str, end: int) -> int:
        """Read the start tag of a tool result: after a call the model invents a result, else it repeats one."""
        if self._output.sink.accepted_count:
            self._cursor.state = State.FINISHED
            return len(self._cursor.buffer)
        self._output.emit_text(marker)
        self._result_end_tag = self._start_markers.result_tags[marker]
        self._cursor.state = State.IN_ECHOED_RESULT
        return end

    def in_echoed_result(self, pos: int) -> int:
        """Emit a tool result that the model repeats, up to its end tag."""
        cursor, buffer, end_tag = self._cursor, self._cursor.buffer, self._result_end_tag
        at = buffer.find(end_tag, pos)
        if at < 0:
            return self._output.emit_up_to(cursor, pos, marker_set((end_tag,)).partial_start(buffer, pos))
        self._output.emit_text(buffer[pos : at + len(end_tag)])
        cursor.state = State.IN_TEXT
        return at + len(end_tag)

    def after_role_marker(self, pos: int) -> int:
        """Emit all that follows a role marker."""
        return self._output.emit_up_to(self._cursor, pos, len(self._cursor.buffer))
