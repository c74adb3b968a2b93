"""Read a body of one or more calls that is written in a language of its own: the life of the calls in it.

Theory of operation. A subclass walks the text, one method per state, and writes the arguments as strict JSON. A call
that must not run, or is none, is walked to its end all the same (`dry`), so that a call inside its strings is not seen.

    _begin --> (the language's states) --> _between --> ... --> _behind --> the end of the body
               an error: _skip, up to the closing marker        _trailing: a remark before it

Rule: the start of a call is sent with its first argument, so that as much as possible can still be text.
Neighbours: `body` has the brackets of literals, `nest` writes the JSON, `stream` acts on `status`.
"""

import re
from abc import abstractmethod
from collections.abc import Callable
from typing import TypeAlias

from fcshim.events import CallErrorKind, StopReason
from fcshim.parse.arguments.holding import LimitError, NotStrictError
from fcshim.parse.arguments.tokens import Token, TokenWriter
from fcshim.parse.body import BodyReader, Status
from fcshim.parse.closers import closers
from fcshim.parse.dialect import Dialect
from fcshim.parse.limits import Limits
from fcshim.parse.literals.nest import Nest
from fcshim.parse.remark import Behind, Remark
from fcshim.parse.sink import CallSink

State: TypeAlias = Callable[[str, int], int]

_NATURAL: frozenset[StopReason] = frozenset({"complete", "stop_sequence", "tool_use"})
OPEN, CLOSE, KEY, ATOM = TokenWriter.open, TokenWriter.close, TokenWriter.key, TokenWriter.atom
BEGIN, CONTENT, END = TokenWriter.begin_string, TokenWriter.content, TokenWriter.end_string
"""What a token may be."""
_BRACKET = re.compile(r"[()\[\]{}]|\n[ \t\r]{0,64}\n")
_EMPTY_LINE_BEGUN = re.compile(r"\n[ \t\r]{0,64}\Z")


class MalformedError(Exception):
    """What stands at `pos` is not of the language, or not in its place."""

    def __init__(self, message: str, pos: int) -> None:
        super().__init__(message)
        self.pos = pos


class UnfinishedError(Exception):
    """What stands at `pos` may be the beginning of a closing marker."""

    def __init__(self, pos: int) -> None:
        super().__init__()
        self.pos = pos


