"""The state of the current call in a JSON body: its start, its end, and its rejection.

Rule: a rejected call ends with an error if its name is an offered tool; otherwise it is text.
"""

from fcshim.events import CallErrorKind
from fcshim.parse.body import READING, BodyStatus
from fcshim.parse.dialect import Dialect
from fcshim.parse.json.encoded import decode_object
from fcshim.parse.json.trailer import JsonTrailerReader
from fcshim.parse.limits import Limits
from fcshim.parse.sink import CallSink


class JsonCallReader(JsonTrailerReader):
    """Keeps the current call; `grammar` repairs arguments that are encoded in a string."""

    def __init__(self, grammar: str, dialect: Dialect, start_marker: str, sink: CallSink, limits: Limits) -> None:
        super().__init__(dialect, start_marker, sink, limits)
        self._grammar = grammar
        self._reset_call()

    def _reset_call(self) -> None:
        self._member_key = ""
        self._call_depth = self._base_depth
        self._name: str | None = None
        self._name_parts: list[str] = []
        self._encoded_arguments: list[str] = []
        self._early_arguments: list[str] = []
        self._has_arguments = False
        self._arguments_depth = -1
        self._started = False
        self._target = None

    def _start_call(self) -> None:
        assert self._name is not None
        self._started = True
        self.call_count += 1
        self._sink.start(self._name)
        if self.status is READING:
            self.status = BodyStatus.STARTED

    def _complete_call(self) -> None:
        """Complete the call's object: send its unsent arguments. The call itself ends with the body."""
        if not self._started:
            self._start_call()
            encoded = "".join(self._encoded_arguments)
            arguments = decode_object(encoded, self._grammar, self._limits) if encoded else "{}"
            if arguments is None:
                self._sink.fail("malformed", "the arguments are not an object", encoded)
                return
            self._output.append(self._coerce(self._sink.expectation, arguments))
        self._flush()
        self._sink.mark_complete()

    def _discard_call(self) -> None:
        """Not a call: read to its end without sending."""
        self._sink.finish()
        self._discarding = True
        self._end_typed()
        self._target = None
        self._early_arguments = []
        if self.status is READING:
            self.status = BodyStatus.NOT_A_CALL

    def _abandon_call(self, kind: CallErrorKind, message: str, raw: str = "") -> None:
        """Reject the call: end it with an error if its name is an offered tool, else treat it as text."""
        if self._discarding:
            return
        if self._name is None:
            self._discard_call()
            return
        self._flush()
        if not self._started:
            self._start_call()
        if self._sink.is_open:
            self._sink.fail(kind, message, raw)
        self._discarding = True
        self._end_typed()
        self._target = None
