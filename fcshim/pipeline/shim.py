"""The shim: writes tools into the prompt on the way to the upstream, and parses calls from the reply's text.

Rule: no I/O. The prompt escapes markers in what the client sent; `ShimStream` unescapes them in the reply, so that the
client only sees its own spelling.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import msgspec

from fcshim.codecs.base import UpstreamCodec
from fcshim.codecs.llama_completion import LlamaCompletion
from fcshim.constrain.constraint import Constraint, apply_constraint, constraint_for, unconstrained_note
from fcshim.errors import RequestError
from fcshim.events import (
    Error,
    Event,
    Reasoning,
    Stop,
    StopReason,
    Text,
    ToolCallChunk,
    ToolCallEnd,
    ToolCallStart,
    Usage,
)
from fcshim.messages import (
    AUTO,
    AssistantMessage,
    Request,
    Tool,
    ToolMessage,
    as_tools,
    document_texts,
    requested_schema,
    without_format,
)
from fcshim.parse.body import NATURAL_STOPS
from fcshim.parse.defect import Defect, ReportDefect
from fcshim.parse.dialect import Dialect
from fcshim.parse.documents import Documents
from fcshim.parse.limits import DEFAULT_LIMITS, Limits
from fcshim.parse.sink import ArgumentsMode
from fcshim.parse.stream import StreamParser
from fcshim.pipeline.backends import OFF, Backend
from fcshim.pipeline.bare_call import BareCallSearch
from fcshim.pipeline.stop_sequences import StopSearch
from fcshim.pipeline.upstream_calls import START_MARKER, call_text
from fcshim.pipeline.withheld_text import WithheldText, sentence_about
from fcshim.prompt.compose import DEFAULT_BUDGET, PromptBudget, compose
from fcshim.prompt.content import Escaper
from fcshim.prompt.dialect_folder import find_dialect
from fcshim.prompt.escape import escaper_for, map_strings, strings_of
from fcshim.prompt.event_unescape import EventUnescaper
from fcshim.prompt.profiles import DEFAULT, Profile, get_profile
from fcshim.prompt.repetition import CallKey
from fcshim.prompt.styles import OWN_STYLE, PromptStyle, ToolsListing
from fcshim.schema.member_order import long_members_last

WHITE_SPACE_LIMIT = 4_096
"""Characters of white space around calls that are held back, and dropped if a call follows; longer runs are text."""
MAX_EQUAL_CALLS = 8
"""Equal calls in a row at which a reply ends: a small model that finds no end writes until its context is full."""
MAX_TEXT_AFTER_CALL = 4_096
"""Characters of text after a call at which a reply ends, for the same reason (Qwen2.5-Coder-0.5B: 1 of 16 replies)."""


@dataclass(frozen=True, slots=True)
class ParserOptions:
    """How calls are read from the reply; the fields are arguments of `StreamParser`."""

    rescue: bool = False
    reasoning: Literal["ignore", "recover", "promote"] = "ignore"
    open_reasoning_tag: str = ""
    arguments: ArgumentsMode = "stream"
    invalid_calls: Literal["deliver", "error"] = "deliver"
    """What becomes of a call that violates its schema after all retries; without retries, see `make_shim`."""
    new_id: Callable[[], str] | None = None
    limits: Limits = DEFAULT_LIMITS


DEFAULT_PARSER_OPTIONS = ParserOptions()


@dataclass(frozen=True, slots=True)
class Shim:
    """One request for an upstream without native tools, and how its reply is parsed. Made by `prepare_shim`.

    `prepared` has text messages and no tools. It has stop sequences only if no tool is offered, since the upstream
    would also stop inside a call; otherwise the shim searches them.
    """

    request: Request
    """The client's request, without `response_format` if it would forbid a required call."""
    tools: tuple[Tool, ...]
    """The tools that may be called, with the escaped names and schemas that the model sees."""
    dialect: Dialect
    """The dialect of the reply, which a constraint may change."""
    escape: Escaper
    backend: Backend
    options: ParserOptions
    unconstrained: Request
    """The request for the upstream without a constraint."""
    prepared: Request
    constraint_key: str
    schema_enforced: bool
    """Whether the constraint lets the model write only calls that are valid against their schemas."""
    codec: UpstreamCodec | None
    notes: tuple[str, ...]
    """What the constraint does not enforce of the tools' schemas, and what the prompt budget left out."""
    refused_calls: Mapping[CallKey, int] = field(default_factory=dict)
    """Calls that are refused, since they repeat without progress, and how often each was made."""
    prefill: str = ""
    """Text at the end of `prepared` that the model continues."""

    def stream(
        self, *, on_text: Callable[[str], None] | None = None, on_defect: ReportDefect | None = None
    ) -> "ShimStream":
        """Make the event transform of one choice.

        `on_text` receives the model's text as it came, `on_defect` the parser's defects. With `on_defect`, an empty
        `Text` stands in the place of each call that became text.
        """
        options, offered = self.options, {tool.name: tool for tool in self.tools}
        withheld = WithheldText(on_defect, has_results=self.has_results)
        # Whether the prompt has anything of tools that a reply can copy.
        may_copy = offered or any(isinstance(message, ToolMessage) for message in self.request.messages)
        parser = StreamParser(
            self.dialect,
            offered,  # checked by `prepare_shim`
            rescue=options.rescue,
            reasoning=options.reasoning,
            open_reasoning_tag=options.open_reasoning_tag,
            arguments=options.arguments,
            schema_enforced=self.schema_enforced,
            new_id=options.new_id,
            limits=options.limits,
            on_defect=None if on_defect is None else withheld.report,
            on_copy=withheld.report if may_copy else None,
            documents=self._documents(),
        )
        stops = self.request.stop
        return ShimStream(
            parser,
            withheld=withheld,
            bare_call=BareCallSearch(offered.keys()) if offered else None,
            on_defect=on_defect,
            unescape=EventUnescaper(self.escape.markers) if self.escape.changed else None,
            stop_search=StopSearch(stops) if any(stops) else None,
            parallel=self.request.allows_parallel_calls,
            on_text=on_text,
        )

    @property
    def has_results(self) -> bool:
        """Whether results of tools came after the model's last turn."""
        for message in reversed(self.request.messages):
            if isinstance(message, AssistantMessage | ToolMessage):
                return isinstance(message, ToolMessage)
        return False

    def _documents(self) -> Documents | None:
        escape = self.escape.markers.escape if self.escape.changed else str
        messages = self.request.messages
        if next(document_texts(messages), None) is None:
            return None
        return Documents(lambda: map(escape, document_texts(messages)), (tool.name for tool in self.tools))


