"""Converts the result of a server's tool to a `ToolResult`.

Rule: nothing is lost: text, images and audio keep their types, any other content becomes text or JSON.
"""

import json
from collections.abc import Iterable, Sequence

from mcp.types import (
    AudioContent,
    BlobResourceContents,
    CallToolResult,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
    TextResourceContents,
)

from fcshim.events import JSON
from fcshim.messages import Content, MediaPart, Part, TextPart
from fcshim.tools.result import ToolResult

_NO_MESSAGE = "The tool failed and did not say why."


def to_tool_result(result: CallToolResult) -> ToolResult:
    """Convert a server's result; adjacent texts are joined by a line feed."""
    parts = [_part(block) for block in result.content]
    if result.structured_content is not None and not _is_in_text(result.structured_content, parts):
        parts.append(TextPart(_json(result.structured_content)))
    if result.is_error and not any(isinstance(part, MediaPart) or part.text.strip() for part in parts):
        parts = [TextPart(_NO_MESSAGE)]
    return ToolResult(_join_texts(parts), is_error=result.is_error, structured=result.structured_content)


def _part(block: ContentBlock) -> Part:
    match block:
        case TextContent(text=text):
            return TextPart(text)
        case ImageContent() | AudioContent():
            return MediaPart(block.mime_type, data=block.data)
        case ResourceLink():
            fields = [f"[Resource: {block.uri}]", block.title or block.name, block.description or ""]
            return TextPart(" ".join(filter(None, fields)))
        case EmbeddedResource(resource=TextResourceContents() as resource):
            return TextPart(f"[Resource: {resource.uri}]\n{resource.text}")
        case EmbeddedResource(resource=BlobResourceContents() as resource):
            return TextPart(f"[Resource: {resource.uri}]")
        case other:
            return TextPart(_json(other.model_dump(mode="json", by_alias=True, exclude_none=True)))


def _is_in_text(value: JSON, parts: Sequence[Part]) -> bool:
    """Return whether a text repeats the value, as MCP asks of servers: twice would waste the model's context."""
    return any(isinstance(part, TextPart) and _text_equals(part.text, value) for part in parts)


def _text_equals(text: str, value: JSON) -> bool:
    # Servers made with the SDK wrap a result that is not an object in `{"result": ...}`.
    unwrapped = value.get("result") if isinstance(value, dict) and list(value) == ["result"] else value
    if text == unwrapped:
        return True
    try:
        return json.loads(text) in (value, unwrapped)
    except (ValueError, RecursionError):
        return False


def _json(value: JSON) -> str:
    return json.dumps(value, ensure_ascii=False)


def _join_texts(parts: Iterable[Part]) -> Content:
    joined: list[Part] = []
    for part in parts:
        if isinstance(part, TextPart) and joined and isinstance(joined[-1], TextPart):
            joined[-1] = TextPart(f"{joined[-1].text}\n{part.text}")
        else:
            joined.append(part)
    return tuple(joined)
