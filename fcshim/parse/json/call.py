"""One call of a body of JSON after the other: what is known of it, its start, its end, and why it may be none.

Rule: a call ends with an error if its name says that it was meant; else it is text.
Neighbours: `body` reads the envelope, `encoded` arguments in a string; `sink` makes the events.
"""

from fcshim.events import CallErrorKind
from fcshim.parse.body import READING, Status
from fcshim.parse.dialect import Dialect
from fcshim.parse.json.encoded import decode_object
from fcshim.parse.json.ending import JsonEnding
from fcshim.parse.limits import Limits
from fcshim.parse.sink import CallSink


class JsonCall(JsonEnding):
    """Keeps one call; `grammar` is that of its arguments where they are a string."""

    def __init__(self, grammar: str, dialect: Dialect, opener: str, sink: CallSink, limits: Limits) -> None:
        super().__init__(dialect, opener, sink, limits)
        self._grammar = grammar
        self._new_call()

    def _new_call(self) -> None:
        self._member = ""
        self._depth = self._base_depth
        self._name: str | None = None
        self._name_parts: list[str] = []
        self._encoded: list[str] = []
        self._early: list[str] = []
        self._has_arguments = False
        self._arguments_depth = -1
        self._started = False
        self._into = None

    def _start(self) -> None:
        assert self._name is not None
        self._started = True
        self.calls += 1
        self._sink.start(self._name)
        if self.status is READING:
            self.status = Status.STARTED

    def _complete(self) -> None:
        """The call's object is whole: send what was not sent yet. Its end comes with the end of the body."""
        if not self._started:
            self._start()
            encoded = "".join(self._encoded)
            arguments = decode_object(encoded, self._grammar, self._limits) if encoded else "{}"
            if arguments is None:
                self._sink.fail("malformed", "the arguments are not an object", encoded)
                return
            self._out.append(self._coerced(self._sink.expectation, arguments))
        self._flush()
        self._sink.complete()

    def _go_dry(self) -> None:
        """This call is none: walk to its end without sending."""
        self._sink.finish()
        self._dry = True
        self._expect_nothing()
        self._into = None
        self._early = []
        if self.status is READING:
            self.status = Status.UNKNOWN

    def _give_up(self, kind: CallErrorKind, message: str, raw: str = "") -> None:
        """This call must not run: end it with an error if its name says that it was meant, else it is text."""
        if self._dry:
            return
        if self._name is None:
            self._go_dry()
            return
        self._flush()
        if not self._started:
            self._start()
        if self._sink.open:
            self._sink.fail(kind, message, raw)
        self._dry = True
        self._expect_nothing()
        self._into = None
