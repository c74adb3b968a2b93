"""Wire types of the upstream's JSON, with only the fields that become events.

Rule: one type covers all events, with the API's own field names, so that each is decoded once; unknown fields are
skipped.
"""

import msgspec

from fcshim.codecs.json_text import json_reader
from fcshim.events import JSON


class ContentBlock(msgspec.Struct, gc=False):
    """A content block: its start in a stream, or all of it."""

    type: str = ""
    text: str | None = None
    thinking: str | None = None
    signature: str | None = None
    data: str | None = None
    id: str | None = None
    name: str | None = None
    input: dict[str, JSON] | None = None


class MessagesDelta(msgspec.Struct, gc=False):
    """The part of a block, or of the message, that an event adds."""

    type: str = ""
    text: str | None = None
    partial_json: str | None = None
    thinking: str | None = None
    signature: str | None = None
    stop_reason: str | None = None
    stop_sequence: str | None = None


class InitialMessage(msgspec.Struct, gc=False):
    """The message object with which a stream starts."""

    usage: dict[str, JSON] | None = None


class MessagesEvent(msgspec.Struct, gc=False):
    """One event of a stream, or a whole message."""

    type: str = ""
    index: int = 0
    message: InitialMessage | None = None
    content_block: ContentBlock | None = None
    delta: MessagesDelta | None = None
    usage: dict[str, JSON] | None = None
    content: list[ContentBlock] | None = None
    stop_reason: str | None = None
    stop_sequence: str | None = None
    error: JSON = None


read_event = json_reader(MessagesEvent)
