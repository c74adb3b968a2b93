"""The shim: writes tools into the prompt on the way to the upstream; `ShimStream` reads calls from the reply.

Rule: no I/O. The prompt escapes markers in what the client sent; they are unescaped in the reply, so that the client
only sees its own spelling.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import msgspec

from fcshim.codecs.base import UpstreamCodec
from fcshim.codecs.llama_completion import LlamaCompletion
from fcshim.constrain.constraint import Constraint, apply_constraint, constraint_for, unconstrained_note
from fcshim.errors import RequestError
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
from fcshim.parse.defect import ReportDefect
from fcshim.parse.dialect import Dialect
from fcshim.parse.documents import Documents
from fcshim.parse.limits import DEFAULT_LIMITS, Limits
from fcshim.parse.sink import ArgumentsMode
from fcshim.parse.stream import StreamParser
from fcshim.pipeline.backends import OFF, Backend
from fcshim.pipeline.shim_stream import ShimStream
from fcshim.pipeline.stop_sequences import StopSearch
from fcshim.pipeline.withheld_text import BareCallSearch, WithheldText
from fcshim.prompt.compose import DEFAULT_BUDGET, PromptBudget, compose
from fcshim.prompt.content import Escaper
from fcshim.prompt.dialect_folder import find_dialect
from fcshim.prompt.escape import escaper_for, map_strings, strings_of
from fcshim.prompt.event_unescape import EventUnescaper
from fcshim.prompt.profiles import DEFAULT, Profile, get_profile
from fcshim.prompt.repetition import CallKey
from fcshim.prompt.styles import OWN_STYLE, PromptStyle, ToolsListing
from fcshim.schema.member_order import long_members_last


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
    ) -> ShimStream:
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
    selected = find_dialect(dialect) if isinstance(dialect, str) else dialect
    # In some dialects, each tool's name is a marker.
    marked = selected.for_tools(tool.name for tool in request.tools) if selected.escapes_tool_markers else selected
    escape = Escaper(escaper_for(marked))
    offered = _escaped_tools(request, escape)
    tools = _named_tools(request, offered) if request.tool_choice.names else offered
    if tools and request.tool_choice.mode == "required":
        request = without_format(request)  # the client's format would forbid the required call
    constraint, notes = _choose_constraint(request, tools, selected, backend, options.open_reasoning_tag)
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
        tools = request.tools
        if _are_unchanged(tools, escape):
            return tools
        ordered = [long_members_last(tool.parameters) for tool in tools]
        if any(new is not tool.parameters for new, tool in zip(ordered, tools, strict=True)):
            # Else it stays the same tuple, whose key is made once.
            pairs = zip(tools, ordered, strict=True)
            tools = tuple(msgspec.structs.replace(tool, parameters=new) for tool, new in pairs)
        return tools if _are_unchanged(tools, escape) else _as_escaped(tools, escape)
    except RecursionError:
        raise RequestError("tools: a schema is nested too deeply", param="tools") from None


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


def _named_tools(request: Request, tools: Sequence[Tool]) -> tuple[Tool, ...]:
    """Return those of the offered tools that `tool_choice` names."""
    names = request.tool_choice.names
    unknown = set(names) - {tool.name for tool in request.tools}
    if unknown:
        raise RequestError(f"tool_choice: there is no tool named {min(unknown)!r}", param="tool_choice")
    pairs = zip(request.tools, tools, strict=False)  # with tool_choice none, `tools` is empty
    return tuple(tool for original, tool in pairs if original.name in names)


def _choose_constraint(
    request: Request, tools: Sequence[Tool], dialect: Dialect, backend: Backend, open_reasoning_tag: str
) -> tuple[Constraint | None, tuple[str, ...]]:
    """Return the constraint of the reply, None for none, and what is not enforced although it should be."""
    constraint, form, eager = None, backend.form, backend.constrains_auto_choice
    if form is not None:
        lazy = backend.lazy and LlamaCompletion.supports(request)
        constraint = constraint_for(
            form, dialect, tools, request, eager=eager, lazy=lazy, open_reasoning_tag=open_reasoning_tag
        )
    elif backend.rewrites_response_format and requested_schema(request) is not None:
        # A server that supports `response_format` accepts one that also admits calls as well as the client's own.
        constraint = constraint_for("json_schema", dialect, tools, request)
    if constraint is not None:
        return constraint, constraint.notes
    note = "" if form is None else unconstrained_note(form, dialect, tools, request, eager=eager)
    if note and backend.demanded and request.tool_choice.mode == "required":
        raise RequestError(f"tool_choice: {note}", param="tool_choice")
    return None, (note,) if note else ()
