"""The transform for native tools, and the check whether they work.

Theory of operation. Events pass unchanged, with these exceptions: tool names that the upstream's API does not admit are
mapped there and back; without parallel calls the reply ends after the first call; media that the upstream refuses
become a line of text; stop sequences that it refuses are searched here. Where calls are refused, since they repeat
without progress, each call waits for its end.

Where `auto` chose native tools, the text also goes through a parser that reads every dialect. As nothing is escaped in
the prompt of this path, a call counts only at the end of the reply and if neither a document of the conversation nor a
text with markers holds it: the model may have quoted any other. Once the upstream has parsed a call itself, the text is
only text, since it may repeat that call. Where the client gets nothing before the end of the reply anyway, or a call is
demanded, the text waits for that end: if the reply should have a call and has none, `defect` tells the exchange to ask
again with the tools in the prompt.

Rule: plain text is never delayed, unless a call is demanded.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import msgspec

from fcshim.codecs.upstreams import NameRules
from fcshim.events import Event, Reasoning, Stop, Text, ToolCallChunk, ToolCallEnd, ToolCallStart, Usage
from fcshim.messages import (
    AssistantMessage,
    Content,
    MediaPart,
    Message,
    Request,
    TextPart,
    ToolMessage,
    document_texts,
    placeholder,
)
from fcshim.parse.dialects import AUTO
from fcshim.parse.documents import Documents
from fcshim.parse.stream import StreamParser
from fcshim.pipeline.attempt_filter import MAX_BUFFERED, ReplyCalls
from fcshim.pipeline.shim_stream import WHITE_SPACE_LIMIT
from fcshim.pipeline.stop_sequences import StopSearch
from fcshim.prompt.escape import BUNDLED
from fcshim.prompt.repetition import CallKey

_replace = msgspec.structs.replace


ReportNativeTools = Callable[[str], None]
"""Receives why the upstream's native tools do not work, as a phrase for the log; empty if they have made a call."""
_NO_CALL = "no call came although one was demanded"
_IN_TEXT = "it leaves calls in the text"
_BROKEN = "a call in its text cannot be read"


@dataclass(slots=True)
class Native:
    """One request for an upstream with native tools, and one reply to it. Made by `prepare_native`."""

    prepared: Request
    client_names: Mapping[str, str]
    """The client's tool names by the upstream's, where they differ."""
    searched_stops: tuple[str, ...] = ()
    """Stop sequences that the upstream does not search."""
    report: ReportNativeTools | None = None
    """Set where calls are also read from the text."""
    new_id: Callable[[], str] | None = None
    buffered: bool = False
    """Whether the client gets the reply in one piece at its end."""
    defect: str = ""
    """Why the reply should be replaced, once it has ended; empty if it stands."""
    withheld: list[Event] = field(default_factory=list)
    """The events of a reply with a defect that wait for the decision."""
    refused_calls: Mapping[CallKey, int] = field(default_factory=dict)
    """Calls that repeat without progress, in whose place the client gets a sentence, and how often each was made."""

    def stream(self) -> "NativeStream | CheckedNativeStream":
        """Make the event transform of one choice."""
        stops = StopSearch(self.searched_stops) if self.searched_stops else None
        stream = NativeStream(
            self.client_names, parallel=self.prepared.allows_parallel_calls, stops=stops, refused=self.refused_calls
        )
        return stream if self.report is None else CheckedNativeStream(self, self.report, stream)


def prepare_native(
    request: Request,
    *,
    name_rules: NameRules,
    media: bool = True,
    searched_stops: tuple[str, ...] = (),
    report: ReportNativeTools | None = None,
    new_id: Callable[[], str] | None = None,
    buffered: bool = False,
) -> Native:
    """Write the tool names as the upstream admits them; without `media`, replace media by a line of text.

    With `report`, calls are also read from the text, `new_id` makes their ids, and `report` gets what the reply says
    about the native tools. `buffered`: the client gets the reply in one piece at its end.
    """
    used = {tool.name for tool in request.tools}.union(*map(_names_in, request.messages))
    names = {name: name_rules.sanitize(name) for name in used}
    choice = request.tool_choice
    prepared = _replace(
        request,
        messages=tuple(_prepare_message(message, names, media=media) for message in request.messages),
        tools=tuple(_replace(tool, name=names[tool.name]) for tool in request.tools),
        tool_choice=_replace(choice, names=tuple(names.get(name, name) for name in choice.names)),
    )
    client_names = {upstream: name for name, upstream in names.items() if upstream != name}
    return Native(prepared, client_names, searched_stops, report, new_id, buffered)