def prepare_shim(
    request: Request,
    *,
    dialect: str | Dialect = "function_call",
    profile: str | Profile = DEFAULT,
    style: PromptStyle = OWN_STYLE,
    tools_style: ToolsListing = "auto",
    budget: PromptBudget = DEFAULT_BUDGET,
    backend: Backend = OFF,
    options: ParserOptions = DEFAULT_PARSER_OPTIONS,
) -> Shim:
    """Write the prompt, and build the constraint if the request needs one that `backend` accepts.

    `tools_style` other than `auto` replaces how `style` lists the tools.

    Raises `RequestError` if `tool_choice` names a tool that is not offered or requires a call that cannot be
    constrained although the settings demand it, or a schema is too deep.
    """
    selected = find_dialect(dialect)
    # In some dialects, each tool's name is a marker.
    marked = selected.for_tools(tool.name for tool in request.tools) if selected.escapes_tool_markers else selected
    escape = Escaper(escaper_for(marked))
    offered = _escaped_tools(request, escape)
    tools = _callable_tools(request, offered)
    if tools and request.tool_choice.mode == "required":
        request = without_format(request)  # the client's format would forbid the required call
    constraint = _choose_constraint(request, tools, selected, backend, options.open_reasoning_tag)
    notes = _unconstrained_notes(request, tools, selected, backend) if constraint is None else constraint.notes
    row = selected if constraint is None else constraint.dialect
    prompt = compose(
        request,
        offered,
        msgspec.structs.replace(request.tool_choice, names=tuple(map(escape, request.tool_choice.names))),
        escape,
        dialect=row,
        profile=get_profile(profile),
        style=style if tools_style == "auto" else replace(style, listing=tools_style),
        budget=budget,
    )
    escape.forget_tools()
    stop = () if offered else request.stop
    unconstrained = msgspec.structs.replace(
        request, messages=prompt.messages, tools=(), tool_choice=AUTO, parallel_tool_calls=None, stop=stop
    )
    codec = None
    if constraint is not None and constraint.lazy:  # only this API takes a lazy grammar
        codec = LlamaCompletion(starts_in_reasoning=bool(options.open_reasoning_tag))
    return Shim(
        request=request,
        tools=tools,
        dialect=row,
        escape=escape,
        backend=backend,
        options=options,
        unconstrained=unconstrained,
        prepared=unconstrained if constraint is None else apply_constraint(unconstrained, constraint),
        constraint_key="" if constraint is None else constraint.key,
        schema_enforced=constraint is not None and constraint.covers_all_calls,
        codec=codec,
        notes=(*notes, *prompt.notes),
    )


