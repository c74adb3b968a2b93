"""Whether an upstream that claims tools of its own really has them: what comes back is looked at, and not changed.

Rule: a call that stands in the text (the upstream mangles what its model writes) and a call that was demanded and did
not come (it ignores tools) are noticed. Text stays text: nothing here was neutralised, so a call in it may be an echo.
Neighbours: `native` is the stage that is looked at; who notices takes the prompt from then on (`inquiry.Aptitude`).
"""

from collections.abc import Callable, Iterable

from fcshim.events import Event, Stop, Text, ToolCallEnd
from fcshim.messages import Request
from fcshim.parse.dialects import AUTO
from fcshim.parse.stream import StreamParser
from fcshim.transform import Transform, TransformStream

ReportFailure = Callable[[str], None]
"""Is told, in words, why the upstream's tools are not to be trusted."""


class CheckedNative:
    """A stage whose replies are looked at."""

    constraint_key = ""
    codec = None

    def __init__(self, transform: Transform, report: ReportFailure) -> None:
        self._transform = transform
        self._prepared = transform.prepare()
        self._report = report

    def prepare(self) -> Request:
        """Give the request for the upstream."""
        return self._prepared

    def stream(self) -> "CheckedNativeStream":
        """Make the way back for one choice."""
        parser = StreamParser(AUTO, self._prepared.tools)
        demanded = self._prepared.tool_choice.mode == "required"
        return CheckedNativeStream(self._transform.stream(), parser, self._report, call_required=demanded)


class CheckedNativeStream:
    """One choice on its way back."""

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
        """Take the upstream's next event; give the client's."""
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
        """The upstream has ended; give what is held back."""
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
