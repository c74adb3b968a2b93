"""The calls of one JSON body: their start, their end, and their rejection.

Rule: the start of a call is sent with the first character of its arguments; until then the body can become text. A
rejected call ends with an error if its name is an offered tool; otherwise it is text.
"""

import json

from fcshim.events import CallErrorKind
from fcshim.parse.arguments.buffering import LimitError, NotStrictError
from fcshim.parse.arguments.quote_escaping import ANYTHING, Members, SchemaMembers
from fcshim.parse.arguments.repair import RepairError, repair
from fcshim.parse.arguments.strict import StrictJsonReader
from fcshim.parse.arguments.typed import TypedArguments
from fcshim.parse.body import READING, BodyStatus
from fcshim.parse.limits import Limits
from fcshim.parse.markers import compile_end_markers
from fcshim.parse.sink import CallSink
from fcshim.schema.expect import ANY


class JsonCalls:
    """Sends one call after the other, or nothing while `discarding`; `grammar` repairs encoded arguments."""

    def __init__(self, reader: StrictJsonReader, sink: CallSink, grammar: str, limits: Limits) -> None:
        self.status = READING
        """What the body reports next."""
        self._refused = False
        """True if all calls of this body are text."""
        self.repairing = False
        """True while repaired text is read: the body ends with it."""
        self.end_pending = False
        """True if the end of a call must be reported after its rejection."""
        self.arguments = TypedArguments(reader.buffer, sink, limits)
        self._reader = reader
        self._buffer = reader.buffer
        self._sink = sink
        self._grammar = grammar
        self._limits = limits
        self.begin_next()

    def begin_next(self) -> None:
        """Begin the next call."""
        self.discarding = self._refused
        """True in a body that is not a call, or a call that must not run: it is read to its end without sending."""
        self._buffer.target = None
        self.name: str | None = None
        self.has_arguments = False
        self.has_unknown_key = False
        """True if a member is neither the name nor the arguments nor known: the arguments may stand in it."""
        self._started = False
        self._name_parts: list[str] = []
        self._encoded_arguments: list[str] = []
        self._early_arguments: list[str] = []
        """Arguments before the name."""

    def arguments_of(self, name: str | None) -> Members:
        """Return what may stand in the arguments of a tool."""
        found = None if name is None else self._sink.resolve(name)
        return ANYTHING if found is None else SchemaMembers(self._sink.expectation_of(found))

    def _report(self, status: BodyStatus) -> None:
        if self.status is READING:
            self.status = status
            if not self.repairing:
                self._reader.stop = True

    # The parts of a call.

    def begin_name(self) -> None:
        """Read the name: its string begins."""
        self._buffer.target = self._name_parts

    def end_string(self) -> None:
        """Take the name or the encoded arguments, if one of them has ended."""
        target = self._buffer.target
        if target is None:
            return
        self._buffer.target = None
        if target is self._name_parts:
            self.set_name(json.loads("".join(target)))

    def set_name(self, name: str) -> None:
        """Look up the tool; without one the call is text."""
        if self.discarding:
            return
        self.name = self._sink.resolve(name)
        if self.name is None:
            self.discard()
        elif self._early_arguments:
            self._start()
            self._send_whole("".join(self._early_arguments))

    def begin_arguments(self, first: str) -> None:
        """Read the arguments: their value begins with `first`."""
        self.has_arguments = first != "null"
        if first == "{":
            self._begin_object()
        elif first == '"':
            self._buffer.target = self._encoded_arguments
        elif first != "null":
            self.abandon("malformed", "the arguments are not an object", first)

    def _begin_object(self) -> None:
        if self.name is None:
            self._buffer.target = self._early_arguments
            self.arguments.begin(ANY)
        else:
            self._start()
            self._buffer.target = self.arguments.output
            self.arguments.begin(self._sink.expectation)
        self.arguments.on_value("{")

    def _start(self) -> None:
        assert self.name is not None
        self._started = True
        self._sink.start(self.name)
        self._report(BodyStatus.STARTED)

    def _send_whole(self, arguments: str) -> None:
        self.arguments.output.append(self.arguments.coerce_whole(arguments))

    def sent_arguments(self) -> str:
        """Return the arguments that were read so far."""
        unsent = (*self._early_arguments, *self.arguments.output, *(self.arguments.collected or ()))
        return self._sink.arguments() + "".join(unsent)

    # The end of a call.

    def end(self) -> None:
        """End the object of a call. The call itself ends with the body."""
        if not self.discarding:
            if self.name is None:
                self.discard()
            else:
                self._complete()
        if self.status is BodyStatus.NOT_A_CALL:
            self.end_pending = True
        elif not self.repairing:
            self.status = BodyStatus.CALL_ENDED
            self._reader.stop = True

    def _complete(self) -> None:
        """Send the arguments that were not sent yet."""
        if not self._started:
            if self.has_unknown_key and not self.has_arguments:
                self.abandon("malformed", "the arguments stand under no known key")
                return
            self._start()
            encoded = "".join(self._encoded_arguments)
            arguments = decode_object(encoded, self._grammar, self._limits) if encoded else "{}"
            if arguments is None:
                self._sink.fail("malformed", "the arguments are not an object", encoded)
                return
            self._send_whole(arguments)
        self.arguments.flush()
        self._sink.mark_complete()

    def refuse(self) -> None:
        """Treat this call and all later calls as text."""
        self._refused = True
        self.discard()

    def discard(self) -> None:
        """Not a call: read to its end without sending."""
        self._sink.finish()
        self._stop_sending()
        self._report(BodyStatus.NOT_A_CALL)

    def abandon(self, kind: CallErrorKind, message: str, raw: str = "") -> None:
        """Reject the call: end it with an error if its name is an offered tool, else treat it as text.

        Raises `LimitError` if the arguments before the error are too long.
        """
        if self.discarding:
            return
        if self.name is None:
            self.discard()
            return
        self.arguments.flush()
        if not self._started:
            self._start()
        if self._sink.is_open:
            self._sink.fail(kind, message, raw)
        self._stop_sending()

    def abandon_at_limit(self, error: LimitError) -> None:
        """Reject the call because of a limit."""
        try:
            self.abandon("limit", str(error))
        except LimitError as earlier:
            self.abandon("limit", str(earlier))

    def _stop_sending(self) -> None:
        self.discarding = True
        self.arguments.end()
        self._buffer.target = None
        self._early_arguments.clear()


def decode_object(encoded: str, grammar: str, limits: Limits) -> str | None:
    """Return the strict JSON of the object in the JSON string `encoded`, or None; an empty string means `{}`."""
    inner: str = json.loads(encoded).strip() or "{}"
    strict = _read_object(inner, limits)
    if strict is not None or len(inner) > limits.mend:
        return strict
    try:
        repaired = repair(grammar, (), "start", inner, ())
    except RepairError:
        return None
    return _read_object(repaired.text, limits) if repaired.complete else None


def _read_object(text: str, limits: Limits) -> str | None:
    reader = StrictJsonReader(compile_end_markers(()), limits)
    parts = reader.buffer.target = []
    try:
        reader.read_whole(text)
    except (LimitError, NotStrictError):
        return None
    return "".join(parts) if text[0] == "{" else None
