"""Checks whether an upstream that claims native tools really has them, without changing its events.

Rule: two failures are reported: a call in the text (the upstream did not parse what its model wrote), and no call
although one was required (the upstream ignores tools). A call in the text stays text: this path escapes nothing in the
prompt, so the model may only have quoted a call from it.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from fcshim.codecs.base import UpstreamCodec
from fcshim.events import Event, Stop, Text, ToolCallEnd
from fcshim.messages import Request
from fcshim.parse.dialects import AUTO
from fcshim.parse.stream import StreamParser
from fcshim.pipeline.transform import Transform, TransformStream

ReportFailure = Callable[[str], None]
"""Receives the reason, as a phrase for the log, why the upstream's native tools do not work."""


@dataclass(frozen=True, slots=True)
class CheckedNative:
    """A transform that passes everything through another one and reports failures of native tools."""

    transform: Transform
    report: ReportFailure
    constraint_key: str = ""
    codec: UpstreamCodec | None = None

    @property
    def prepared(self) -> Request:
        """The request for the upstream."""
        return self.transform.prepared

    def stream(self) -> "CheckedNativeStream":
        """Make the event transform of one choice."""
        parser = StreamParser(AUTO, self.prepared.tools)
        call_required = self.prepared.tool_choice.mode == "required"
        return CheckedNativeStream(self.transform.stream(), parser, self.report, call_required=call_required)


class CheckedNativeStream:
    """Pass the events of one choice through, and report a failure at most once."""

    def __init__(
        self, stream: TransformStream, parser: StreamParser, report: ReportFailure, *, call_required: bool
    ) -> None:
        self._stream = stream
        self._parser = parser
        self._report = report
        self._call_required = call_required
        self._checking = True

    @property
    def finished(self) -> bool:
        """Whether the reply ended before the upstream did."""
        return self._stream.finished

    def feed(self, event: Event) -> list[Event]:
        """Take the upstream's next event; return the client's events."""
        match event:
            case Text():
                return self.feed_text(event.text)
            case ToolCallEnd():
                self._checking = False
            case Stop():
                self._check_end(event)
        return self._stream.feed(event)

    def feed_text(self, text: str) -> list[Event]:
        """Take the upstream's next piece of text."""
        if self._checking:
            self._check(self._parser.feed(text))
        return self._stream.feed_text(text)

    def close(self) -> list[Event]:
        """Handle the end of the upstream's reply; return the events that were held back."""
        return self._stream.close()

    def _check(self, events: Iterable[Event]) -> None:
        if any(isinstance(event, ToolCallEnd) and event.error is None for event in events):
            self._checking = False
            self._report("it leaves calls in the text")

    def _check_end(self, stop: Stop) -> None:
        if self._checking:
            self._check(self._parser.close(stop.stop_reason))
        if self._checking and self._call_required and stop.stop_reason == "complete":
            self._checking = False
            self._report("no call came although one was demanded")
