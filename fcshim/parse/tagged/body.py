"""Read a body of calls with one tag per parameter: `<function=f><parameter=k>v</parameter></function>`.

Theory of operation. A tag is read when it is complete, a value as it arrives. The states around the calls:

    state                position                               what it expects
    _before_header       after a start marker with a header     the header; else there is no body
    _before_first_call   after the start marker                 a call's opening tag; else there is no body
    _between_calls       between calls                          a call's opening tag or the end of the body
    _in_trailing_text    after unexpected text between calls    the same; too much of it ends the body as text
    _after_call          after a call without outer marker      an optional end marker

`call_content` has the states inside a call.

Rule: text that turns out not to be a call is still read to its end, so that a call inside its values is not found.
"""

from collections.abc import Callable
from contextlib import suppress

from fcshim.events import StopReason
from fcshim.parse.arguments.buffering import LimitError, NotStrictError
from fcshim.parse.body import NATURAL_STOPS, READING, BodyStatus, disposed_state
from fcshim.parse.dialect import Dialect
from fcshim.parse.limits import Limits
from fcshim.parse.restart import BEGUN_AGAIN, RestartWatch, restart_markers
from fcshim.parse.scanner import WORD, MoreNeeded, Scanner, none_if_more_needed
from fcshim.parse.sink import CallSink
from fcshim.parse.tagged.call_content import MAX_STRAY_TEXT, CallContentReader
from fcshim.parse.tagged.tag_reading import SPACE, CompiledTags, NamedTag
from fcshim.parse.tagged.tags import BodyHeader

_MAX_OPENING_LENGTH = 1_600
"""Characters to look at for a call's opening tag, including white space and what must follow the tag."""
_NO_REMARK = frozenset("<>{}[]=")
"""Characters that a few words after a call do not have, but markup and arguments have."""


