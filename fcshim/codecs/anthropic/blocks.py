"""Single content blocks, read and written.

Rule: text stays text, images and documents become media with the client's own form beside them; a block that means
nothing to a model without the provider's tools is left out.
Neighbours: the request reader takes messages apart with this, `outgoing` puts them together.
"""

from fcshim.codecs.fields import expect, read_field, field_error
from fcshim.events import JSON
from fcshim.messages import Content, MediaPart, Part, TextPart

REDACTED = "redacted_thinking:"
"""Begins the signature that stands for a redacted thinking block; its data follows."""


def signed(block: dict[str, JSON]) -> str:
    """Give what proves a thinking block to the provider: its signature, or the data of a redacted one."""
    if block.get("type") == "redacted_thinking":
        return REDACTED + read_field(block, "data", str, "")
    return read_field(block, "signature", str, "")


def read_content(content: JSON, place: str, loaded: set[str]) -> Content:
    """Read the content of a system message or a tool result: a string, blocks or nothing."""
    if content is None or content == "":
        return ()
    if isinstance(content, str):
        return (TextPart(content),)
    if not isinstance(content, list):
        raise field_error(content, "a string or an array of blocks", f"{place}.content")
    parts: list[Part] = []
    for at, item in enumerate(content):
        where = f"{place}.content.{at}"
        parts += read_parts(expect(item, dict, where), where, loaded)
    return tuple(parts)


def read_parts(block: dict[str, JSON], place: str, loaded: set[str]) -> list[Part]:
    """Read one block; names that a tool reference loads are added to `loaded`."""
    match expect(block.get("type"), str, f"{place}.type"):
        case "text":
            text = expect(block.get("text"), str, f"{place}.text")
            return [TextPart(text)] if text else []
        case "image":
            return [_media(block, "image/*", place)]
        case "document":
            return _document(block, place)
        case "search_result":
            titles = [TextPart(f"{block[name]}\n") for name in ("title", "source") if isinstance(block.get(name), str)]
            return [*titles, *read_content(block.get("content"), place, loaded)]
        case "tool_reference":
            name = read_field(block, "tool_name", str, "", f"{place}.")
            loaded.add(name)
            return [TextPart(f"The tool {name} can be called now.")]
        case _:
            return []


def _document(block: dict[str, JSON], place: str) -> list[Part]:
    """Read a document: one that is text becomes text, with its title and context before it."""
    source = expect(block.get("source"), dict, f"{place}.source")
    notes: list[Part] = [
        TextPart(f"{block[name]}\n") for name in ("title", "context") if isinstance(block.get(name), str)
    ]
    match source.get("type"):
        case "text":
            return [*notes, TextPart(read_field(source, "data", str, "", f"{place}.source."))]
        case "content":
            return [*notes, *read_content(source.get("content"), f"{place}.source", set())]
        case _:
            return [*notes, _media(block, "application/pdf", place)]


def _media(block: dict[str, JSON], media_type: str, place: str) -> MediaPart:
    source = expect(block.get("source"), dict, f"{place}.source")
    kind = read_field(source, "media_type", str, media_type, f"{place}.source.")
    match source.get("type"):
        case "base64":
            return MediaPart(kind, data=expect(source.get("data"), str, f"{place}.source.data"), raw=block)
        case "url":
            return MediaPart(kind, url=expect(source.get("url"), str, f"{place}.source.url"), raw=block)
        case _:
            return MediaPart(kind, raw=block)
