"""Tool calling for any text-only model of Pydantic AI that streams: it gets text messages, and no tools."""

import contextlib
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

from fcshim import events as own
from fcshim.client import Client
from fcshim.events import JSON, Piece
from fcshim.extras import naming_extra

with naming_extra("pydantic-ai"):
    from pydantic_ai import messages as wire
    from pydantic_ai.exceptions import UnexpectedModelBehavior, UserError
    from pydantic_ai.models import Model, ModelRequestParameters, StreamedResponse
    from pydantic_ai.models._tool_choice import resolve_tool_choice
    from pydantic_ai.models.wrapper import WrapperModel
    from pydantic_ai.usage import RequestUsage

_ABILITIES = {"supports_tools": True, "supports_json_schema_output": False, "default_structured_output_mode": "tool"}
_OWN_SETTINGS = frozenset({"tool_choice", "parallel_tool_calls", "stop_sequences"})  # the wrapped model gets all others
_REASONS = {"complete": "stop", "tool_use": "tool_call", "max_tokens": "length", "stop_sequence": "stop"}


class FcshimModel(WrapperModel):
    """A model that calls tools, made of one that does not.

    `wrapped` is the model, or its name as Pydantic AI writes it. `name` chooses the dialect, the profile and the prompt
    style; by default it is the wrapped model's. `options` are those of `fcshim.Client` for a model: `dialect`,
    `max_retries`, and `arguments`, which come whole and valid, or `stream`. A request raises `UnexpectedModelBehavior`
    for a call that stays invalid, and `UserError` for content that is not text.
    """

    def __init__(self, wrapped: JSON, *, name: str = "", **options: JSON) -> None:
        super().__init__(wrapped)
        self._client_options = {"model": name or self.wrapped.model_name, "arguments": "validated", **options}

    @property
    def profile(self) -> JSON:
        """The wrapped model's profile, with tools of any schema; requests are prepared by it."""
        return {**self.wrapped.profile, **_ABILITIES, "json_schema_transformer": None}

    customize_request_parameters, prepare_request = Model.customize_request_parameters, Model.prepare_request

    async def request(self, messages: JSON, model_settings: JSON, model_request_parameters: JSON) -> JSON:
        """Return a whole response."""
        async with self.request_stream(messages, model_settings, model_request_parameters) as response:
            async for _ in response:
                pass
            return response.get()

    @contextlib.asynccontextmanager
    async def request_stream(
        self, messages: JSON, model_settings: JSON, model_request_parameters: JSON, run_context: JSON = None
    ) -> AsyncIterator[JSON]:
        """Open a response whose events come while the wrapped model writes."""
        settings, parameters = self.prepare_request(model_settings, model_request_parameters)
        passed = {name: value for name, value in (model_settings or {}).items() if name not in _OWN_SETTINGS}

        async def generate(texts: list[dict[str, JSON]], *, stop: list[str], **_: JSON) -> AsyncIterator[Piece]:
            given = (list(map(_message, texts)), {**passed, **({"stop_sequences": stop} if stop else {})})
            async with self.wrapped.request_stream(*given, ModelRequestParameters(), run_context) as reply:
                async for event in reply:
                    part = getattr(event, "part" if isinstance(event, wire.PartStartEvent) else "delta", None)
                    text = getattr(part, "content", None) or getattr(part, "content_delta", None) or ""
                    yield own.Reasoning(text) if isinstance(part, wire.ThinkingPart | wire.ThinkingPartDelta) else text
                yield own.Usage(reply.usage.input_tokens, reply.usage.output_tokens)
                if reply.finish_reason in {"length", "content_filter"}:
                    yield own.Stop("max_tokens" if reply.finish_reason == "length" else "content_filter")

        choice = resolve_tool_choice(settings, parameters)
        mode, names = choice if isinstance(choice, tuple) else (choice, None)
        offered = (*parameters.declared_function_tools, *parameters.output_tools)
        tools = [_tool(each) for each in offered if names is None or each.name in names]
        request: JSON = {"stop": (settings or {}).get("stop_sequences"), "tool_choice": mode if tools else None}
        async with (
            Client(generate=generate, **self._client_options) as client,
            client.stream(list(_texts(messages, parameters)), tools, **request) as events,
        ):
            yield _Response(parameters, events, self.model_name, self.system, self.base_url, datetime.now(UTC))


@dataclass
class _Response(StreamedResponse):
    events: JSON = None
    model_name: str = ""
    provider_name: str | None = None
    provider_url: str | None = None
    timestamp: datetime | None = None

    async def close_stream(self) -> None:
        await self.events.aclose()

    async def _get_event_iterator(self) -> AsyncIterator[JSON]:
        async for event in self.events:
            for part_event in self._part_events(event):
                yield part_event

    def _part_events(self, event: JSON) -> Iterator[JSON]:
        parts = self._parts_manager
        match event:
            case own.Text(text=text):
                yield from parts.handle_text_delta(vendor_part_id=None, content=text)
            case own.Reasoning(text=text):
                yield from parts.handle_thinking_delta(vendor_part_id=None, content=text)
            case own.ToolCallStart(tool_call_id=key, tool_call_name=name):
                yield from parts.handle_tool_call_delta_events(vendor_part_id=key, tool_name=name, tool_call_id=key)
            case own.ToolCallChunk(tool_call_id=key, tool_call_arguments_chunk=text):
                yield from parts.handle_tool_call_delta_events(vendor_part_id=key, args=text)
            case own.Usage():
                self._usage += RequestUsage(input_tokens=event.input_tokens, output_tokens=event.output_tokens)
            case own.Stop(stop_reason=reason):
                self.finish_reason = _REASONS.get(reason, reason)
            case own.Error(message=text) | own.ToolCallEnd(error=own.CallError(message=text)):
                raise UnexpectedModelBehavior(text)


def _message(text: dict[str, JSON]) -> JSON:
    part = {"assistant": wire.TextPart, "system": wire.SystemPromptPart}.get(text["role"], wire.UserPromptPart)
    return (wire.ModelResponse if part is wire.TextPart else wire.ModelRequest)([part(text["content"])])


def _texts(messages: JSON, parameters: JSON) -> Iterator[dict[str, JSON]]:
    pieces = parameters.instruction_parts
    instructions = wire.InstructionPart.join(pieces) if pieces else getattr(messages[-1], "instructions", None)
    if instructions:
        yield {"role": "system", "content": instructions}
    for message in messages:
        if isinstance(message, wire.ModelRequest):
            yield from map(_text, message.parts)
        else:
            named = [(each.tool_call_id, each.tool_name, each.args_as_json_str()) for each in message.tool_calls]
            calls = [{"id": key, "function": {"name": name, "arguments": text}} for key, name, text in named]
            yield {"role": "assistant", "content": message.text or "", "tool_calls": calls or None}


def _tool(tool: JSON) -> dict[str, JSON]:
    return {"name": tool.name, "description": tool.description or "", "parameters": tool.parameters_json_schema}


def _text(part: JSON) -> dict[str, JSON]:
    if isinstance(part, wire.ToolReturnPart):
        result = {"name": part.tool_name, "content": part.model_response_str()}
        return {"role": "tool", "tool_call_id": part.tool_call_id, **result}
    texts = [part.content] if isinstance(part.content, str) else part.content
    if not all(isinstance(each, str) for each in texts):
        raise UserError(f"{type(part).__name__}: expected text")
    return {"role": "system" if isinstance(part, wire.SystemPromptPart) else "user", "content": "\n".join(texts)}