def _escaped_tools(request: Request, escape: Escaper) -> tuple[Tool, ...]:
    """Return the offered tools with escaped names and schemas, as the model and the parser know them."""
    if request.tool_choice.mode == "none":
        return ()
    try:
        if _are_unchanged(request.tools, escape):
            return request.tools
        tools = _with_long_members_last(request.tools)
        return tools if _are_unchanged(tools, escape) else _as_escaped(tools, escape)
    except RecursionError:
        raise RequestError("tools: a schema is nested too deeply", param="tools") from None


def _with_long_members_last(tools: tuple[Tool, ...]) -> tuple[Tool, ...]:
    """Return the tools with ordered schemas; the same tuple if nothing moves, whose key is made once."""
    ordered = [long_members_last(tool.parameters) for tool in tools]
    if all(new is tool.parameters for new, tool in zip(ordered, tools, strict=True)):
        return tools
    return tuple(msgspec.structs.replace(tool, parameters=new) for tool, new in zip(tools, ordered, strict=True))


def _are_unchanged(tools: Sequence[Tool], escape: Escaper) -> bool:
    """Return true only if the tools are valid, their members are in order, and nothing in them is escaped.

    Only this result is cached, not the tools: the caller may change a schema.
    """

    def test() -> bool:
        if any(long_members_last(tool.parameters) is not tool.parameters for tool in tools):
            return False
        texts = strings_of([[tool.name, tool.description, tool.parameters, tool.returns] for tool in tools])
        return as_tools(tools) == tools and not escape.markers.may_change(texts)

    key = escape.key_of(tools)
    return key is not None and escape.cached(("tools", key), test, lambda _: ())


def _as_escaped(tools: Sequence[Tool], escape: Escaper) -> tuple[Tool, ...]:
    return as_tools(
        [
            msgspec.structs.replace(
                tool,
                name=escape(tool.name),
                description=escape(tool.description),
                parameters=map_strings(tool.parameters, escape),
                returns=map_strings(tool.returns, escape),
            )
            for tool in tools
        ]
    )


def _callable_tools(request: Request, tools: Sequence[Tool]) -> tuple[Tool, ...]:
    names = request.tool_choice.names
    if not names:
        return tuple(tools)
    unknown = set(names) - {tool.name for tool in request.tools}
    if unknown:
        raise RequestError(f"tool_choice: there is no tool named {min(unknown)!r}", param="tool_choice")
    pairs = zip(request.tools, tools, strict=False)  # with tool_choice none, `tools` is empty
    return tuple(tool for original, tool in pairs if original.name in names)


def _choose_constraint(
    request: Request, tools: Sequence[Tool], dialect: Dialect, backend: Backend, open_reasoning_tag: str
) -> Constraint | None:
    if backend.form is not None:
        return constraint_for(
            backend.form,
            dialect,
            tools,
            request,
            eager=backend.constrains_auto_choice,
            lazy=backend.lazy and LlamaCompletion.supports(request),
            open_reasoning_tag=open_reasoning_tag,
        )
    # A server that supports `response_format` accepts one that also admits calls as well as the client's own.
    needs_format = backend.rewrites_response_format and requested_schema(request) is not None
    return constraint_for("json_schema", dialect, tools, request) if needs_format else None


def _unconstrained_notes(
    request: Request, tools: Sequence[Tool], dialect: Dialect, backend: Backend
) -> tuple[str, ...]:
    """Return the reason why calls are not constrained although they should be, if there is one."""
    if backend.form is None:
        return ()
    note = unconstrained_note(backend.form, dialect, tools, request, eager=backend.constrains_auto_choice)
    if note and backend.demanded and request.tool_choice.mode == "required":
        raise RequestError(f"tool_choice: {note}", param="tool_choice")
    return (note,) if note else ()


