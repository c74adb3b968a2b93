"""A plugin of `llm` (llm.datasette.io): each model without tools gets a twin `fcshim/NAME` that calls them.

Rule: `llm` loads every installed plugin, so nothing but `llm` is imported before a twin is used.
"""

import json
from collections.abc import AsyncIterator, Callable, Iterable, Iterator

from fcshim.errors import ModelOutputError
from fcshim.events import JSON, Event, Reasoning, Stop, Text, ToolCallEnd, Usage
from fcshim.extras import naming_extra

with naming_extra("llm"):
    import llm
    from llm.parts import StreamEvent, TextPart, ToolCallPart, ToolResultPart

PREFIX = "fcshim/"
_ANSWER = "final_answer"


@llm.hookimpl(trylast=True)
def register_models(register: Callable[..., None], model_aliases: Iterable[JSON]) -> None:
    """Register a twin of each model that other plugins have registered without tools."""
    for found in list(model_aliases):
        model, async_model = found.model, found.async_model
        if not model.supports_tools:
            twin = None if async_model is None else AsyncToolModel(async_model)
            register(ToolModel(model), twin, aliases=[PREFIX + alias for alias in found.aliases])


class _Twin:
    """What the models for sync and async programs share."""

    supports_tools = supports_schema = can_stream = True

    def __init__(self, model: JSON) -> None:
        self.model_id = PREFIX + model.model_id
        self.Options = model.Options
        self._model = model

    def _settings(self, prompt: JSON, *, stream: bool) -> dict[str, JSON]:
        """Return the settings of a client that asks the wrapped model."""

        def generate(messages: list[dict[str, JSON]], **_: JSON) -> JSON:
            options = prompt.options.model_dump(exclude_none=True)
            return self._model.prompt(**_prompt_of(messages), stream=stream, options=options)

        name = getattr(self._model, "model_name", None) or self._model.model_id
        return {"generate": generate, "model": str(name), "arguments": "validated"}


class ToolModel(_Twin, llm.Model):
    """A model that calls tools, made of one that does not."""

    def execute(self, prompt: JSON, stream: bool, response: JSON, conversation: JSON) -> Iterator[JSON]:
        """Yield the text of the reply; its calls go to `response`."""
        from fcshim import SyncClient  # noqa: PLC0415 - see the rule

        with SyncClient(**self._settings(prompt, stream=stream)) as client:
            writer = _Writer(response)
            for event in client.stream(_messages_of(prompt), **_offer_of(prompt)):
                yield from writer.write(event)


class AsyncToolModel(_Twin, llm.AsyncModel):
    """The same for async programs."""

    async def execute(self, prompt: JSON, stream: bool, response: JSON, conversation: JSON) -> AsyncIterator[JSON]:
        """Yield the text of the reply; its calls go to `response`."""
        from fcshim import Client  # noqa: PLC0415 - see the rule

        writer = _Writer(response)
        async with (
            Client(**self._settings(prompt, stream=stream)) as client,
            client.stream(_messages_of(prompt), **_offer_of(prompt)) as events,
        ):
            async for event in events:
                for piece in writer.write(event):
                    yield piece


def _prompt_of(messages: list[dict[str, JSON]]) -> dict[str, JSON]:
    """Return the arguments of `prompt`: models of older plugins read only the system text and the last message."""
    *before, last = messages
    system = before.pop(0)["content"] if before and before[0]["role"] == "system" else None
    parts = [llm.Message(role=each["role"], parts=[TextPart(each["content"])]) for each in before]
    history = [llm.Message(role="system", parts=[TextPart(system)])] if system and parts else []
    return {"prompt": last["content"], **({"messages": history + parts} if parts else {"system": system})}


def _offer_of(prompt: JSON) -> dict[str, JSON]:
    """Return the tools; if the answer has a schema, it is a call of one more, and a call is demanded."""
    answer = {"name": _ANSWER, "description": "Give the answer.", "parameters": prompt.schema}
    found = [(each.name, each.description, each.input_schema) for each in prompt.tools]
    tools = [{"name": name, "description": text, "parameters": schema} for name, text, schema in found]
    return {"tools": [*tools, answer], "tool_choice": "required"} if prompt.schema else {"tools": tools}


def _messages_of(prompt: JSON) -> list[dict[str, JSON]]:
    """Return the conversation as messages of the Chat API; a message of tool results is one for each result."""
    messages: list[dict[str, JSON]] = []
    for message in prompt.messages:
        results = [part for part in message.parts if isinstance(part, ToolResultPart)]
        calls = [part for part in message.parts if isinstance(part, ToolCallPart)]
        text = "".join(part.text for part in message.parts if isinstance(part, TextPart))
        messages += [
            {"role": "tool", "tool_call_id": each.tool_call_id or "", "name": each.name, "content": each.output}
            for each in results
        ]
        written = [
            {"id": each.tool_call_id or "", "function": {"name": each.name, "arguments": json.dumps(each.arguments)}}
            for each in calls
        ]
        if text or written:
            messages.append({"role": message.role, "content": text, "tool_calls": written or None})
    return messages


class _Writer:
    """Gives the events of one reply to `llm`."""

    def __init__(self, response: JSON) -> None:
        self._response = response
        self._failed: ToolCallEnd | None = None
        self._is_empty = True

    def write(self, event: Event) -> Iterator[JSON]:
        """Yield text. Raises `ModelOutputError` at the end of a reply that has only calls that cannot run."""
        match event:
            case Text(text=text):
                self._is_empty = False
                yield text
            case Reasoning(text=text):
                yield StreamEvent(type="reasoning", chunk=text)
            case ToolCallEnd(error=None, tool_call_name=name) if name == _ANSWER:
                self._is_empty = False
                yield event.tool_call_arguments_complete
            case ToolCallEnd(error=None):
                self._is_empty = False
                call = llm.ToolCall(event.tool_call_name, event.arguments, event.tool_call_id)
                self._response.add_tool_call(call)
            case ToolCallEnd():
                self._failed = event
            case Usage():
                self._response.set_usage(input=event.input_tokens, output=event.output_tokens)
            case Stop() if self._is_empty and self._failed is not None and self._failed.error is not None:
                error = self._failed.error
                raise ModelOutputError(error.message, kind="invalid_call", raw=error.raw)
