"""What the plugins of model servers share: the dialect of a model, the reader of a reply, the structural tag.

Rule: the model's own template writes the prompt, and nobody escapes markers in it. Where a tool's result has markers, a
call counts only if it does not stand in the results and nothing but calls follows it; it is then held until the end.
"""

import contextlib
import functools
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec

from fcshim.constrain.constraint import constraint_for, grammar_in
from fcshim.errors import ConfigError, ModelOutputError
from fcshim.events import JSON, Event, Reasoning, Stop, Text
from fcshim.messages import Request, Tool, ToolChoice, as_tools
from fcshim.model_defaults import defaults_for, has_defaults
from fcshim.openai import ChoiceEncoder, message
from fcshim.parse.dialect import Dialect
from fcshim.parse.dialects import AUTO, get_dialect
from fcshim.parse.dialects.json_bare import BARE_JSON
from fcshim.parse.documents import Documents
from fcshim.parse.machine.known_markers import REASONING_TAGS
from fcshim.parse.recognition import (
    SAMPLE_ARGUMENTS,
    SAMPLE_NAME,
    SAMPLE_TOOLS,
    call_in_prompt,
    recognise_dialects,
    sample_messages,
)
from fcshim.parse.stream import StreamParser
from fcshim.pipeline.shim_stream import ShimStream
from fcshim.pipeline.withheld_text import WithheldText
from fcshim.prompt.escape import BUNDLED, strings_of

_THINK, _END_THINK = "<think>", "</think>"


class ModelFormat(NamedTuple):
    """What a model's chat template says: the dialect of its calls, and the reasoning tag that its prompts end with."""

    dialect: str | Dialect = AUTO
    open_reasoning_tag: str = ""


@functools.lru_cache(maxsize=64)
def model_format(tokenizer: JSON, dialect: str = AUTO, options: str = "{}") -> ModelFormat:
    """Return the format of the model that a tokenizer of transformers belongs to (cached).

    `dialect` replaces what the template and the model's name say. `options` are the template's variables, as JSON.
    """
    render = functools.partial(_render, tokenizer, msgspec.json.decode(options))
    prompt = render([{"role": "user", "content": "Hello."}]).rstrip()
    tag = next((start for start, _ in REASONING_TAGS if prompt.endswith(start)), "")
    if dialect != AUTO:
        return ModelFormat(get_dialect(dialect), tag)
    name = str(getattr(tokenizer, "name_or_path", ""))
    named = defaults_for(name).dialect if has_defaults(name) else ""
    call = call_in_prompt(render(sample_messages(SAMPLE_ARGUMENTS), SAMPLE_TOOLS))
    written = recognise_dialects(call, SAMPLE_NAME, SAMPLE_ARGUMENTS)
    found = next((row for row in written if row.name == named), written[0] if written else named or AUTO)
    return ModelFormat(found if found == AUTO else get_dialect(found), tag)


def _render(tokenizer: JSON, options: Mapping[str, JSON], messages: JSON, tools: JSON = None) -> str:
    """Return the prompt; empty if there is no template, or it refuses the conversation."""
    with contextlib.suppress(Exception):  # a template raises what it likes
        text = tokenizer.apply_chat_template(
            messages, tools=tools, tokenize=False, add_generation_prompt=True, **options
        )
        return text if isinstance(text, str) else ""
    return ""


