"""Encodes the replies of a chat endpoint: complete, or as the chunks of a stream.

Rule: the fields and their order are those of llama-server; `content` of the first chunk is null.
"""

import secrets
import time
from dataclasses import dataclass, field

import msgspec

from fcshim.demo.generation import FinishReason
from fcshim.events import JSON


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
    """Encodes one reply; its chunks share `id` and `created`."""

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
