"""Reads the calls that an upstream with native tools left in the text, and finds out whether its native tools work.

Theory of operation. The text goes through a parser that reads every dialect; events other than text pass unchanged. As
nothing is escaped in the prompt of this path, a call counts only at the end of the reply and if neither a document of
the conversation nor a text with markers holds it: the model may have quoted any other. Once the upstream has parsed a
call itself, the text is only text, since it may repeat that call. Where the client gets nothing before the end of the
reply anyway, or a call is demanded, the text waits for that end: if the reply should have a call and has none,
`defect` tells the exchange to ask again with the tools in the prompt.

Rule: plain text is never delayed, unless a call is demanded.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from fcshim.events import Event, Reasoning, Stop, Text, ToolCallEnd, ToolCallStart, Usage
from fcshim.messages import Request, TextPart, ToolMessage, document_texts
from fcshim.parse.dialects import AUTO
from fcshim.parse.documents import Documents
from fcshim.parse.stream import StreamParser
from fcshim.pipeline.attempt_filter import MAX_BUFFERED
from fcshim.pipeline.native import Native
from fcshim.pipeline.shim import WHITE_SPACE_LIMIT
from fcshim.prompt.escape import BUNDLED

ReportNativeTools = Callable[[str], None]
"""Receives why the upstream's native tools do not work, as a phrase for the log; empty if they have made a call."""
_NO_CALL = "no call came although one was demanded"
_IN_TEXT = "it leaves calls in the text"
_BROKEN = "a call in its text cannot be read"


@dataclass(slots=True)
class CheckedNative:
    """Reads calls from the text that native tools leave, and reports whether they work, in one attempt.

    `buffered`: the client gets the reply in one piece at its end.
    """

    native: Native
    report: ReportNativeTools
    new_id: Callable[[], str] | None = None
    buffered: bool = False
    defect: str = ""
    """Why the reply should be replaced, once it has ended; empty if it stands."""
    withheld: list[Event] = field(default_factory=list)
    """The events of a reply with a defect that wait for the decision."""

    @property
    def prepared(self) -> Request:
        """The request for the upstream."""
        return self.native.prepared

    def stream(self) -> "CheckedNativeStream":
        """Make the event transform of one choice."""
        return CheckedNativeStream(self)

    def take_withheld(self) -> list[Event]:
        """Return the events that waited."""
        withheld, self.withheld = self.withheld, []
        return withheld