def _prepare_message(message: Message, names: Mapping[str, str], *, media: bool) -> Message:
    if not media:
        message = _replace(message, content=_without_media(message.content))
    if isinstance(message, AssistantMessage) and message.tool_calls:
        calls = tuple(_replace(call, name=names.get(call.name, call.name)) for call in message.tool_calls)
        return _replace(message, tool_calls=calls)
    if isinstance(message, ToolMessage):
        return _replace(message, name=names.get(message.name, message.name))
    return message


class NativeStream:
    """Transform the events of one choice. `names` maps the upstream's tool names to the client's, where they differ."""

    def __init__(
        self,
        names: Mapping[str, str],
        *,
        parallel: bool,
        stops: StopSearch | None = None,
        refused: Mapping[CallKey, int] | None = None,
    ) -> None:
        self.finished = False
        self._refused = ReplyCalls(refused)
        self._held: list[Event] | None = [] if refused else None
        self._stops = stops
        self._called = False
        self._names = names
        self._parallel = parallel
        self._ended = False

    def feed(self, event: Event) -> list[Event]:
        """Take the upstream's next event; return the client's events."""
        if self._ended:
            return [event] if isinstance(event, Usage) else []
        match event:
            case Text():
                return self.feed_text(event.text)
            case ToolCallStart() | ToolCallChunk():
                return self._feed_call(event)
            case ToolCallEnd():
                return self._end_call(event)
            case Stop():
                is_refused = self._held is not None and event.stop_reason == "tool_use" and not self._called
                return [*self.close(), Stop("complete") if is_refused else event]
        return [event]

    def _feed_call(self, event: ToolCallStart | ToolCallChunk) -> list[Event]:
        """Take a part of a call. Where calls are refused, it waits for the call's end."""
        events: list[Event] = [event]
        if isinstance(event, ToolCallStart):
            name = event.tool_call_name
            events = [*self._held_text(), _replace(event, tool_call_name=self._names.get(name, name))]
        if self._held is None:
            return events
        self._held.append(events.pop())
        return events

    def feed_text(self, text: str) -> list[Event]:
        """Do what `feed(Text(text))` does."""
        return [Text(text)] if self._stops is None else self._search_stops(self._stops, text)

    def close(self) -> list[Event]:
        """Handle the end of the upstream's reply; return the text that was held back."""
        events, self._ended = self._held_text(), True
        return events

    def _search_stops(self, stops: StopSearch, text: str) -> list[Event]:
        events: list[Event] = [Text(found)] if (found := stops.feed(text)) else []
        if stops.found:
            self.finished = self._ended = True
            events.append(Stop("tool_use" if self._called else "stop_sequence"))
        return events

    def _held_text(self) -> list[Event]:
        held = "" if self._stops is None or self._ended else self._stops.flush()
        return [Text(held)] if held else []

    def _end_call(self, event: ToolCallEnd) -> list[Event]:
        name = event.tool_call_name
        ended = _replace(event, tool_call_name=self._names.get(name, name))
        events: list[Event] = [ended]
        if self._held is not None:
            if sentence := self._refused.refusal(ended):
                self._held.clear()
                return [Text(sentence)]
            events = self._refused.renumber([*self._held, ended])
            self._held.clear()
        self._called = self._called or event.error is None
        if self._parallel or event.error is not None:
            return events
        self.finished = self._ended = True
        return [*events, Stop("tool_use")]


def _names_in(message: Message) -> set[str]:
    match message:
        case AssistantMessage():
            return {call.name for call in message.tool_calls}
        case ToolMessage(name=name) if name:
            return {name}
    return set()


def _without_media(content: Content) -> Content:
    return tuple(placeholder(part) if isinstance(part, MediaPart) else part for part in content)


class CheckedNativeStream:
    """Transform the events of one choice, and read calls from the text that `stream` gets."""

    def __init__(self, native: Native, report: ReportNativeTools, stream: NativeStream) -> None:
        request = native.prepared
        self.finished = False
        self._native = native
        self._report = report
        self._stream = stream
        self._call_required = request.tool_choice.mode == "required"
        self._withholds = (self._call_required or native.buffered) and request.n <= 1
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
            new_id=native.new_id,
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
        if self._native.defect:
            self._native.withheld = [*self._release(), *self._stream.close()]
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
            self._native.defect = _NO_CALL if missing else _BROKEN

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
