"""Types of the upstream's events, with only the fields that become unified events.

Rule: unknown fields are skipped by the parser; a missing field has a default that has no effect.
"""

import msgspec

from fcshim.codecs.json_text import json_reader
from fcshim.events import JSON


class ResponsesPart(msgspec.Struct, gc=False):
    """A part of an item's content."""

    type: str = ""
    text: str | None = None
    refusal: str | None = None


class ResponsesItem(msgspec.Struct, gc=False):
    """An item of the output."""

    type: str = ""
    id: str | None = None
    call_id: str | None = None
    name: str | None = None
    namespace: str | None = None
    arguments: str | dict[str, JSON] | None = None
    input: str | None = None
    content: list[ResponsesPart] | None = None
    summary: list[ResponsesPart] | None = None
    encrypted_content: str | None = None


class ResponseObject(msgspec.Struct, gc=False):
    """The response object inside an event."""

    status: str | None = None
    output: list[ResponsesItem] | None = None
    usage: dict[str, JSON] | None = None
    incomplete_details: dict[str, JSON] | None = None
    error: JSON = None


class ResponsesEvent(ResponseObject, gc=False):
    """One event, or a whole response."""

    type: str | None = None
    object: str | None = None
    output_index: int | None = None
    item_id: str | None = None
    summary_index: int = 0
    item: ResponsesItem | None = None
    delta: JSON = None
    arguments: str | None = None
    response: ResponseObject | None = None
    message: str | None = None
    code: str | None = None


decode_event = json_reader(ResponsesEvent)
