"""Servers' content as parts of messages.

Rule: nothing is lost: text, images and audio keep their types, a resource keeps its address.
"""

import base64
import binascii
from collections.abc import Iterable

from mcp.types import (
    AudioContent,
    BlobResourceContents,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
    TextResourceContents,
)

from fcshim.messages import Content, MediaPart, Part, TextPart

_MEDIA = ("image/", "audio/", "application/pdf")
"""Types of binary resources that models accept; others are described with their size."""


def to_parts(blocks: Iterable[ContentBlock]) -> Content:
    """Convert content; adjacent texts stay apart."""
    return tuple(part for block in blocks for part in block_parts(block))


def block_parts(block: ContentBlock) -> list[Part]:
    """Convert one block."""
    match block:
        case TextContent(text=text):
            return [TextPart(text)]
        case ImageContent() | AudioContent():
            return [MediaPart(block.mime_type, data=block.data)]
        case ResourceLink():
            fields = [f"[Resource: {block.uri}]", block.title or block.name, block.description or ""]
            return [TextPart(" ".join(filter(None, fields)))]
        case EmbeddedResource(resource=resource):
            return resource_parts(resource)


def resource_parts(contents: TextResourceContents | BlobResourceContents) -> list[Part]:
    """Convert the contents of a resource: its address, then its content."""
    title = f"[Resource: {contents.uri}]"
    if isinstance(contents, TextResourceContents):
        return [TextPart(f"{title}\n{contents.text}")]
    media_type = contents.mime_type or "application/octet-stream"
    if media_type.startswith(_MEDIA):
        return [TextPart(title), MediaPart(media_type, data=contents.blob)]
    return [TextPart(_binary_text(title, media_type, contents.blob))]


def _binary_text(title: str, media_type: str, blob: str) -> str:
    try:
        data = base64.b64decode(blob, validate=True)
    except binascii.Error:
        return f"{title} ({media_type})"
    try:
        return f"{title}\n{data.decode()}" if b"\0" not in data else f"{title} ({media_type}, {len(data)} bytes)"
    except UnicodeDecodeError:
        return f"{title} ({media_type}, {len(data)} bytes)"
