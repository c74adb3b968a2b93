"""Read a body of one or more calls whose arguments are literals.

Theory of operation. A subclass reads what is around the calls: names, brackets, separators. `values` reads the
arguments of a call, `call` sends them. Brackets and commas after a call belong to the body; only the text after the
last one of them is trailing text. The states:

    state                  position                                   what follows
    _before_first_call     after the start marker                     the states of the syntax, up to a call's arguments
    None                   in the arguments (`values`)                _between_calls
    _between_calls         between calls, or after the last one       the states of the syntax, or _after_calls
    _after_calls           after the last call                        the end marker, else _in_trailing_text
    _in_trailing_text      in unexpected text after the last call     the end marker; else the text is emitted
    MalformedRest          after an error                             the end of the body

Rule: after the last call only short trailing text may precede the end marker.
"""

import re
from abc import abstractmethod
from collections.abc import Callable
from typing import TypeAlias

from fcshim.events import CallErrorKind, StopReason
from fcshim.parse.body import (
    NATURAL_STOPS,
    READING,
    BodyProgress,
    BodyReader,
    BodyStatus,
    PartialTokenError,
    TrailingStatus,
    TrailingText,
    disposed_state,
)
from fcshim.parse.dialect import Dialect, compiled_call_markers, compiled_closers
from fcshim.parse.limits import Limits
from fcshim.parse.literals.call import WRITING_ERRORS, LiteralCall
from fcshim.parse.literals.strings import LiteralError, json_escape
from fcshim.parse.literals.values import DoubtfulQuoteError, LiteralValues
from fcshim.parse.markers import EndMarkers
from fcshim.parse.readings.steps import NoReadingError
from fcshim.parse.restart import BEGUN_AGAIN, RestartWatch, restart_markers
from fcshim.parse.sink import CallSink

ValuesFactory: TypeAlias = Callable[[LiteralCall, Dialect, Limits], LiteralValues]

_ARGUMENT = re.compile(r"\)|[\s,()\[\]{}]{0,64}[^\W\d]\w{0,127}\s{0,64}=")
_EXPRESSION = re.compile(
    r"[ \t]{0,8}(?:(?:if|and|or|for|is|in|not|else)[ \t]+[^\s<]|as[ \t]+\w{1,64}\s{0,8}(?:[\]):,]|\Z)|->|[=!<>]="
    r"|[-+*/%|&.:][ \t]*\w|\[[ \t]*(?:-?\d|[\"']))"
)
_BRACKET_OR_EMPTY_LINE = re.compile(r"[()\[\]{}]|\n[ \t\r]{0,64}\n")
_PARTIAL_EMPTY_LINE = re.compile(r"\n[ \t\r]{0,64}\Z")
_STRING_END = re.compile(r"[\"'](?=\s*[,)\]}:])")


