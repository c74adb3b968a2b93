"""Single content blocks, read and written.

Rule: text stays text, images and documents become media with the client's own form beside them; a block that means
nothing to a model without the provider's tools is left out.
Neighbours: the request reader takes messages apart with this, `outgoing` puts them together.
"""

from fcshim.codecs.fields import expect, field_error, read_field
from fcshim.events import JSON
from fcshim.messages import Content, MediaPart, Part, TextPart

REDACTED_PREFIX = "redacted_thinking:"
"""Begins the signature that stands for a redacted thinking block; its data follows."""


def read_signature(block: dict[str, JSON]) -> str:
    """Give what proves a thinking block to the provider: its signature, or the data of a redacted one."""
    if block.get("type") == "redacted_thinking":
        return REDACTED_PREFIX + read_field(block, "data", str, "")
    return read_field(block, "signature", str, "")


def read_content(content: JSON, path: str, loaded_tools: set[str]) -> Content:
    """Read the content of a system message or a tool result: a string, blocks or nothing."""
    if content is None or content == "":
        return ()
    if isinstance(content, str):
        return (TextPart(content),)
    if not isinstance(content, list):
        raise field_error(content, "a string or an array of blocks", f"{path}.content")
    parts: list[Part] = []
    for at, item in enumerate(content):
        where = f"{path}.content.{at}"
        parts += read_parts(expect(item, dict, where), where, loaded_tools)
    return tuple(parts)


def read_parts(block: dict[str, JSON], path: str, loaded_tools: set[str]) -> list[Part]:
    """Read one block; names that a tool reference loads are added to `loaded`."""
    match expect(block.get("type"), str, f"{path}.type"):
        case "text":
            text = expect(block.get("text"), str, f"{path}.text")
            return [TextPart(text)] if text else []
        case "image":
            return [_media(block, "image/*", path)]
        case "document":
            return _document(block, path)
        case "search_result":
            titles = [TextPart(f"{block[name]}\n") for name in ("title", "source") if isinstance(block.get(name), str)]
            return [*titles, *read_content(block.get("content"), path, loaded_tools)]
        case "tool_reference":
            name = read_field(block, "tool_name", str, "", f"{path}.")
            loaded_tools.add(name)
            return [TextPart(f"The tool {name} can be called now.")]
        case _:
            return []


def _document(block: dict[str, JSON], path: str) -> list[Part]:
    """Read a document: one that is text becomes text, with its title and context before it."""
    source = expect(block.get("source"), dict, f"{path}.source")
    notes: list[Part] = [
        TextPart(f"{block[name]}\n") for name in ("title", "context") if isinstance(block.get(name), str)
    ]
    match source.get("type"):
        case "text":
            return [*notes, TextPart(read_field(source, "data", str, "", f"{path}.source."))]
        case "content":
            return [*notes, *read_content(source.get("content"), f"{path}.source", set())]
        case _:
            return [*notes, _media(block, "application/pdf", path)]


def _media(block: dict[str, JSON], media_type: str, path: str) -> MediaPart:
    source = expect(block.get("source"), dict, f"{path}.source")
    kind = read_field(source, "media_type", str, media_type, f"{path}.source.")
    match source.get("type"):
        case "base64":
            return MediaPart(kind, data=expect(source.get("data"), str, f"{path}.source.data"), raw=block)
        case "url":
            return MediaPart(kind, url=expect(source.get("url"), str, f"{path}.source.url"), raw=block)
        case _:
            return MediaPart(kind, raw=block)
