"""An ASGI application that serves the tiny model as a text-only chat endpoint.

Rule: it supports only what a `llama-server` without tool support does: unknown fields, `tools` above all, are silently
ignored; wrong types are a `RequestError`. Tokens are computed one by one in a thread, until the client has
disconnected.
"""

import asyncio
import secrets
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import msgspec

from fcshim.demo.asgi import (
    Message,
    Receive,
    Send,
    read_body,
    send_chunk,
    send_end,
    send_json,
    send_start,
    wait_for_disconnect,
)
from fcshim.demo.chatml import write_prompt
from fcshim.demo.generation import Engine, FinishReason, GenerationStatus, TokenSampling
from fcshim.errors import RequestError
from fcshim.events import JSON

UNLIMITED = 2**31


class _StreamOptions(msgspec.Struct):
    include_usage: bool = False


class _ContentPart(msgspec.Struct):
    type: str
    text: str = ""


class _ChatMessage(msgspec.Struct):
    role: str
    content: str | list[_ContentPart] | None = None


class _ChatRequestBody(msgspec.Struct):
    messages: list[_ChatMessage]
    stream: bool | None = False
    stream_options: _StreamOptions | None = None
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    stop: str | list[str] | None = None
    temperature: float | None = None
    top_p: float | None = None
    seed: int | None = None
    n: int | None = 1


_decoder = msgspec.json.Decoder(_ChatRequestBody)


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """The prompt, the limits of the reply, and how it is sent."""

    prompt: str
    sampling: TokenSampling
    max_tokens: int
    stop_strings: tuple[str, ...]
    stream: bool
    include_usage: bool


def read_request(body: bytes) -> ChatRequest:
    """Decode the body of a POST. Raises `RequestError`."""
    try:
        request = _decoder.decode(body)
    except msgspec.DecodeError as error:
        raise RequestError(f"the request body is not a chat request: {error}") from error
    if not request.messages:
        raise RequestError("'messages' is empty", param="messages")
    if request.n not in (None, 1):
        raise RequestError("this model generates one choice: 'n' must be 1", param="n")
    stops = [request.stop] if isinstance(request.stop, str) else request.stop or []
    limit = request.max_completion_tokens if request.max_tokens is None else request.max_tokens
    return ChatRequest(
        prompt=write_prompt((message.role, _text(message)) for message in request.messages),
        sampling=TokenSampling(
            request.temperature or 0.0,
            1.0 if request.top_p is None else request.top_p,
            None if request.seed is None or request.seed < 0 else request.seed,
        ),
        max_tokens=UNLIMITED if limit is None or limit < 0 else limit,
        stop_strings=tuple(stop for stop in stops if stop),
        stream=bool(request.stream),
        include_usage=request.stream_options is not None and request.stream_options.include_usage,
    )


def _text(message: _ChatMessage) -> str:
    if not isinstance(message.content, list):
        return message.content or ""
    for part in message.content:
        if part.type != "text":
            raise RequestError(f"this model reads text only, not {part.type!r} parts", param="messages")
    return "".join(part.text for part in message.content)


def error_body(status: int, kind: str, message: str, **details: JSON) -> dict[str, JSON]:
    """Return an error body in the format of llama-server."""
    return {"error": {"code": status, "message": message, "type": kind, **details}}


def usage(prompt_tokens: int, output_tokens: int) -> dict[str, JSON]:
    """Return the `usage` object."""
    return {
        "prompt_tokens": prompt_tokens,
        "completion_tokens": output_tokens,
        "total_tokens": prompt_tokens + output_tokens,
    }


def sse_event(value: JSON) -> bytes:
    """Return a server-sent event with this JSON value."""
    return b"data: " + msgspec.json.encode(value) + b"\n\n"


DONE = b"data: [DONE]\n\n"