class LiteralBody(BodyReader):
    """Reads one body; a subclass adds the syntax around the calls."""

    def __init__(
        self, make_values: ValuesFactory, dialect: Dialect, sink: CallSink, limits: Limits, *, has_keywords: bool
    ) -> None:
        self._dialect = dialect
        self._sink = sink
        self._end_markers = compiled_closers(dialect)
        self._progress = BodyProgress(sink)
        self._call = LiteralCall(self._progress, sink, limits, has_keywords=has_keywords)
        self._values = make_values(self._call, dialect, limits)
        call_markers = compiled_call_markers(dialect)
        self._trailing = TrailingText(self._end_markers, call_markers, markup_only=dialect.call.without_text)
        self._state: Callable[[str, int], int] | None = self._before_first_call
        """None in the arguments of a call, whose reader has states of its own."""
        self._in_call = False
        self._is_complete = False
        """True if the body is complete by its own syntax, without an end marker."""
        self._was_truncated = False
        """True when the reply was cut off (a token limit, an error) instead of ending by itself."""
        self._limits = limits
        self._held: list[str] = []
        """The text from a doubtful quote on."""
        self._held_size = 0
        self._escaped_text = ""
        """The same text with its inner quotes escaped, as far as it was not read yet."""
        self._restarts = RestartWatch(restart_markers(dialect), sink, limits)

    def feed(self, text: str, pos: int) -> int:
        """Read `text[pos:]` up to the next status; pass the unconsumed rest again with more text after it."""
        if "\n" in text and self._restarts.concerns(text, pos):
            return self._restarts.feed(self, text, pos)
        progress = self._progress
        if progress.end_pending:
            progress.report_pending_end()
            self.status = progress.status
            return pos
        progress.status, progress.wait = READING, False
        if self._escaped_text:
            self._read_escaped_text()
            if progress.status is not READING or self._escaped_text:
                return pos
        return self._read(text, pos)

    def is_unfinished(self, _unread: str) -> bool:
        """Return whether a call is unfinished."""
        return self._in_call

    def begins_after(self, marker: str, text: str, pos: int) -> bool | None:
        """Return whether a call begins with this start marker, which ends at `pos`."""
        return marker in self._dialect.section.openers() or self._dialect.body.begins(text, pos)

    def _read(self, text: str, pos: int) -> int:
        progress, values = self._progress, self._values
        while pos < len(text):
            try:
                pos = (self._state or values.read_next)(text, pos)
            except PartialTokenError as error:
                progress.wait, pos = True, error.pos
            except DoubtfulQuoteError as error:
                self._state, pos = self._hold, error.pos
            except LiteralError as error:
                self._fail(error)
                pos = error.pos
            except WRITING_ERRORS as error:
                self._call.abandon_unwritable(error)
            if progress.wait or progress.status is not READING:
                break
        arguments = self._call.writer.arguments
        if arguments.output or arguments.collected:
            self._call.flush()
        self.in_content = self._state is None and not progress.wait and values.in_content
        self.status = progress.status
        if self.status is not READING and self._in_call and not values.brackets:
            self._in_call = False
            self._state = self._between_calls
        return pos

    # The text from a doubtful quote on.

    def _hold(self, text: str, pos: int) -> int:
        """Keep the remainder of the body, up to its end marker, and then escape its inner quotes."""
        found = self._end_markers.search(text, pos)
        end = found.start() if found is not None else self._end_markers.partial_start(text, pos)
        self._held.append(text[pos:end])
        self._held_size += end - pos
        if self._held_size > self._limits.search:
            raise LiteralError(f"more than {self._limits.search} characters after a doubtful quote", end, "limit")
        if found is None:
            self._progress.wait = end < len(text)
            return end
        self._escape_held(end)
        self._read_escaped_text()
        return end

    def _escape_held(self, pos: int) -> None:
        """Take the text that was kept, with its inner quotes escaped. Raises `LiteralError`."""
        text = "".join(self._held)
        self._held.clear()
        self._held_size = 0
        try:
            self._escaped_text = self._values.context.escape_quotes(self._values.string, text)
        except NoReadingError as error:
            # Before the last quote that may end a string, a call may be content of that string, which must not run.
            quotes = [] if self._dialect.closes_bodies else list(_STRING_END.finditer(text))
            closers = r"\s*".join(map(re.escape, self._values.brackets[0].closing_brackets))
            end = re.compile(closers).search(text, quotes[-1].end()) if quotes else None
            raise LiteralError(str(error), pos, after_body=text[end.end() :] if end else None) from None
        self._values.quotes_escaped = True
        self._state = None

    def _read_escaped_text(self) -> None:
        """Read the escaped text up to the next status; it takes the place of text that was read before."""
        progress, text = self._progress, self._escaped_text
        self._escaped_text, final, progress.final = "", progress.final, True
        end = self._read(text, 0)
        self._escaped_text, progress.final = text[end:], final
        if progress.status is BodyStatus.ENDED:
            self.unread, self._escaped_text = self.unread + self._escaped_text, ""

    def send_string_piece(self, text: str) -> bool:
        """Send `text` if it lies wholly inside a string of the arguments (the fast path); else return False."""
        syntax = self._values.string.syntax
        if syntax.fullmatch_json_content(text) is None:
            if "\n" in text or syntax.fullmatch_content(text) is None:
                return False
            text = json_escape(text)
        return self._sink.fits(len(text)) and self._sink.add_chunk(text)

    def refuse(self) -> None:
        """Treat the current call, and all that follow it in this body, as text."""
        self._trailing.clear()
        self._call.refuse()
        self.in_content = False

    def dispose(self) -> None:
        """Break the reference cycles through the bound state methods, so that the body's memory is freed at once."""
        self._state = disposed_state
        self._values.dispose()

    # Calls.

    @abstractmethod
    def _before_first_call(self, text: str, pos: int) -> int:
        """Read the text before the first call."""

    @abstractmethod
    def _between_calls(self, text: str, pos: int) -> int:
        """Read the text between two calls or after the last one."""

    def _begin_call(self, name: str, closer: str, enclosing: str = "") -> None:
        """Enter a call after its name and opening bracket; `enclosing` closes the brackets around the call."""
        self._trailing.clear()
        self._call.begin(name, is_certain=not self._dialect.bare)
        self._values.begin(closer, enclosing)
        self._state = None
        self._in_call = True

    def _skip_trailing_space(self, text: str, pos: int) -> int:
        """Skip space after a call, which is trailing text if no call, bracket or comma follows it."""
        end = self._values.skip_space(text, pos)
        if self._progress.discarding != "body":
            self._trailing.add(text[pos:end])
        return end

    def _skip_to(self, pos: int) -> int:
        """Return `pos` after a bracket or comma that belongs to the body: the text before it is not trailing text."""
        self._trailing.clear()
        return pos

    # Errors.

    def _fail(self, error: LiteralError) -> None:
        """Abandon the call, and skip the rest of the body unless an end marker has ended it."""
        # At a truncated end a partial token is an error only because the rest of it is missing.
        truncated = self._was_truncated and error.kind == "malformed" and error.after_body is None
        kind: CallErrorKind = "truncated" if truncated else error.kind
        self._call.abandon(kind, str(error))
        if error.after_body is not None:
            self.unread = "" if self._call.is_text else error.after_body
            self._state = MalformedRest(self._progress, None, 0).read
            if self._progress.status is READING:
                self._progress.end_body()
            return
        closes = self._dialect.closes_bodies
        depth = len(self._values.brackets[-1].closing_brackets) if closes or self._call.is_certain else 0
        self._state = MalformedRest(self._progress, self._end_markers if closes else None, depth).read

    # After the calls.

    def _after_calls(self, text: str, pos: int) -> int:
        """After the last call."""
        pos = self._skip_trailing_space(text, pos)
        if pos == len(text):
            return pos
        end = self._end_markers.end_of_marker(text, pos)
        if end is None:
            raise PartialTokenError(pos)
        if end > pos:
            self._progress.end_body()
        else:
            self._state = self._in_trailing_text
        return end

    def _in_trailing_text(self, text: str, pos: int) -> int:
        """Look for the end marker after unexpected text."""
        status, end = self._trailing.read(text, pos)
        if status is TrailingStatus.OPEN:
            self._progress.wait = end < len(text)
            return end
        self._check_trailing_text()
        if status is TrailingStatus.TEXT:
            self.unread = self._trailing.text()
        self._progress.end_body()
        return end

    def _check_trailing_text(self) -> None:
        """Reject a call that may go on in the text after it, or is a part of an expression."""
        text = self._trailing.text()
        if self._sink.is_complete and (self._is_rest_of_call(text) or _EXPRESSION.match(text)):
            self._sink.fail("malformed", "what follows the call may be a part of it")

    def _is_rest_of_call(self, text: str) -> bool:
        """Return whether the text after a call may be a part of it."""
        return self._call.lacks_brackets and _ARGUMENT.match(text) is not None

    # The end of the reply.

    def close(self, tail: str, stop_reason: StopReason) -> None:
        """End the reply; `tail` is what the last `feed` left unread. Sets `status` and `unread`."""
        natural = stop_reason in NATURAL_STOPS
        self._progress.final = True
        self._was_truncated = not natural
        unread = self._restarts.unread(tail, keep_newline=self._dialect.call.at_line_start)
        if unread and natural:
            self._call.abandon("malformed", BEGUN_AGAIN)
            self._progress.end_body()
            self.unread, self.status = unread, BodyStatus.ENDED
            return
        in_text = self._in_call or self._state == self._in_trailing_text
        if not in_text and len(tail) > 1 and self._end_markers.is_partial(tail, 0):
            tail = ""
        pos = self._read_tail(tail)
        if self.status is BodyStatus.ENDED or self.status is BodyStatus.NO_BODY:
            self.unread += tail[pos:]
            return
        self._progress.status = READING
        if self._in_call:
            after_marker = self._values.text_after_marker()
            if after_marker is None:
                self._call.abandon("truncated", "the reply ended inside the call")
            else:
                self._call.abandon("malformed", "a string is not closed")
                self.unread = "" if self._call.is_text else after_marker
        else:
            self._close_body(tail[pos:], natural=natural)
        self.status = BodyStatus.ENDED if self._progress.status is READING else self._progress.status

    def _read_tail(self, tail: str) -> int:
        """Read the tail, after which no more text follows; return where reading stopped."""
        pos, self._progress.wait = 0, False
        while pos < len(tail) and not self._progress.wait and self.status not in {BodyStatus.ENDED, BodyStatus.NO_BODY}:
            pos = self.feed(tail, pos)
        if self._state == self._hold:
            self._close_held(tail[pos:])
            return len(tail)
        return pos

    def _close_held(self, tail: str) -> None:
        """Read the text from a doubtful quote on, which the reply's end has ended."""
        self._held.append(tail)
        try:
            self._escape_held(0)
        except LiteralError as error:
            self._fail(error)
            if error.after_body is not None:
                self.status = self._progress.status
        waiting = ""
        while self._escaped_text != waiting and self.status not in {BodyStatus.ENDED, BodyStatus.NO_BODY}:
            waiting = self._escaped_text  # half an end marker stays
            self.feed("", 0)
        if self._state == self._in_trailing_text:
            self._trailing.add(self._escaped_text)
        else:
            self.unread += self._escaped_text
        self._escaped_text = ""

    def _close_body(self, tail: str, *, natural: bool) -> None:
        """The reply ended after a call: accept it, unless the rest of the body may be missing."""
        has_trailing = self._state == self._in_trailing_text
        if has_trailing:
            self._check_trailing_text()
            tail = self._trailing.text() + tail
        self.unread = tail
        if natural or has_trailing or self._is_complete:
            self._sink.finish()
        else:
            self._sink.fail_truncated("the reply ended before the closing marker")


