"""Function responses: objects, by several conventions, that stand for a tool's result.

Rule: an object that only wraps a text becomes the text; any other is shown as JSON. What we write is always an object.
Neighbours: the request reader and `outgoing`.
"""

from fcshim.codecs.fields import expect, read_field
from fcshim.codecs.gemini.field_names import take_field
from fcshim.codecs.gemini.media import read_media
from fcshim.codecs.json_writer import write_json
from fcshim.events import JSON
from fcshim.messages import Content, Part, TextPart, ToolMessage, text_of

_WRAPPER_FIELDS = ("output", "result", "return_value", "content")
"""Google's own word, that of its SDK and of MCP, that of pydantic-ai, that of the AI SDK (which adds the `name`)."""


def read_result(response: dict[str, JSON], path: str) -> tuple[Content, bool]:
    """Give the content of a function response, and whether it tells of a failure."""
    value = read_field(response, "response", dict, {}, f"{path}.")
    parts: list[Part] = [TextPart(_result_text(value))]
    for at, item in enumerate(take_field(response, "parts", list, [], f"{path}.")):
        part = expect(item, dict, f"{path}.parts[{at}]")
        media = read_media(part, f"{path}.parts[{at}]")
        parts += [] if media is None else [media]
    return tuple(parts), set(value) == {"error"}


def _result_text(value: dict[str, JSON]) -> str:
    inner = [value[name] for name in value if name != "name"]
    if len(inner) == 1 and set(value) - {"name"} <= {*_WRAPPER_FIELDS, "error"}:
        return inner[0] if isinstance(inner[0], str) else write_json(inner[0]).decode()
    return write_json(value).decode()


def write_result(message: ToolMessage) -> dict[str, JSON]:
    """Give the `response` object of a result."""
    return {"error" if message.is_error else "output": text_of(message.content)}