@dataclass(frozen=True, slots=True)
class ChatReplyEncoder:
    """Encodes one reply, with llama-server's fields in their order; its chunks share `id` and `created`."""

    model: str
    id: str = field(default_factory=lambda: f"chatcmpl-{secrets.token_hex(16)}")
    created: int = field(default_factory=lambda: int(time.time()))

    def encode_start(self) -> bytes:
        """Return the first chunk of a stream, with the role."""
        return self._encode_chunk({"role": "assistant", "content": None})

    def encode_text(self, text: str) -> bytes:
        """Return a chunk of text."""
        return self._encode_chunk({"content": text})

    def encode_finish(self, reason: FinishReason) -> bytes:
        """Return the chunk with the finish reason."""
        return self._encode_chunk({}, reason)

    def encode_usage(self, counts: dict[str, JSON]) -> bytes:
        """Return the last chunk of a stream, with the usage."""
        return sse_event(self._common_fields("chat.completion.chunk") | {"choices": [], "usage": counts})

    def encode_complete(self, text: str, reason: FinishReason, counts: dict[str, JSON]) -> bytes:
        """Return the body of a reply that is not streamed."""
        choice = {"finish_reason": reason, "index": 0, "message": {"role": "assistant", "content": text}}
        return msgspec.json.encode(self._common_fields("chat.completion") | {"choices": [choice], "usage": counts})

    def _encode_chunk(self, delta: dict[str, JSON], reason: FinishReason | None = None) -> bytes:
        choice = {"finish_reason": reason, "index": 0, "delta": delta}
        return sse_event({"choices": [choice], **self._common_fields("chat.completion.chunk")})

    def _common_fields(self, kind: str) -> dict[str, JSON]:
        return {"created": self.created, "id": self.id, "model": self.model, "object": kind}


class ChatEndpoint:
    """The ASGI application; all requests share `engine`."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Serve one HTTP request."""
        if scope["type"] != "http":
            return
        match scope["method"], scope["path"].removeprefix("/v1"):
            case "GET", "/health":
                await send_json(send, 200, {"status": "ok"})
            case "GET", "/models":
                await send_json(send, 200, self._models())
            case "POST", "/chat/completions":
                await self._chat(receive, send)
            case _:
                await send_json(send, 404, error_body(404, "not_found_error", "File Not Found"))

    def _models(self) -> dict[str, JSON]:
        model = {"id": self._engine.name, "object": "model", "created": 0, "owned_by": "fcshim"}
        return {"object": "list", "data": [model]}

    async def _chat(self, receive: Receive, send: Send) -> None:
        try:
            request, prompt = self._read(await read_body(receive))
        except RequestError as error:
            details = error.details if isinstance(error, _PromptTooLongError) else {}
            await send_json(send, error.status, error_body(error.status, error.kind, error.message, **details))
        else:
            await self._reply(request, prompt, receive, send)

    def _read(self, body: bytes) -> tuple[ChatRequest, list[int]]:
        request = read_request(body)
        prompt = self._engine.tokenizer.encode(request.prompt)
        if len(prompt) >= self._engine.context:
            raise _PromptTooLongError(len(prompt), self._engine.context)
        return request, prompt

    async def _reply(self, request: ChatRequest, prompt: list[int], receive: Receive, send: Send) -> None:
        leaving = asyncio.create_task(wait_for_disconnect(receive))
        outcome = GenerationStatus()
        pieces = self._generate(request, prompt, outcome, leaving)
        try:
            if request.stream:
                await self._stream(request, prompt, pieces, outcome, send)
            else:
                text = "".join([piece async for piece in pieces])
                counts = usage(len(prompt), outcome.output_tokens)
                await send_json(
                    send, 200, ChatReplyEncoder(self._engine.name).encode_complete(text, outcome.finish_reason, counts)
                )
        finally:
            leaving.cancel()

    async def _generate(
        self, request: ChatRequest, prompt: list[int], outcome: GenerationStatus, leaving: "asyncio.Task[None]"
    ) -> AsyncIterator[str]:
        """Yield text, with one call into a thread for each token, until the client disconnects."""
        source = self._engine.generate(
            prompt, outcome, max_tokens=request.max_tokens, stop_strings=request.stop_strings, sampling=request.sampling
        )
        while not leaving.done():
            piece = await asyncio.to_thread(next, source, None)  # None at the end: a future cannot raise StopIteration
            if piece is None:
                return
            if piece:
                yield piece

    async def _stream(
        self, request: ChatRequest, prompt: list[int], pieces: AsyncIterator[str], outcome: GenerationStatus, send: Send
    ) -> None:
        answer = ChatReplyEncoder(self._engine.name)
        await send_start(send, 200, "text/event-stream")
        await send_chunk(send, answer.encode_start())
        async for piece in pieces:
            await send_chunk(send, answer.encode_text(piece))
        end = answer.encode_finish(outcome.finish_reason)
        if request.include_usage:
            end += answer.encode_usage(usage(len(prompt), outcome.output_tokens))
        await send_end(send, end + DONE)


class _PromptTooLongError(RequestError):
    """The prompt exceeds the context."""

    kind = "exceed_context_size_error"

    def __init__(self, tokens: int, context: int) -> None:
        super().__init__(f"request ({tokens} tokens) exceeds the available context size ({context} tokens)")
        self.details: dict[str, JSON] = {"n_prompt_tokens": tokens, "n_ctx": context}