class MalformedRest:
    """Skips the rest of a malformed body: to its end marker, or to its last closing bracket or an empty line."""

    def __init__(self, progress: BodyProgress, end_markers: EndMarkers | None, depth: int) -> None:
        """Skip to an end marker, or where none ends the body, to the bracket that closes the last of `depth`."""
        self._progress = progress
        self._end_markers = end_markers
        self._depth = depth

    def read(self, text: str, pos: int) -> int:
        """Skip `text[pos:]`; return the position reached."""
        if self._depth == 0:
            self._progress.end_body()
            return pos
        return self._skip_brackets(text, pos) if self._end_markers is None else self._skip(self._end_markers, text, pos)

    def _skip(self, end_markers: EndMarkers, text: str, pos: int) -> int:
        found = end_markers.search(text, pos)
        if found is not None:
            self._progress.end_body()
            return found.end()
        end = end_markers.partial_start(text, pos)
        self._progress.wait = end < len(text)
        return end

    def _skip_brackets(self, text: str, pos: int) -> int:
        found = _BRACKET_OR_EMPTY_LINE.search(text, pos)
        if found is None:
            # The last 66 characters suffice: `_PARTIAL_EMPTY_LINE` matches at most 65.
            partial = None if self._progress.final else _PARTIAL_EMPTY_LINE.search(text, max(pos, len(text) - 66))
            self._progress.wait = partial is not None
            return partial.start() if partial else len(text)
        self._depth += 1 if found[0] in "[({" else -1
        if self._depth == 0 or found[0][0] == "\n":
            self._progress.end_body()
        return found.end()
