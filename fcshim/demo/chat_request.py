"""A chat request as an OpenAI-compatible endpoint without tools reads it.

Rule: what such an endpoint does not know (`tools` above all) it ignores in silence; wrong types are the client's fault.
Neighbours: `endpoint` serves it, `generation` runs it.
"""

from dataclasses import dataclass

import msgspec

from fcshim.demo.chatml import write_prompt
from fcshim.demo.generation import Sampling
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
    """What is to be generated and how it is to be sent."""

    prompt: str
    sampling: Sampling
    max_tokens: int
    stop_strings: tuple[str, ...]
    stream: bool
    include_usage: bool


def read_request(body: bytes) -> ChatRequest:
    """Read the body of a POST. Raises `RequestError`."""
    try:
        asked = _decoder.decode(body)
    except msgspec.DecodeError as error:
        raise RequestError(f"the request body is not a chat request: {error}") from error
    if not asked.messages:
        raise RequestError("'messages' is empty", param="messages")
    if asked.n not in (None, 1):
        raise RequestError("this model gives one choice: 'n' must be 1", param="n")
    stops = [asked.stop] if isinstance(asked.stop, str) else asked.stop or []
    limit = asked.max_completion_tokens if asked.max_tokens is None else asked.max_tokens
    return ChatRequest(
        prompt=write_prompt((message.role, _text(message)) for message in asked.messages),
        sampling=Sampling(asked.temperature or 0.0, 1.0 if asked.top_p is None else asked.top_p, _seed(asked.seed)),
        max_tokens=UNLIMITED if limit is None or limit < 0 else limit,
        stop_strings=tuple(stop for stop in stops if stop),
        stream=bool(asked.stream),
        include_usage=asked.stream_options is not None and asked.stream_options.include_usage,
    )


def _text(message: _ChatMessage) -> str:
    if not isinstance(message.content, list):
        return message.content or ""
    for part in message.content:
        if part.type != "text":
            raise RequestError(f"this model reads text only, not {part.type!r} parts", param="messages")
    return "".join(part.text for part in message.content)


def _seed(seed: int | None) -> int | None:
    return None if seed is None or seed < 0 else seed


def error_body(status: int, kind: str, message: str, **details: JSON) -> dict[str, JSON]:
    """Give an error in the form that llama-server uses."""
    return {"error": {"code": status, "message": message, "type": kind, **details}}
