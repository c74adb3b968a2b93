"""Tool calling for a model in this process: the prompt and grammar of a request, and the events of its reply.

Rule: no I/O and no event loop; whoever generates the text calls `feed` and `close`.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, get_args

from fcshim.codecs.openai_chat.upstream_request import build_body
from fcshim.constrain.constraint import Form, constraint_for, grammar_in
from fcshim.errors import ConfigError, RequestError
from fcshim.events import JSON, Event, Piece, Reasoning, Stop, StopReason, Text, Usage
from fcshim.messages import Tool, as_tools
from fcshim.openai import Messages, read_request
from fcshim.parse.dialect import Dialect
from fcshim.parse.dialects import AUTO
from fcshim.parse.machine.known_markers import reasoning_end_tag
from fcshim.parse.machine.text import ReasoningPolicy
from fcshim.pipeline.shim import ParserOptions, Shim, prepare_shim
from fcshim.pipeline.shim_stream import ShimStream
from fcshim.prompt.dialect_folder import chosen_dialect
from fcshim.prompt.profiles import Profile, chosen_profile
from fcshim.prompt.styles import chosen_style


class ReplyStream:
    """Reads calls from the text of one reply. `feed` takes its text in pieces of any size, `close` ends it.

    The last event is a `Stop`. `finished` becomes true if the reply ends before the text does: the model may then be
    stopped, and what it still writes is ignored.
    """

    def __init__(self, stream: ShimStream) -> None:
        self._stream = stream

    @property
    def finished(self) -> bool:
        """Whether the reply has ended although `close` was not called."""
        return self._stream.finished

    def feed(self, text: str | Text | Reasoning | Usage) -> list[Event]:
        """Take the next piece of text, or an event that the model's program knows; return the events that it completes.

        Raises `TypeError` for anything else.
        """
        event = Text(text) if isinstance(text, str) else text
        if not isinstance(event, Text | Reasoning | Usage):
            raise TypeError(f"text: expected a string, got {type(text).__name__}")
        return self._stream.feed(event)

    def close(self, stop_reason: StopReason = "complete") -> list[Event]:
        """Take the end of the text and the reason for it (`max_tokens` cuts a call off); return the last events.

        Raises `RequestError` for an unknown reason.
        """
        if stop_reason not in get_args(StopReason):
            known = ", ".join(get_args(StopReason))
            raise RequestError(f"stop_reason: expected one of {known}, got {stop_reason!r:.80}", param="stop_reason")
        return self._stream.close(stop_reason)


@dataclass(frozen=True, slots=True)
class Prepared:
    """A request with its tools written into the prompt. Made by `prepare`; each reply to it has a stream of its own."""

    messages: list[dict[str, JSON]]
    """The messages for the model, as dicts of the Chat API with text as content: apply its chat template to them."""
    stop: list[str]
    """Where the model must stop. Empty if tools are offered: the stream then ends the reply at the request's own."""
    shim: Shim = field(repr=False)

    @property
    def dialect(self) -> str:
        """The name of the dialect in which the model is asked to write calls."""
        return self.shim.dialect.name

    def grammar(self, kind: Form) -> str | dict[str, JSON] | None:
        """Return the grammar of the reply, for a sampler.

        `gbnf` is for llama.cpp; `llguidance` and `guidance` are Lark for llguidance, the first with a header;
        `structural_tag` is a dict for xgrammar; `json_schema` is a schema as a dict; `regex` is a regular expression
        without limits on strings. If a call is required, the reply is calls only; else it is free text, or the
        `response_format`, and every call in it is valid. None if nothing is to be constrained, or the dialect's calls
        cannot be described in this kind: a JSON Schema describes only the calls of `bare_json`. Raises `ConfigError`
        for an unknown kind.
        """
        if kind not in get_args(Form):
            raise ConfigError(f"kind: there is no grammar {kind!r:.80}. Known are {', '.join(get_args(Form))}")
        shim = self.shim
        tag = shim.options.open_reasoning_tag
        constraint = constraint_for(kind, shim.dialect, shim.tools, shim.request, eager=True, open_reasoning_tag=tag)
        if constraint is None or constraint.dialect is not shim.dialect:
            return None
        return grammar_in(constraint.fields)

    def stream(self) -> ReplyStream:
        """Return a new reader of one reply."""
        return ReplyStream(self.shim.stream())

    def events(self, pieces: Iterable[Piece], stop_reason: StopReason = "complete") -> Iterator[Event]:
        """Yield the events of one reply whose text comes in `pieces`; stop taking pieces where the reply ends.

        A `Stop` among them says why it ends, in place of `stop_reason`.
        """
        stream = self.stream()
        for piece in pieces:
            if isinstance(piece, Stop):
                stop_reason = piece.stop_reason
                break
            yield from stream.feed(piece)
            if stream.finished:
                return
        yield from stream.close(stop_reason)


