"""Function responses: objects, in one of several conventions, that represent a tool's result.

Rule: an object that only wraps a text becomes the text; any other becomes JSON. What is written is always an object.
"""

from fcshim.codecs.fields import expect, read_field
from fcshim.codecs.gemini.field_names import take_field
from fcshim.codecs.gemini.media import read_media
from fcshim.codecs.json_writer import write_json
from fcshim.events import JSON
from fcshim.messages import Content, Part, TextPart, ToolMessage, text_of

_WRAPPER_FIELDS = ("output", "result", "return_value", "content")
"""The fields of Google, of its SDK and MCP, of pydantic-ai, and of the AI SDK (which adds a `name`), in this order."""


def read_result(response: dict[str, JSON], path: str) -> tuple[Content, bool]:
    """Return the content of a function response, and whether it reports an error."""
    value = read_field(response, "response", dict, {}, f"{path}.")
    parts: list[Part] = [TextPart(_result_text(value))]
    for index, item in enumerate(take_field(response, "parts", list, [], f"{path}.")):
        part = expect(item, dict, f"{path}.parts[{index}]")
        media = read_media(part, f"{path}.parts[{index}]")
        parts += [] if media is None else [media]
    return tuple(parts), set(value) == {"error"}


def _result_text(value: dict[str, JSON]) -> str:
    inner = [value[name] for name in value if name != "name"]
    if len(inner) == 1 and set(value) - {"name"} <= {*_WRAPPER_FIELDS, "error"}:
        return inner[0] if isinstance(inner[0], str) else write_json(inner[0]).decode()
    return write_json(value).decode()


def write_result(message: ToolMessage) -> dict[str, JSON]:
    """Return the `response` object of a result."""
    return {"error" if message.is_error else "output": text_of(message.content)}
