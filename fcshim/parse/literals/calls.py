"""Read a body of one or more calls in a syntax other than JSON: start, end, discard and abandon its calls.

Theory of operation. A subclass reads the text, one method per state, and writes the arguments as strict JSON. A call
that must not run, and text that turns out not to be a call, is still read to its end with `_discarding` set: a call
quoted inside its strings must not be found.

    _before_first_call --> (states of the syntax) --> _between_calls --> ... --> _after_calls --> end of the body
    on an error: _skip_to_end_marker or _skip_brackets          text before the end marker: _skip_trailing_text

Rule: a call's start is sent with its first argument, because until then the body may turn out to be text.
"""

import re
from abc import abstractmethod
from collections.abc import Callable

from fcshim.events import CallErrorKind
from fcshim.parse.arguments.buffering import LimitError, NotStrictError
from fcshim.parse.arguments.tokens import Token, TokenWriter
from fcshim.parse.body import BodyStatus
from fcshim.parse.dialect import Dialect
from fcshim.parse.limits import Limits
from fcshim.parse.literals.container_buffer import ContainerBuffer
from fcshim.parse.literals.trailer import LiteralTrailer
from fcshim.parse.sink import CallSink

OPEN, CLOSE, KEY, ATOM = TokenWriter.open, TokenWriter.close, TokenWriter.write_key, TokenWriter.write_atom
BEGIN, CONTENT, END = TokenWriter.begin_string, TokenWriter.write_content, TokenWriter.end_string
"""The methods that write a token."""
_BRACKET_OR_EMPTY_LINE = re.compile(r"[()\[\]{}]|\n[ \t\r]{0,64}\n")
_PARTIAL_EMPTY_LINE = re.compile(r"\n[ \t\r]{0,64}\Z")


class MalformedError(Exception):
    """The text at `pos` is not in the syntax, or not allowed there."""

    def __init__(self, message: str, pos: int) -> None:
        super().__init__(message)
        self.pos = pos


class PartialMarkerError(Exception):
    """The text ends in the middle of what may be an end marker, which starts at `pos`."""

    def __init__(self, pos: int) -> None:
        super().__init__()
        self.pos = pos


