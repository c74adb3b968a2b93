"""Single content blocks, read and written.

Rule: text stays text; images and documents become media parts that keep the client's own block. A block that has a
meaning only with the provider's own tools is dropped.
"""

from fcshim.codecs.json_text import expect, field_error, read_field, read_required
from fcshim.events import JSON
from fcshim.messages import Content, MediaPart, Part, TextPart

REDACTED_PREFIX = "redacted_thinking:"
"""Prefix of the signature that represents a redacted thinking block; the block's data follows."""


def read_signature(block: dict[str, JSON]) -> str:
    """Return what proves a thinking block to the provider: its signature, or the data of a redacted block."""
    if block.get("type") == "redacted_thinking":
        return REDACTED_PREFIX + read_field(block, "data", str, "")
    return read_field(block, "signature", str, "")


def read_content(content: JSON, path: str, loaded_tools: dict[str, None]) -> Content:
    """Read the content of a system message or a tool result: a string, blocks or nothing."""
    if content is None or content == "":
        return ()
    if isinstance(content, str):
        return (TextPart(content),)
    if not isinstance(content, list):
        raise field_error(content, "a string or an array of blocks", f"{path}.content")
    parts: list[Part] = []
    for index, item in enumerate(content):
        block_path = f"{path}.content.{index}"
        parts += read_parts(expect(item, dict, block_path), block_path, loaded_tools)
    return tuple(parts)


def read_parts(block: dict[str, JSON], path: str, loaded_tools: dict[str, None]) -> list[Part]:
    """Read one block; tool names in a tool reference are added to `loaded_tools`."""
    match read_required(block, "type", str, path):
        case "text":
            text = read_required(block, "text", str, path)
            return [TextPart(text)] if text else []
        case "image":
            return [_media(block, "image/*", path)]
        case "document":
            return _document(block, path)
        case "search_result":
            titles = [TextPart(f"{block[name]}\n") for name in ("title", "source") if isinstance(block.get(name), str)]
            return [*titles, *_as_documents(read_content(block.get("content"), path, loaded_tools))]
        case "tool_reference":
            name = read_field(block, "tool_name", str, "", f"{path}.")
            loaded_tools[name] = None
            return [TextPart(f"The tool {name} can be called now.\n")]
        case _:
            return []


def _as_documents(content: Content) -> list[Part]:
    return [TextPart(part.text, document=True) if isinstance(part, TextPart) else part for part in content]


def _document(block: dict[str, JSON], path: str) -> list[Part]:
    """Read a document. One that consists of text becomes text, preceded by its title and context."""
    source = read_required(block, "source", dict, path)
    notes: list[Part] = [
        TextPart(f"{block[name]}\n") for name in ("title", "context") if isinstance(block.get(name), str)
    ]
    match source.get("type"):
        case "text":
            return [*notes, TextPart(read_field(source, "data", str, "", f"{path}.source."), document=True)]
        case "content":
            return [*notes, *_as_documents(read_content(source.get("content"), f"{path}.source", {}))]
        case _:
            return [*notes, _media(block, "application/pdf", path)]


def _media(block: dict[str, JSON], media_type: str, path: str) -> MediaPart:
    source = read_required(block, "source", dict, path)
    kind = read_field(source, "media_type", str, media_type, f"{path}.source.")
    match source.get("type"):
        case "base64":
            return MediaPart(kind, data=read_required(source, "data", str, f"{path}.source"), raw=block)
        case "url":
            return MediaPart(kind, url=read_required(source, "url", str, f"{path}.source"), raw=block)
        case _:
            return MediaPart(kind, raw=block)