class TaggedBody(CallContentReader):
    """Reads one body."""

    def __init__(
        self,
        compiled: CompiledTags,
        header: BodyHeader | None,
        start_marker: str,
        sink: CallSink,
        limits: Limits,
        dialect: Dialect,
    ) -> None:
        super().__init__(compiled, start_marker, sink, limits)
        self._at_line_start = dialect.call.at_line_start
        self._section_openers = dialect.section.openers()
        head = self._tags.call.head
        outer_only = self._has_outer_marker and bool(head)
        markers = restart_markers(dialect, head, self._tags.call_close, outer_only=outer_only)
        self._restarts = RestartWatch(markers, sink, limits)
        self._header = header
        headed = header is not None and start_marker.endswith(header.marker_end)
        self._state: Callable[[str, int], int] = self._before_header if headed else self._before_first_call
        self._stray_text = ""
        self._follows_parameter = False
        """True where what may be an argument stands before the next call."""
        self._searched = 0
        """Characters after an element that were searched for its end tag."""

    def feed(self, text: str, pos: int) -> int:
        """Read `text[pos:]` up to the next status; pass the unconsumed rest again with more text after it."""
        if "\n" in text and self._restarts.concerns(text, pos):
            return self._restarts.feed(self, text, pos)
        progress, size = self._progress, len(text)
        progress.status = READING
        try:
            while pos < size and progress.status is READING:
                pos = self._state(text, pos)
        except MoreNeeded:  # `suppress` would take a quarter of the time of a small piece
            pass
        self.status = progress.status
        return pos

    @none_if_more_needed
    def begins_after(self, marker: str, text: str, pos: int) -> bool:
        """Return whether a call begins with this start marker, which ends at `pos`; None where more text is needed."""
        head = self._tags.call.head
        if self._section_openers and marker in self._section_openers:
            return True
        start = pos - (len(marker) if head and marker.startswith(head) else 0)
        return self._compiled.read_confirmed_call(text, start) is not None

    def is_unfinished(self, unread: str) -> bool:
        """Return whether a call is unfinished before a restart: in a value, or in what may be half a tag."""
        if self._state == self._in_value:
            assert self._value is not None
            found = self._value.compiled.value_markers.match(unread)
            return found is None or self._tags.nested or bool(unread[found.end() :].strip())
        in_call = self._state in {self._between_parameters, self._in_stray_text}
        return self._state == self._in_object or (in_call and bool(unread.strip()))

    def send_string_piece(self, text: str) -> bool:
        """Add `text` if it lies wholly inside a value (the fast path); else return False."""
        content = self._content
        if content is None or self._plain_text.fullmatch(text) is None:
            return False
        try:
            content.add(text)
        except (LimitError, NotStrictError) as error:
            self._call.fail_with(error)
            self._discard_value()
        return True

    def refuse(self) -> None:
        """Treat the current call, and all that follow it in this body, as text."""
        self._progress.discarding = "body"
        self._discard_call()

    def dispose(self) -> None:
        """Break the reference cycle through the bound state method, so that the body's memory is freed at once."""
        self._state = disposed_state

    # Between calls.

    def _before_header(self, text: str, pos: int) -> int:
        assert self._header is not None
        end = self._header.find_end(text, pos)
        if end < 0:
            self._progress.reject_body()
            return pos
        self._state = self._before_first_call
        return end

    def _before_first_call(self, text: str, pos: int) -> int:
        """After the start marker, which a call's opening tag follows, or which is that tag."""
        prefix, has_tag = "" if self._has_outer_marker else self._start_marker, bool(self._tags.call.head)
        ahead = prefix + text[pos : pos + _MAX_OPENING_LENGTH]
        certain = self._has_outer_marker and has_tag
        found = self._compiled.read_call(ahead, 0) if certain else self._compiled.read_confirmed_call(ahead, 0)
        if found is None:
            found = self._read_call_of_tool(ahead, has_tag=has_tag)
        if found is None:
            self._progress.reject_body()
            return pos
        return pos - len(prefix) + self._begin_call(found)

    def _read_call_of_tool(self, text: str, *, has_tag: bool) -> NamedTag | None:
        """Read a call's opening that only the tool makes certain.

        An element with the name of a parameter follows it, or a line with the text of a custom tool.
        """
        found, tools = self._compiled.read_call(text, 0), self._sink.tools
        if found is None:
            return None
        if has_tag and tools.offers_exactly(found.name):
            child = _read_element(Scanner(text, found.end))
            if child and tools.has_parameter(found.name, child):
                return found
        return found if tools.takes_text(found.name) and Scanner(text, found.end).skip("\n", "\r\n") else None

    def _between_calls(self, text: str, pos: int) -> int:
        at = self._compiled.skip_space(text, pos)
        if at > pos:
            return at
        kind = self._compiled.kind_at(text, pos)
        if kind == "call" and (found := self._compiled.read_call(text, pos)) is not None:
            end = self._begin_call(found)
            if self._follows_parameter:
                self._call.fail("malformed", "unexpected text before the call")
                self._follows_parameter = False
            return end
        if kind == "open":
            self._progress.end_body()
            return pos
        if kind == "close":
            self._end_at_marker()
        if kind in {"close", "call_close"}:  # models write the call's closing tag twice
            return self._compiled.end_of_marker(text, pos)
        self._stray_text += text[pos]
        self._state = self._in_trailing_text
        return pos + 1

    def _in_trailing_text(self, text: str, pos: int) -> int:
        """Look for the next call or the end of the body after unexpected text."""
        markers = self._compiled.markers
        found = markers.search(text, pos, pos + _MAX_OPENING_LENGTH)
        end = found.start() if found else markers.partial_start(text, pos)
        self._stray_text += text[pos:end]
        if len(self._stray_text) > MAX_STRAY_TEXT:
            self.unread = self._stray_text
            self._progress.end_body()
        elif found is not None and not markers.is_partial(text, end):
            # A remark after a call is dropped; a call is not certain if its remark may be an argument.
            self._follows_parameter |= not _NO_REMARK.isdisjoint(self._stray_text)
            if self._follows_parameter and self._sink.is_complete:
                self._sink.fail("malformed", "unexpected text after the call")
            self._stray_text = ""
            self._state = self._between_calls
        elif end == pos:
            raise MoreNeeded
        return end

    def _after_call(self, text: str, pos: int) -> int:
        """After a call without outer marker, which an end marker may still follow."""
        if self._tags.call.name and self._sink.is_complete:
            return self._after_element(text, pos)
        at = self._compiled.skip_space(text, pos)
        is_end = self._compiled.kind_at(text, at) == "close"
        self._progress.end_body()
        return self._compiled.end_of_marker(text, at) if is_end else pos

    def _after_element(self, text: str, pos: int) -> int:
        """After a tool's element: its end tag again shows that a value quoted the first one."""
        head, close = self._tags.call.head, self._tags.call_close
        with suppress(MoreNeeded):
            if self._sink.tools.offers(_read_element(Scanner(text, pos))):
                self._progress.end_body()
                return pos
        again = text.find(close, pos + self._searched, pos + self._limits.look_ahead)
        if again < 0 and len(text) - pos <= self._limits.look_ahead:
            self._searched = max(0, len(text) - pos - len(close))
            raise MoreNeeded
        is_doubled = again >= 0 and text.find(head, pos, again) < 0
        if is_doubled:
            self._sink.fail("malformed", "the end of the call comes twice")
        self._progress.end_body()
        return again + len(close) if is_doubled else pos

    # The end of the reply.

    def close(self, tail: str, stop_reason: StopReason) -> None:
        """End the reply; `tail` is what the last `feed` left unread. Sets `status` and `unread`."""
        natural = stop_reason in NATURAL_STOPS
        unread = self._restarts.unread(tail, keep_newline=self._at_line_start)
        if unread and natural:
            self._call.fail("malformed", BEGUN_AGAIN)
            self.unread, self.status = unread, BodyStatus.ENDED
            self._progress.end_body()
            return
        if self._state == self._before_first_call and natural and not (self._has_outer_marker or tail):
            with suppress(MoreNeeded):
                self._before_first_call(tail, 0)  # the start marker may be a whole call (`<now/>`)
        if self._state == self._in_value:
            self._close_value(tail, natural=natural)
        elif self._state in {self._in_object, self._between_parameters, self._in_stray_text}:
            self._fail_truncated()
        elif self._state not in {self._before_header, self._before_first_call}:
            self.unread = self._stray_text + tail
            start = self._compiled.skip_space(tail, 0)
            if not self._stray_text and self._compiled.markers.is_partial(tail, start) and start < len(tail) - 1:
                self.unread = ""  # a partial marker
        if natural or (self._state in {self._after_call, self._after_end_marker} and not tail.strip()):
            self._sink.finish()
        else:
            self._sink.fail_truncated("the reply ended before the closing marker")
        self.status = BodyStatus.ENDED

    def _close_value(self, tail: str, *, natural: bool) -> None:
        assert self._value is not None
        rest = self._value.close(tail) if natural and not self._progress.discarding else None
        self.unread = rest or ""
        if self._value.error is not None:
            self._call.fail_with(self._value.error)
        elif rest is None or self._breaks_off(tail.partition(self._value.closing_tag)[2]):
            self._fail_truncated()
        else:
            self._call.end_value(self._value)
            self._close_call()

    def _breaks_off(self, tail: str) -> bool:
        """Return whether the reply ended inside a tag that may open a parameter."""
        rest, head = tail.strip(), self._tags.parameter.head
        ends = (self._tags.call_close, *self._compiled.end_markers)
        is_end = any(end.startswith(rest) for end in ends) and not head.startswith(rest)
        return bool(rest) and rest[0] == head[0] and not is_end and "\n" not in rest

    def _fail_truncated(self) -> None:
        self._call.fail("truncated", "the reply ended inside the call")


def _read_element(scan: Scanner) -> str:
    """Read the opening tag of an element without attributes; return its name, or an empty string."""
    scan.take(SPACE)
    name = scan.take(WORD) if scan.skip("<") else ""
    scan.skip(" ")
    return name and scan.skip("/>", ">") and name
