"""The answers of a chat endpoint: whole, and as the chunks of a stream.

Rule: the fields and their order on the wire are those of llama-server; `content` of the first chunk is null.
Neighbours: `endpoint` sends them.
"""

import secrets
import time
from dataclasses import dataclass, field

import msgspec

from fcshim.demo.generation import FinishReason
from fcshim.events import JSON


def usage(prompt_tokens: int, output_tokens: int) -> dict[str, JSON]:
    """Give the token counts."""
    return {
        "prompt_tokens": prompt_tokens,
        "completion_tokens": output_tokens,
        "total_tokens": prompt_tokens + output_tokens,
    }


def server_sent(value: JSON) -> bytes:
    """Write one event of a stream."""
    return b"data: " + msgspec.json.encode(value) + b"\n\n"


DONE = b"data: [DONE]\n\n"


@dataclass(frozen=True, slots=True)
class Answer:
    """One reply's identity; each method gives a piece of it."""

    model: str
    id: str = field(default_factory=lambda: f"chatcmpl-{secrets.token_hex(16)}")
    created: int = field(default_factory=lambda: int(time.time()))

    def first(self) -> bytes:
        """Begin a stream."""
        return self._chunk({"role": "assistant", "content": None})

    def piece(self, text: str) -> bytes:
        """Continue a stream."""
        return self._chunk({"content": text})

    def last(self, reason: FinishReason) -> bytes:
        """End the text of a stream."""
        return self._chunk({}, reason)

    def counted(self, counts: dict[str, JSON]) -> bytes:
        """Give the usage of a stream."""
        return server_sent(self._head("chat.completion.chunk") | {"choices": [], "usage": counts})

    def whole(self, text: str, reason: FinishReason, counts: dict[str, JSON]) -> bytes:
        """Give a reply that is not streamed."""
        choice = {"finish_reason": reason, "index": 0, "message": {"role": "assistant", "content": text}}
        return msgspec.json.encode(self._head("chat.completion") | {"choices": [choice], "usage": counts})

    def _chunk(self, delta: dict[str, JSON], reason: FinishReason | None = None) -> bytes:
        choice = {"finish_reason": reason, "index": 0, "delta": delta}
        return server_sent({"choices": [choice], **self._head("chat.completion.chunk")})

    def _head(self, kind: str) -> dict[str, JSON]:
        return {"created": self.created, "id": self.id, "model": self.model, "object": kind}