class ReplyReader:
    """Reads calls from the text of one reply: `feed` takes its text in pieces, `close` ends it.

    `tools` are dicts of the Chat API, `results` the texts of the conversation's tool results. Both methods return one
    delta of the Chat API, with `content` and `tool_calls`, in which each call stands once; None if there is nothing to
    say. Reasoning stays in the content, in tags: servers have parsers of their own for it, which read the reply first.
    Raises `RequestError` for unusable tools.
    """

    def __init__(
        self,
        tools: Sequence[Tool | dict[str, JSON]],
        model: ModelFormat,
        *,
        parallel: bool = True,
        results: Sequence[str] = (),
    ) -> None:
        offered = as_tools(tools)
        parser = StreamParser(
            model.dialect,
            offered,
            rescue=True,
            open_reasoning_tag=model.open_reasoning_tag,
            documents=Documents(lambda: results, (tool.name for tool in offered)) if results else None,
            calls_last=BUNDLED.may_change(results),
        )
        self._stream = ShimStream(parser, withheld=WithheldText(None, has_results=False), parallel=parallel)
        self._encoder = ChoiceEncoder()
        self._in_reasoning = bool(model.open_reasoning_tag)

    def feed(self, text: str) -> dict[str, JSON] | None:
        """Take the next piece of text."""
        return self._delta(self._stream.feed(Text(text)))

    def close(self) -> dict[str, JSON] | None:
        """Take the end of the text. Servers do not say whether the token limit was its reason."""
        return self._delta(self._stream.close())

    def read(self, text: str) -> dict[str, JSON]:
        """Read a whole reply in place of `feed` and `close`; return the message of the Chat API, with valid calls."""
        return message(self._with_reasoning([*self._stream.feed(Text(text)), *self._stream.close()]))

    def _delta(self, events: list[Event]) -> dict[str, JSON] | None:
        deltas: list[dict[str, JSON]] = []
        with contextlib.suppress(ModelOutputError):  # all calls have failed: there is nothing to add
            deltas += (choice["delta"] for choice in self._encoder.encode(list(self._with_reasoning(events))))
        content = "".join(delta.get("content") or "" for delta in deltas)
        calls: dict[int, dict[str, JSON]] = {}
        for call in (call for delta in deltas for call in delta.get("tool_calls", ())):
            first = calls.setdefault(call["index"], call)
            if first is not call:
                first["function"]["arguments"] += call["function"]["arguments"]
        return {"content": content or None, "tool_calls": list(calls.values())} if content or calls else None

    def _with_reasoning(self, events: Iterable[Event]) -> Iterator[Event]:
        """Write reasoning as text in tags."""
        for event in events:
            if isinstance(event, Reasoning) != self._in_reasoning and not isinstance(event, Stop):
                self._in_reasoning = not self._in_reasoning
                yield Text(_THINK if self._in_reasoning else _END_THINK)
            yield Text(event.text) if isinstance(event, Reasoning) else event


def read_choice(choice: JSON) -> ToolChoice:
    """Return the `tool_choice` of a server's request: a word, or an object that names a function."""
    if isinstance(choice, str | None):
        return ToolChoice(choice or "auto")  # type: ignore[arg-type] # the server has checked it
    name = getattr(getattr(choice, "function", choice), "name", None)
    return ToolChoice() if name is None else ToolChoice("required", (name,))


def result_texts(messages: JSON) -> list[str]:
    """Return the texts of the tools' results among the messages of the Chat or the Responses API."""
    items = [item for item in messages if isinstance(item, dict)] if isinstance(messages, list) else []
    results = [item for item in items if item.get("role") == "tool" or "output" in item]
    return strings_of([[item.get("content"), item.get("output")] for item in results])


def structural_tag(
    tools: Sequence[Tool | dict[str, JSON]], model: ModelFormat, choice: ToolChoice, *, parallel: bool | None
) -> dict[str, JSON] | None:
    """Return xgrammar's structural tag of a reply; None if there is nothing to constrain. Raises `RequestError`."""
    offered = [tool for tool in as_tools(tools) if not choice.names or tool.name in choice.names]
    request = Request(model="", messages=(), tool_choice=choice, parallel_tool_calls=parallel)
    rows = (BARE_JSON,) if model.dialect == AUTO else (get_dialect(model.dialect), BARE_JSON)
    found = (constraint_for("structural_tag", row, offered, request, eager=True) for row in rows)
    constraint = next((each for each in found if each is not None), None)
    tag = None if constraint is None else grammar_in(constraint.fields)
    return tag if isinstance(tag, dict) else None


def check_parameters(server: str, version: str, expected: Mapping[Callable[..., JSON], str]) -> None:
    """Check the names of the parameters of a server's functions. Raises `ConfigError`."""
    for function, names in expected.items():
        found = " ".join(inspect.signature(function).parameters)
        if found != names:
            raise ConfigError(
                f"{server} {version} has changed: {function.__qualname__} takes ({found}), expected ({names}). "
                f"Use another version of {server}, or of fcshim."
            )