class CheckedNativeStream:
    """Transform the events of one choice."""

    def __init__(self, check: CheckedNative) -> None:
        request = check.prepared
        self.finished = False
        self._check = check
        self._report = check.report
        self._stream = check.native.stream()
        self._call_required = request.tool_choice.mode == "required"
        self._withholds = (self._call_required or check.buffered) and request.n <= 1
        self._withheld: list[Event] = []
        self._withheld_size = 0
        self._white_space = ""  # at the start of the reply: dropped if a call in the text follows
        self._in_text = False
        self._defects: set[str] = set()
        choice = request.tool_choice
        tools = [tool for tool in request.tools if not choice.names or tool.name in choice.names]
        self._parser: StreamParser | None = StreamParser(
            AUTO,
            tools if choice.mode != "none" else (),
            arguments="checked",
            new_id=check.new_id,
            on_defect=lambda defect: self._defects.add(defect.kind),
            documents=Documents(lambda: _quotable_texts(request), (tool.name for tool in tools)),
            calls_last=True,
        )

    def feed(self, event: Event) -> list[Event]:
        """Take the upstream's next event; return the client's events."""
        if self.finished:
            return [event] if isinstance(event, Usage) else []
        match event:
            case Text():
                return self.feed_text(event.text)
            case ToolCallStart():
                return [*self._end_text(), *self._pass(self._stream.feed(event))]
            case ToolCallEnd() if event.error is None:
                self._report("")
            case Stop():
                return self._end(event)
        return self._pass(self._stream.feed(event))

    def feed_text(self, text: str) -> list[Event]:
        """Take the upstream's next piece of text."""
        if self._parser is None:
            return self._pass(self._stream.feed_text(text))
        events = self._parser.feed(text)
        if self._in_text and not self._withholds and len(events) == 1:  # nearly always
            event = events[0]
            if type(event) is Text and event.text:  # an empty one is the place of a defect
                return self._pass(self._stream.feed_text(event.text))
        passed = self._read(events)
        if self._parser.finished:  # the model goes on to invent a result
            passed += self._end(Stop("complete"))
            self.finished = True
        return passed

    def close(self) -> list[Event]:
        """Handle the end of the upstream's reply; return the events that were held back."""
        return [*self._end_text(), *self._pass(self._stream.close())]

    def _end_text(self) -> list[Event]:
        """Release the text, and read no more calls from it."""
        passed: list[Event] = []
        if self._parser is not None:
            # After an end that is not natural, nothing that may be quoted is a call.
            passed = self._read(self._parser.close("error")) + self._release_white_space()
            self._parser = None
        return passed + self._release()

    def _end(self, stop: Stop) -> list[Event]:
        parser, self._parser = self._parser, None
        passed: list[Event] = []
        if parser is not None:
            events = parser.close(stop.stop_reason)
            called = events[-1] == Stop("tool_use")
            passed = self._read(events)
            if not called:
                passed += self._release_white_space()
            self._judge(stop, called=called)
            stop = Stop("tool_use") if called else stop
        if self._check.defect:
            self._check.withheld = [*self._release(), *self._stream.close()]
            return [*passed, stop]
        return [*passed, *self._release(), *self._pass(self._stream.feed(stop))]

    def _judge(self, stop: Stop, *, called: bool) -> None:
        """Report what the reply says about the native tools; decide whether it should be replaced."""
        if stop.stop_reason not in {"complete", "tool_use"}:
            return
        missing = self._call_required and not called
        if called or missing:
            self._report(_IN_TEXT if called else _NO_CALL)
        if self._withholds and (missing or "invalid" in self._defects or (self._defects and not called)):
            self._check.defect = _NO_CALL if missing else _BROKEN

    def _read(self, events: Iterable[Event]) -> list[Event]:
        """Pass the parser's events on, without its `Stop`."""
        passed: list[Event] = []
        for event in events:
            match event:
                case Text():
                    passed += self._emit_text(event.text)
                case ToolCallStart():
                    self._white_space = ""
                    passed += self._pass(self._stream.feed(event))
                case Stop():
                    pass
                case _:
                    passed += self._pass(self._stream.feed(event))
        return passed

    def _emit_text(self, text: str) -> list[Event]:
        if self._in_text:
            return self._pass(self._stream.feed_text(text)) if text else []
        self._white_space += text
        if len(self._white_space) <= WHITE_SPACE_LIMIT and not self._white_space.strip():
            return []
        return self._release_white_space()

    def _release_white_space(self) -> list[Event]:
        text, self._white_space, self._in_text = self._white_space, "", True
        return self._pass(self._stream.feed_text(text)) if text else []

    def _pass(self, events: list[Event]) -> list[Event]:
        """Return the events, or keep them until the end of the reply; reasoning before any text does not wait."""
        self.finished = self.finished or self._stream.finished
        if not self._withholds or (not self._withheld and all(isinstance(event, Reasoning) for event in events)):
            return events
        self._withheld += events
        self._withheld_size += sum(len(event.text) for event in events if isinstance(event, Text))
        return self._release() if self._withheld_size > MAX_BUFFERED else []

    def _release(self) -> list[Event]:
        self._withholds = False
        events, self._withheld = self._withheld, []
        return events


def _quotable_texts(request: Request) -> Iterator[str]:
    """Yield the texts of which the model may have copied a call: documents, and those in which a marker may stand."""
    yield from document_texts(request.messages)
    typed = (
        part.text
        for message in request.messages
        for part in (() if isinstance(message, ToolMessage) else message.content)
        if isinstance(part, TextPart) and not part.document
    )
    for text in (*typed, *(tool.description for tool in request.tools)):
        if "<" in text or BUNDLED.may_change((text,)):  # the name of each offered tool may be a tag
            yield text
