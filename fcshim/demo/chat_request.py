"""Decodes a chat request as an OpenAI-compatible endpoint without tools does.

Rule: unknown fields, `tools` above all, are silently ignored; wrong types are a `RequestError`.
"""

from dataclasses import dataclass

import msgspec

from fcshim.demo.chatml import write_prompt
from fcshim.demo.generation import TokenSampling
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
