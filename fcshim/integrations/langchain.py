"""Tool calling for any text-only chat model of LangChain: `ChatFcshim(model=...)`.

Rule: the wrapped model gets text messages and no tools; its options stay its own. Its runs are not reported to the
callbacks of the caller, because its tokens would appear twice in a stream of events.
"""

import contextlib
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Literal, TypeAlias

from fcshim.client import Client
from fcshim.errors import ModelOutputError
from fcshim.events import JSON, Event, Piece, Reasoning, Stop, Usage
from fcshim.extras import naming_extra
from fcshim.openai import ChoiceEncoder
from fcshim.pipeline.exchange import DEFAULT_MAX_RETRIES
from fcshim.sync_client import SyncClient

with naming_extra("langchain"):
    from langchain_core.language_models import BaseChatModel
    from langchain_core.language_models.chat_models import agenerate_from_stream, generate_from_stream
    from langchain_core.messages import AIMessageChunk, BaseMessage, convert_to_openai_messages
    from langchain_core.messages.tool import ToolCallChunk, tool_call_chunk
    from langchain_core.outputs import ChatGenerationChunk, ChatResult
    from langchain_core.runnables import Runnable, RunnableConfig
    from langchain_core.utils.function_calling import convert_to_openai_tool

_Messages: TypeAlias = list[BaseMessage]
_Stops: TypeAlias = list[str] | None
_UNREPORTED: RunnableConfig = {"callbacks": []}
_REQUEST_OPTIONS = frozenset({"tools", "tool_choice", "parallel_tool_calls", "response_format"})
"""Options that fcshim handles; all others go to the wrapped model."""


class ChatFcshim(BaseChatModel):
    """A chat model that calls tools, made of one that does not.

    `model` is the wrapped model. `model_name` chooses the dialect, the profile and the prompt style; by default it is
    the wrapped model's. `dialect` chooses the dialect alone. `arguments`: calls come whole and valid, or `stream` while
    they are written. `max_retries` says how often the model is asked again after a missing or invalid call. A call that
    stays malformed is one of the message's `invalid_tool_calls`.
    """

    model: BaseChatModel
    model_name: str = ""
    dialect: str = "auto"
    arguments: Literal["validated", "stream"] = "validated"
    max_retries: int = DEFAULT_MAX_RETRIES

    @property
    def _llm_type(self) -> str:
        return "fcshim"

    @property
    def _settings(self) -> dict[str, JSON]:
        name = self.model_name or getattr(self.model, "model_name", None) or getattr(self.model, "model", "")
        settings = {"dialect": self.dialect, "arguments": self.arguments, "max_retries": self.max_retries}
        return {"model": str(name), **settings}

    def bind_tools(
        self, tools: Sequence[JSON], *, tool_choice: str | bool | dict[str, JSON] | None = None, **kwargs: JSON
    ) -> Runnable:
        """Offer tools. `tool_choice`: `auto`, `none`, `any` or `required`, a tool's name, or a dict of the Chat API."""
        choice: JSON = "required" if tool_choice in (True, "any") else tool_choice or None
        if isinstance(choice, str) and choice not in {"auto", "none", "required"}:
            choice = {"type": "function", "function": {"name": choice}}
        return self.bind(tools=[convert_to_openai_tool(tool) for tool in tools], tool_choice=choice, **kwargs)

    def _generate(
        self, messages: _Messages, stop: _Stops = None, run_manager: JSON = None, **kwargs: JSON
    ) -> ChatResult:
        return generate_from_stream(self._stream(messages, stop, run_manager, **kwargs))

    async def _agenerate(
        self, messages: _Messages, stop: _Stops = None, run_manager: JSON = None, **kwargs: JSON
    ) -> ChatResult:
        return await agenerate_from_stream(self._astream(messages, stop, run_manager, **kwargs))

    def _stream(
        self, messages: _Messages, stop: _Stops = None, run_manager: JSON = None, **kwargs: JSON
    ) -> Iterator[ChatGenerationChunk]:
        request = {"stop": stop, **{name: kwargs.pop(name) for name in _REQUEST_OPTIONS & kwargs.keys()}}

        def generate(messages: list[dict[str, JSON]], *, stop: list[str], **_: JSON) -> Iterator[Piece]:
            for chunk in self.model.stream(messages, _UNREPORTED, stop=stop or None, **kwargs):
                yield from _pieces(chunk)

        with SyncClient(generate=generate, **self._settings) as client:
            encoder, name = ChoiceEncoder(), self._settings["model"]
            for event in client.stream(convert_to_openai_messages(messages), **request):
                yield from _chunks(event, encoder, name)

    async def _astream(
        self, messages: _Messages, stop: _Stops = None, run_manager: JSON = None, **kwargs: JSON
    ) -> AsyncIterator[ChatGenerationChunk]:
        request = {"stop": stop, **{name: kwargs.pop(name) for name in _REQUEST_OPTIONS & kwargs.keys()}}

        async def generate(messages: list[dict[str, JSON]], *, stop: list[str], **_: JSON) -> AsyncIterator[Piece]:
            async for chunk in self.model.astream(messages, _UNREPORTED, stop=stop or None, **kwargs):
                for piece in _pieces(chunk):
                    yield piece

        encoder, name = ChoiceEncoder(), self._settings["model"]
        async with (
            Client(generate=generate, **self._settings) as client,
            client.stream(convert_to_openai_messages(messages), **request) as events,
        ):
            async for event in events:
                for chunk in _chunks(event, encoder, name):
                    yield chunk


def _pieces(chunk: BaseMessage) -> Iterator[Piece]:
    """Yield what a chunk of the wrapped model says."""
    if reasoning := chunk.additional_kwargs.get("reasoning_content"):
        yield Reasoning(reasoning)
    yield str(chunk.text)
    if usage := getattr(chunk, "usage_metadata", None):
        yield Usage(usage["input_tokens"], usage["output_tokens"])
    if chunk.response_metadata.get("finish_reason") == "length":
        yield Stop("max_tokens")


def _chunks(event: Event, encoder: ChoiceEncoder, model: str) -> Iterator[ChatGenerationChunk]:
    """Yield the chunks of an event. After calls that all failed, nothing is yielded: their arguments are invalid."""
    if isinstance(event, Usage):
        total = event.input_tokens + event.output_tokens
        usage = {"input_tokens": event.input_tokens, "output_tokens": event.output_tokens, "total_tokens": total}
        yield ChatGenerationChunk(message=AIMessageChunk(content="", usage_metadata=usage))
        return
    with contextlib.suppress(ModelOutputError):
        for choice in encoder.encode((event,)):
            yield ChatGenerationChunk(message=_message(choice, model))


def _message(choice: dict[str, JSON], model: str) -> AIMessageChunk:
    delta, reason = choice["delta"], choice["finish_reason"]
    reasoning = delta.get("reasoning_content")
    return AIMessageChunk(
        content=delta.get("content") or "",
        additional_kwargs={"reasoning_content": reasoning} if reasoning else {},
        tool_call_chunks=[_call_chunk(call) for call in delta.get("tool_calls", ())],
        response_metadata={"finish_reason": reason, "model_name": model} if reason else {},
    )


def _call_chunk(call: dict[str, JSON]) -> ToolCallChunk:
    name, arguments = call["function"].get("name"), call["function"]["arguments"]
    return tool_call_chunk(name=name, args=arguments, id=call.get("id"), index=call["index"])