class ShimStream:
    """Transform the events of one choice. Exactly one `Stop` or `Error` ends them; after that only `Usage` passes.

    `finished` becomes true if the reply ends before the upstream does: at a tool result that the model invents, at a
    stop sequence, after the only call that is allowed, or where a model that has made a call finds no end. The
    upstream may then be cancelled.
    """

    __slots__ = (
        "_accepted_call",
        "_after_reasoning",
        "_bare_call",
        "_ended",
        "_equal_calls",
        "_in_text",
        "_last_call",
        "_on_defect",
        "_on_text",
        "_parallel",
        "_parser",
        "_passthrough",
        "_saw_call",
        "_stop_search",
        "_text_after_call",
        "_unescape",
        "_white_space",
        "_withheld",
        "finished",
    )

    def __init__(
        self,
        parser: StreamParser,
        *,
        withheld: WithheldText,
        bare_call: BareCallSearch | None = None,
        on_defect: ReportDefect | None = None,
        unescape: EventUnescaper | None = None,
        stop_search: StopSearch | None = None,
        parallel: bool = True,
        on_text: Callable[[str], None] | None = None,
    ) -> None:
        self.finished = False
        self._on_text = on_text
        self._parser = parser
        self._withheld = withheld
        self._bare_call = bare_call  # until it is known that the reply is no such call
        self._on_defect = on_defect
        self._unescape = unescape
        self._stop_search = stop_search
        self._passthrough = unescape is None and stop_search is None
        self._parallel = parallel
        self._ended = False
        self._white_space = ""  # held back: dropped if a call follows or came before
        self._after_reasoning = False  # blank lines before the answer are dropped
        self._in_text = False  # text other than white space has come since the start or the last call
        self._saw_call = False
        self._accepted_call = False  # a call has ended without error
        self._last_call = ("", "")  # the name and arguments of the last call that has ended
        self._equal_calls = 0  # how often that call came in a row
        self._text_after_call = 0  # characters of text since the last call

    def feed(self, event: Event) -> list[Event]:
        """Take the upstream's next event; return the client's events."""
        if self._ended:
            return [event] if isinstance(event, Usage) else []
        if type(event) is Text:
            return self.feed_text(event.text)
        match event:
            case Stop():
                return self._end(event.stop_reason)
            case Error():
                events = self._end("error")
                return [*events[:-1], event]  # the error replaces the stop
            case ToolCallStart() | ToolCallChunk() | ToolCallEnd():
                return self._feed_call(event)
            case _:
                return self._transform([event])

    def close(self, stop_reason: StopReason = "complete") -> list[Event]:
        """Handle the end of the upstream's reply; `stop_reason` applies if no `Stop` came. Return the last events."""
        return [] if self._ended else self._end(stop_reason)

    def feed_text(self, text: str) -> list[Event]:
        """Do what `feed(Text(text))` does. Must not be called after the choice has ended."""
        if self._on_text is not None:
            self._on_text(text)
        events = self._parser.feed(text)
        if self._parser.finished:
            events = self._transform(events)
            return events if self._ended else events + self._finish("complete")
        if (
            self._passthrough and len(events) == 1 and not self._withheld.is_active
        ):  # nearly always, at a tenth of the cost of `_transform`
            kind = type(events[0])
            if kind is ToolCallChunk or (kind is Text and self._in_text and not self._accepted_call):
                return events
        return self._transform(events) if events else events

    def _feed_call(self, event: ToolCallStart | ToolCallChunk | ToolCallEnd) -> list[Event]:
        """Take a part of a call that the upstream has parsed itself, as the text that it was."""
        begun: list[Event] = []
        if isinstance(event, ToolCallStart):
            if self._on_text is not None:
                self._on_text(START_MARKER)
            begun = self._transform(self._parser.begin_call(START_MARKER))
        text = call_text(event)
        return begun + self.feed_text(text) if text and not self._ended else begun

    def _finish(self, stop_reason: StopReason) -> list[Event]:
        self.finished = True
        return self._end(stop_reason)

    def _end(self, stop_reason: StopReason) -> list[Event]:
        return self._transform(self._parser.close(stop_reason))

    def _transform(self, events: Iterable[Event]) -> list[Event]:
        if self._withheld.is_active:
            events = self._withheld.apply(events, in_text=self._in_text)
        if self._unescape is not None:
            events = self._unescape.apply(events)
        result: list[Event] = []
        for event in events:
            result += self._transform_event(event)
            if self._ended:
                break
        return result

    def _transform_event(self, event: Event) -> list[Event]:
        match event:
            case Text() if event.text:  # an empty one is the place of a defect
                return self._emit_text(event.text)
            case Reasoning():
                self._after_reasoning = True
                return [event]
            case ToolCallStart():
                return self._start_call(event)
            case ToolCallEnd():
                return self._end_call(event)
            case Stop():
                return self._end_reply(event)
            case _:
                return [event]

    def _emit_text(self, text: str) -> list[Event]:
        if self._bare_call is not None:
            text = self._bare_call.feed(text)
            if not text:
                return []
            self._bare_call = None
        if not self._in_text:
            self._white_space += text
            if text.isspace() and len(self._white_space) <= WHITE_SPACE_LIMIT:
                return []
            text, self._white_space, self._in_text = self._white_space, "", True
            if self._after_reasoning:
                # Blank lines at its start are dropped; the white space before its first line stays.
                start = len(text) - len(text.lstrip())
                text, self._after_reasoning = text[text.rfind("\n", 0, start) + 1 :], False
        return self._search_stops(text)

    def _search_stops(self, text: str) -> list[Event]:
        if self._accepted_call:
            self._text_after_call += len(text)
            surplus = self._text_after_call - MAX_TEXT_AFTER_CALL
            if surplus > 0:
                self.finished = self._ended = True
                return [*_text_events(text[:-surplus]), Stop("tool_use")]
        if self._stop_search is None:
            return _text_events(text)
        events = _text_events(self._stop_search.feed(text))
        if not self._stop_search.found:
            return events
        self.finished = self._ended = True
        return [*events, Stop("tool_use" if self._accepted_call else "stop_sequence")]

    def _start_call(self, event: ToolCallStart) -> list[Event]:
        text = self._release_text()
        self._saw_call, self._white_space = True, ""
        return [*text, *self._flush_stop_search(), event]

    def _end_call(self, event: ToolCallEnd) -> list[Event]:
        self._in_text = False
        self._accepted_call = self._accepted_call or event.error is None
        self._text_after_call = 0
        call = (event.tool_call_name, event.tool_call_arguments_complete)
        self._equal_calls = self._equal_calls + 1 if call == self._last_call and event.error is None else 1
        self._last_call = call
        if (self._parallel or not self._accepted_call) and self._equal_calls < MAX_EQUAL_CALLS:
            return [event]
        self.finished = self._ended = True
        return [event, Stop("tool_use")]

    def _release_text(self) -> list[Event]:
        """Return the text that was held back because it might be a bare call."""
        search, self._bare_call = self._bare_call, None
        text = "" if search is None else search.flush()
        return self._emit_text(text) if text else []

    def _end_bare_call(self, event: Stop) -> list[Event]:
        """Return the sentence that stands for a reply that is a bare call of a tool that is not offered."""
        search = self._bare_call
        name = "" if search is None or event.stop_reason not in NATURAL_STOPS else search.tool_name()
        if not name:
            return self._release_text()
        defect, self._bare_call = Defect("unoffered", name), None
        if self._on_defect is None:
            return [Text(sentence_about(defect))]
        self._on_defect(defect)
        return [Text(""), Text(sentence_about(defect))]

    def _end_reply(self, event: Stop) -> list[Event]:
        if self._bare_call is not None and (held := self._end_bare_call(event)):
            return held if self._ended else [*held, *self._end_reply(event)]
        white_space = [] if self._saw_call or self._after_reasoning else self._search_stops(self._white_space)
        if self._ended:  # at a stop sequence of white space
            return white_space
        self._ended = True
        return [*white_space, *self._flush_stop_search(), event]

    def _flush_stop_search(self) -> list[Event]:
        return [] if self._stop_search is None else _text_events(self._stop_search.flush())


def _text_events(text: str) -> list[Event]:
    return [Text(text)] if text else []