class CallBody(BodyReader):
    """Reads one body; a subclass knows its language."""

    def __init__(self, dialect: Dialect, sink: CallSink, limits: Limits) -> None:
        self.status = Status.READING
        self.rest = ""
        self.calls = 0
        self.in_content = False
        self._dialect = dialect
        self._sink = sink
        self._limits = limits
        self._closers = closers(dialect.closers())
        self._markers = dialect.body_markers()
        self._writer = TokenWriter(sink, limits)
        self._nest = Nest(limits)
        self._state: State = self._begin
        self._wait = False
        self._final = False
        """True when the reply is over: nothing comes behind the text."""
        self._cut = False
        """True when it did not end by itself."""
        self._next_due = False
        self._remark = Remark(self._closers, self._markers)
        """What was read behind the last call, while no other has begun."""
        self._between_calls = False
        self._remark_at: int | None = None
        """Where in this piece of text what is not yet in the remark begins; None where no remark can."""
        self._refused = False
        self._skipped = 0
        """Brackets that are open in what is passed over."""
        self._new_call()

    def _new_call(self) -> None:
        self._name: str | None = None
        self._meant = False
        """True when this can only be a call, though its body may be broken."""
        self._started = False
        self._dry = self._refused
        """True in a call that is none, or must not run: it is walked to its end without sending."""
        self._said = self._refused
        """True in a call that is text, and was given as such."""
        self.in_content = False
        self._nest.clear()

    # The language.

    @abstractmethod
    def _begin(self, text: str, pos: int) -> int:
        """Read what stands before the first call."""

    @abstractmethod
    def _between(self, text: str, pos: int) -> int:
        """Read what stands between two calls, or behind the last."""

    @abstractmethod
    def _space(self, text: str, pos: int) -> int:
        """Give the place of what comes next, or the end of the text."""

    @abstractmethod
    def _in_call(self) -> bool:
        """Say whether a call is open: its name was read."""

    @abstractmethod
    def _depth(self) -> int:
        """Give the number of open brackets."""

    def _unclosed(self) -> str | None:
        """Give what stands behind a closing marker in a string that is open; None where there is none."""
        return None

    def _remarks(self) -> bool:
        """Say whether something stands behind the last call that does not belong there."""
        return self._state == self._trailing

    def _whole(self) -> bool:
        """Say whether the body has its own end, so that no marker is missed."""
        return False

    # Feeding.

    def feed(self, text: str, pos: int) -> int:
        """Read `text[pos:]` up to the next status; what is not consumed must come again, with more behind it."""
        if self._next_due:
            self._next_due = False
            self.status = Status.NEXT
            return pos
        reading = self.status = Status.READING
        self._wait = False
        self._remark_at = pos if self._between_calls else None
        size = len(text)
        while pos < size:
            try:
                pos = self._state(text, pos)
            except UnfinishedError as error:
                self._wait, pos = True, error.pos
            except MalformedError as error:
                pos = error.pos
                # What was held back as the beginning of something is none for want of more.
                self._fail("truncated" if self._cut else "malformed", str(error))
            if self._wait or self.status is not reading:
                break
        if self._remark_at is not None:
            self._remark.add(text[self._remark_at : pos])
        try:
            self._writer.flush()
        except LimitError as error:
            self._give_up("limit", str(error))
        return pos

    def refuse(self) -> None:
        """Take the call that is being read for text, and all that follow it in this body: none of them counts."""
        self._refused = True
        self._between_calls = False
        self._remark_at = None
        self._go_dry()

    def dispose(self) -> None:
        """Break the reference to itself, so that a body's memory is free at once."""
        self._state = _over

    # Writing.

    def _put(self, write: Callable[[TokenWriter, str], None], text: str) -> None:
        """Write a token of the arguments."""
        if self._dry:
            return
        try:
            if self._nest.levels:
                self._nest.put(write, text)
            else:
                write(self._writer, text)
        except LimitError as error:
            self._give_up("limit", str(error))
        except NotStrictError:
            self._give_up("malformed", "a key comes twice")

    def _put_all(self, tokens: list[Token]) -> None:
        for write, text in tokens:
            self._put(write, text)

    def _flush(self) -> bool:
        """Send what was written; False where that ended the call with an error."""
        try:
            self._writer.flush()
        except LimitError as error:
            self._give_up("limit", str(error))
            return False
        return True

    def _hold(self) -> None:
        if not self._dry:
            self._nest.hold()

    def _take(self) -> list[Token]:
        return [] if self._dry else self._nest.take()

    # Calls.

    def _call_named(self, name: str) -> None:
        """The name was read, and what shows that it is one."""
        self._between_calls = False
        self._remark_at = None
        if self._refused:
            return
        self._name = self._resolve(name)
        if self._name is None:
            self._go_dry()
        else:
            self._meant = not self._dialect.bare

    def _resolve(self, name: str) -> str | None:
        """Give the tool of that name, which may stand behind others: `functions.f`, `default_api.f`."""
        while True:
            found = self._sink.resolve(name)
            _, dot, name = name.partition(".")
            if found is not None or not dot:
                return found

    def _start(self) -> None:
        if self._started or self._dry:
            return
        assert self._name is not None
        self._started = True
        self.calls += 1
        self._writer.start(self._name)
        if self.status is Status.READING:
            self.status = Status.STARTED

    def _call_ended(self) -> None:
        if not self._dry:
            if not self._started:
                self._start()
                self._put(OPEN, "{")
            self._put(CLOSE, "}")
            self._flush()
        if not self._dry:
            self._writer.complete()
        if self.status is Status.UNKNOWN:
            self._next_due = True
        else:
            self.status = Status.NEXT
        self._new_call()
        self._remark.clear()
        self._between_calls = not self._refused
        self._state = self._between

    # Not a call, or one that must not run.

    def _go_dry(self) -> None:
        """This call is none: walk to its end without sending."""
        self._sink.finish()
        self._dry = self._said = True
        self.in_content = False
        self._nest.clear()
        if self.status is Status.READING:
            self.status = Status.UNKNOWN

    def _give_up(self, kind: CallErrorKind, message: str) -> None:
        """This call must not run: end it with an error if it was meant, else it is text."""
        if self._dry:
            return
        if not self._meant:
            self._go_dry()
            return
        self._start()
        if not self._flush():
            return
        self._sink.fail(kind, message)
        self._dry = True
        self.in_content = False
        self._nest.clear()

    def _fail(self, kind: CallErrorKind, message: str) -> None:
        """Give the call up, and pass over what is left of the body."""
        self._give_up(kind, message)
        self._skipped = self._depth()
        self._state = self._skip if self._dialect.closes_bodies else self._skip_brackets

    def _skip(self, text: str, pos: int) -> int:
        """Pass over what is left of a body that cannot be read, to its closing marker."""
        found = self._closers.search(text, pos)
        if found is not None:
            self._end()
            return found.end()
        end = self._closers.tail(text, pos)
        self._wait = end < len(text)
        return end

    def _skip_brackets(self, text: str, pos: int) -> int:
        """Pass over what is left of a body without markers, to its last bracket or an empty line."""
        if not self._meant:
            self._end()
            return pos
        found = _BRACKET.search(text, pos)
        if found is None:
            begun = None if self._final else _EMPTY_LINE_BEGUN.search(text, max(pos, len(text) - 66))
            self._wait = begun is not None
            return begun.start() if begun else len(text)
        self._skipped += 1 if found[0] in "[({" else -1
        if self._skipped == 0 or found[0][0] == "\n":
            self._end()
        return found.end()

    # The end of the body.

    def _end(self) -> None:
        """The body is over, and what it holds counts."""
        self._sink.finish()
        self.status = Status.ENDED

    def _end_at_once(self) -> None:
        """The body is over, whatever was found in it last."""
        self._state = self._ended
        if self.status is Status.READING:
            self._end()

    def _ended(self, _text: str, pos: int) -> int:
        self._end()
        return pos

    def _passed(self, pos: int) -> int:
        """Go on at `pos`: what stands before it is the body's own, a bracket or a comma, and no remark."""
        self._remark.clear()
        if self._remark_at is not None:
            self._remark_at = pos
        return pos

    def _behind(self, text: str, pos: int) -> int:
        """Behind the last call."""
        pos = self._space(text, pos)
        if pos == len(text):
            return pos
        end = self._closers.passed(text, pos)
        if end is None:
            self._wait = True
        elif end > pos:
            self._end()
        else:
            self._state = self._trailing
        return end or pos

    def _no_body(self, pos: int, begun: object) -> int:
        """No body begins at `pos`, unless what has `begun` there goes on so that one does."""
        if begun and not self._final:
            self._wait = True
        else:
            self.status = Status.REJECTED
        return pos

    def _trailing(self, text: str, pos: int) -> int:
        """Look for the closing marker behind something that does not belong there."""
        if self._remark_at is not None:
            self._remark.add(text[self._remark_at : pos])
        behind, end = self._remark.read(text, pos)
        self._remark_at = end
        if behind is Behind.OPEN:
            self._wait = end < len(text)
            return end
        if behind is Behind.TEXT:
            self.rest = self._remark.text()
        self._end()
        return end

    # The end of the reply.

    def close(self, tail: str, stop_reason: StopReason) -> None:
        """End the reply here; `tail` is what the last `feed` left. Sets `status`, and `rest`."""
        natural = stop_reason in _NATURAL
        self._cut = not natural
        if not self._in_call() and not self._remarks() and len(tail) > 1 and self._closers.begun(tail, 0):
            tail = ""
        pos = self._walk(tail)
        if self.status is Status.ENDED or self.status is Status.REJECTED:
            self.rest += tail[pos:]
            return
        self.status = Status.READING
        if self._in_call():
            self._close_incomplete()
        else:
            self._close_complete(tail[pos:], natural=natural)
        if self.status is Status.READING:
            self.status = Status.ENDED

    def _walk(self, tail: str) -> int:
        """Read what is left, now that nothing comes behind it."""
        self._final = True
        pos, self._wait = 0, False
        while pos < len(tail) and not self._wait and self.status not in {Status.ENDED, Status.REJECTED}:
            pos = self.feed(tail, pos)
        return pos

    def _close_incomplete(self) -> None:
        """The reply ended inside a call: one that was meant was cut off, any other is text."""
        behind = self._unclosed()
        if behind is not None:
            self._give_up("malformed", "a string is not closed")
            self.rest = "" if self._said else behind
        else:
            self._give_up("truncated", "the reply ended inside the call")

    def _close_complete(self, tail: str, *, natural: bool) -> None:
        remarks = self._remarks()
        self.rest = (self._remark.text() if remarks else "") + tail
        if natural or remarks or self._whole():
            self._sink.finish()
        else:
            self._sink.cut_off("the reply ended before the closing marker")


def _over(_text: str, _pos: int) -> int:
    raise AssertionError