class LiteralCalls(LiteralTrailer):
    """Reads the calls of one body; a subclass reads the syntax."""

    def __init__(self, dialect: Dialect, sink: CallSink, limits: Limits) -> None:
        super().__init__(dialect, sink, limits)
        self._writer = TokenWriter(sink, limits)
        self._buffer = ContainerBuffer(limits)
        self._next_pending = False
        self._collects_trailing_text = False
        self._refused = False
        self._skip_depth = 0
        """Number of open brackets in the text that is skipped."""
        self._reset_call()

    def _reset_call(self) -> None:
        self._name: str | None = None
        self._is_call = False
        """True once this can only be a call: from here on an error ends the call, and the body is not text again."""
        self._started = False
        self._discarding = self._refused
        """True in a call that must not run, or in text that is not a call: it is read to its end without sending."""
        self._is_text = self._refused
        self.in_content = False
        self._buffer.clear()

    # The syntax.

    @abstractmethod
    def _between_calls(self, text: str, pos: int) -> int:
        """Read the text between two calls or after the last one."""

    @abstractmethod
    def _open_depth(self) -> int:
        """Return the number of open brackets."""

    # Feeding.

    def feed(self, text: str, pos: int) -> int:
        """Read `text[pos:]` up to the next status; pass the unconsumed rest again with more text after it."""
        if self._next_pending:
            self._next_pending = False
            self.status = BodyStatus.CALL_ENDED
            return pos
        reading = self.status = BodyStatus.READING
        self._wait = False
        self._trailing_start = pos if self._collects_trailing_text else None
        size = len(text)
        while pos < size:
            try:
                pos = self._state(text, pos)
            except PartialMarkerError as error:
                self._wait, pos = True, error.pos
            except MalformedError as error:
                pos = error.pos
                # At a truncated end a partial token is an error only because the rest of it is missing.
                self._fail_and_skip("truncated" if self._was_truncated else "malformed", str(error))
            if self._wait or self.status is not reading:
                break
        if self._trailing_start is not None:
            self._trailing_text.add(text[self._trailing_start : pos])
        try:
            self._writer.flush()
        except LimitError as error:
            self._abandon_call("limit", str(error))
        return pos

    def refuse(self) -> None:
        """Treat the current call, and all that follow it in this body, as text."""
        self._refused = True
        self._collects_trailing_text = False
        self._trailing_start = None
        self._discard_call()

    def dispose(self) -> None:
        """Break the reference cycle through the bound state method, so that the body's memory is freed at once."""
        self._state = _disposed_state

    # Writing.

    def _put(self, write: Callable[[TokenWriter, str], None], text: str) -> None:
        """Write a token of the arguments."""
        if self._discarding:
            return
        try:
            if self._buffer.levels:
                self._buffer.add(write, text)
            else:
                write(self._writer, text)
        except LimitError as error:
            self._abandon_call("limit", str(error))
        except NotStrictError:
            self._abandon_call("malformed", "a key comes twice")

    def _put_all(self, tokens: list[Token]) -> None:
        for write, text in tokens:
            self._put(write, text)

    def _flush(self) -> bool:
        """Send what was written; return False where a limit ended the call with an error."""
        try:
            self._writer.flush()
        except LimitError as error:
            self._abandon_call("limit", str(error))
            return False
        return True

    def _push_buffer(self) -> None:
        if not self._discarding:
            self._buffer.push()

    def _pop_buffer(self) -> list[Token]:
        return [] if self._discarding else self._buffer.pop()

    # Calls.

    def _select_tool(self, name: str) -> None:
        """Look up the tool of a name that was read together with its opening bracket."""
        self._collects_trailing_text = False
        self._trailing_start = None
        if self._refused:
            return
        self._name = self._resolve(name)
        if self._name is None:
            self._discard_call()
        else:
            self._is_call = not self._dialect.bare

    def _resolve(self, name: str) -> str | None:
        """Return the tool that a name means, with any namespaces removed (`functions.f`, `default_api.f`)."""
        while True:
            found = self._sink.resolve(name)
            _, dot, name = name.partition(".")
            if found is not None or not dot:
                return found

    def _start_call(self) -> None:
        if self._started or self._discarding:
            return
        assert self._name is not None
        self._started = True
        self.call_count += 1
        self._writer.start(self._name)
        if self.status is BodyStatus.READING:
            self.status = BodyStatus.STARTED

    def _end_call(self) -> None:
        if not self._discarding:
            assert not self._buffer.levels
            if not self._started:
                self._start_call()
                self._put(OPEN, "{")
            self._put(CLOSE, "}")
            self._flush()
        if not self._discarding:
            self._writer.complete()
        if self.status is BodyStatus.NOT_A_CALL:
            self._next_pending = True
        else:
            self.status = BodyStatus.CALL_ENDED
        self._reset_call()
        self._trailing_text.clear()
        self._collects_trailing_text = not self._refused
        self._state = self._between_calls

    # Not a call, or a call that must not run.

    def _discard_call(self) -> None:
        """Not a call: read to its end without sending."""
        self._sink.finish()
        self._discarding = self._is_text = True
        self.in_content = False
        self._buffer.clear()
        if self.status is BodyStatus.READING:
            self.status = BodyStatus.NOT_A_CALL

    def _abandon_call(self, kind: CallErrorKind, message: str) -> None:
        """Stop the call: end it with an error if it can only be a call, else treat it as text."""
        if self._discarding:
            return
        if not self._is_call:
            self._discard_call()
            return
        self._start_call()
        if not self._flush():
            return
        self._sink.fail(kind, message)
        self._discarding = True
        self.in_content = False
        self._buffer.clear()

    def _fail_and_skip(self, kind: CallErrorKind, message: str) -> None:
        """Abandon the call and skip the rest of the body."""
        self._abandon_call(kind, message)
        self._skip_depth = self._open_depth()
        self._state = self._skip_to_end_marker if self._dialect.closes_bodies else self._skip_brackets

    def _skip_to_end_marker(self, text: str, pos: int) -> int:
        """Skip the rest of a malformed body, to its end marker."""
        found = self._end_markers.search(text, pos)
        if found is not None:
            self._end_body()
            return found.end()
        end = self._end_markers.partial_start(text, pos)
        self._wait = end < len(text)
        return end

    def _skip_brackets(self, text: str, pos: int) -> int:
        """Skip the rest of a malformed body that no marker ends, to its last closing bracket or an empty line."""
        if not self._is_call:
            self._end_body()
            return pos
        found = _BRACKET_OR_EMPTY_LINE.search(text, pos)
        if found is None:
            # The last 66 characters suffice: `_PARTIAL_EMPTY_LINE` matches at most 65.
            partial = None if self._final else _PARTIAL_EMPTY_LINE.search(text, max(pos, len(text) - 66))
            self._wait = partial is not None
            return partial.start() if partial else len(text)
        self._skip_depth += 1 if found[0] in "[({" else -1
        if self._skip_depth == 0 or found[0][0] == "\n":
            self._end_body()
        return found.end()


def _disposed_state(_text: str, _pos: int) -> int:
    raise AssertionError