def prepare(  # noqa: PLR0913 - settings by name, all with defaults
    messages: Messages,
    tools: Sequence[Tool | dict[str, JSON]] | None = None,
    *,
    model: str = "",
    dialect: str | Dialect | None = None,
    profile: str | Profile = AUTO,
    prompt_style: str = AUTO,
    tool_choice: str | Mapping[str, JSON] | None = None,
    parallel_tool_calls: bool | None = None,
    response_format: Mapping[str, JSON] | None = None,
    stop: str | Sequence[str] | None = None,
    max_tokens: int | None = None,
    rescue: bool = True,
    reasoning: ReasoningPolicy = "ignore",
    open_reasoning_tag: str = "",
    arguments: Literal["stream", "validated"] = "stream",
    new_id: Callable[[], str] | None = None,
) -> Prepared:
    """Write tools, past calls and results into the messages for a model that only reads and writes text.

    `messages` and `tools` are those of the Chat API, as dicts or as objects of fcshim. `model`: its name chooses the
    dialect, the profile and the prompt style, as far as they are not given. `tool_choice`, `parallel_tool_calls`,
    `response_format`, `stop` and `max_tokens` are fields of the Chat API. `rescue`, `reasoning`, `open_reasoning_tag`,
    `arguments` and `new_id` are as for `StreamParser`, but `rescue` is on.

    Raises `RequestError` for an invalid request, with the argument in `param`, and `ConfigError` for an invalid
    setting.
    """
    settings: tuple[tuple[str, JSON, JSON], ...] = (
        ("model", model, str),
        ("dialect", dialect, str | Dialect | None),
        ("profile", profile, str | Profile),
        ("prompt_style", prompt_style, str),
        ("rescue", rescue, bool),
        ("open_reasoning_tag", open_reasoning_tag, str),
    )
    choices = (("reasoning", reasoning, get_args(ReasoningPolicy)), ("arguments", arguments, ("stream", "validated")))
    _check_arguments(settings, choices, tools, response_format)
    fields = {
        "model": model,
        "tool_choice": tool_choice,
        "parallel_tool_calls": parallel_tool_calls,
        "response_format": response_format,
        "stop": stop,
        "max_tokens": max_tokens,
    }
    request = read_request(
        messages, as_tools(list(tools or ())), {name: value for name, value in fields.items() if value is not None}
    )
    row = chosen_dialect(AUTO if dialect is None else dialect, model)
    if open_reasoning_tag:
        reasoning_end_tag(open_reasoning_tag, row.turn.reasoning)  # raises now rather than for the first reply
    shim = prepare_shim(
        request,
        dialect=row,
        profile=chosen_profile(profile, model),
        style=chosen_style(prompt_style, model, row.name),
        options=ParserOptions(
            rescue=rescue,
            reasoning=reasoning,
            open_reasoning_tag=open_reasoning_tag,
            arguments=arguments,
            new_id=new_id,
        ),
    )
    body = build_body(shim.prepared)
    return Prepared(body["messages"], list(shim.prepared.stop), shim)


def _check_arguments(
    settings: Iterable[tuple[str, JSON, JSON]],
    choices: Iterable[tuple[str, str, Sequence[str]]],
    tools: JSON,
    response_format: JSON,
) -> None:
    """Raise `ConfigError` for a setting of another type or an unknown choice, `RequestError` for fields.

    A setting is its name, value and type; a choice its name, value and the known values.
    """
    for name, value, expected in settings:
        if not isinstance(value, expected):
            raise ConfigError(f"{name}: expected {getattr(expected, '__name__', expected)}, got {value!r:.80}")
    for name, value, known in choices:
        if value not in known:
            raise ConfigError(f"{name}: expected one of {', '.join(known)}, got {value!r:.80}")
    if isinstance(tools, str | bytes | Mapping) or not isinstance(tools, Iterable | None):
        raise RequestError(f"tools: expected a list of tools, got {type(tools).__name__}", param="tools")
    if not isinstance(response_format, Mapping | None):
        raise RequestError(f"response_format: expected a dict, got {response_format!r:.80}", param="response_format")
