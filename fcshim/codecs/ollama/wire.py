"""Wire types of a reply line, with only the fields that become events.

Rule: unknown fields are skipped and never an error. Arguments keep their bytes; they are not decoded and re-encoded.
"""

import msgspec

from fcshim.codecs.json_text import json_reader
from fcshim.events import JSON

_NOTHING = msgspec.Raw(b"")


class OllamaFunction(msgspec.Struct):
    """The called function. `arguments` is an object, or, in imitations of Ollama, a string that contains one."""

    name: str | None = None
    arguments: msgspec.Raw = _NOTHING


class OllamaToolCall(msgspec.Struct):
    """One call, which always arrives complete."""

    id: str | None = None
    function: OllamaFunction | None = None


class OllamaMessage(msgspec.Struct):
    """The part of the message that a line adds."""

    content: str | None = None
    thinking: str | None = None
    tool_calls: list[OllamaToolCall] | None = None


class OllamaReplyLine(msgspec.Struct):
    """One line of a stream, or one whole reply. `response` and `thinking` are the fields of `/api/generate`."""

    message: OllamaMessage | None = None
    response: str | None = None
    thinking: str | None = None
    done: bool | None = False
    done_reason: str | None = None
    prompt_eval_count: int | None = None
    eval_count: int | None = None
    error: JSON = None


read_line = json_reader(OllamaReplyLine)
"""Reads one line; None if it is not a JSON object of this type."""
