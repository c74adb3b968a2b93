"""Single parts, read and written: media, function responses and thought signatures.

Rule: the client's own media part is kept, for an upstream of this API. A function response that only wraps a text
becomes the text, any other becomes JSON; what is written is always an object. A signature of another provider is
wrapped as base64 on the way to the client, and unwrapped on the way back.
"""

import base64
import binascii
from collections.abc import Sequence

from fcshim.codecs.gemini.field_names import take_field
from fcshim.codecs.json_text import expect, read_field, write_json
from fcshim.events import JSON, WebToolUse
from fcshim.messages import Content, MediaPart, Part, TextPart, ToolMessage, placeholder, text_of

SKIP_VALIDATION = "skip_thought_signature_validator"
"""The value that Google documents for calls without a signature, such as those of another model."""

_SIGNATURE_PREFIX = b"fcshim:"
_DEFAULT_MEDIA_TYPE = "application/octet-stream"
_WRAPPER_FIELDS = ("output", "result", "return_value", "content")
"""The fields of Google, of its SDK and MCP, of pydantic-ai, and of the AI SDK (which adds a `name`), in this order."""


def read_media(part: dict[str, JSON], path: str) -> MediaPart | None:
    """Read a part; None if it is of another kind."""
    blob = take_field(part, "inlineData", dict, None, f"{path}.")
    if blob is not None:
        kind = take_field(blob, "mimeType", str, _DEFAULT_MEDIA_TYPE, f"{path}.inlineData.")
        return MediaPart(kind, data=take_field(blob, "data", str, "", f"{path}.inlineData."), raw=part)
    file = take_field(part, "fileData", dict, None, f"{path}.")
    if file is not None:
        kind = take_field(file, "mimeType", str, _DEFAULT_MEDIA_TYPE, f"{path}.fileData.")
        return MediaPart(kind, url=take_field(file, "fileUri", str, "", f"{path}.fileData."), raw=part)
    return None


def write_media(part: MediaPart) -> dict[str, JSON]:
    """Return the part: the client's own if it comes from this API, else converted."""
    if isinstance(part.raw, dict) and part.raw.keys() & {"inlineData", "inline_data", "fileData", "file_data"}:
        return part.raw
    if part.data and not part.media_type.endswith("/*"):
        return {"inlineData": {"mimeType": part.media_type, "data": part.data}}
    if part.url:
        return {"fileData": {"fileUri": part.url, "mimeType": part.media_type}}
    return {"text": placeholder(part).text}


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


def grounding_fields(uses: Sequence[WebToolUse]) -> dict[str, JSON]:
    """Return the fields of a candidate that list what was searched, found and loaded; empty without web tools.

    Which passage of the text each page supports is not known here.
    """
    searches = [use for use in uses if use.action == "search"]
    pages = [use for use in uses if use.action == "fetch"]
    chunks = [{"web": {"uri": page.url, "title": page.title}} for use in searches for page in use.results]
    fields: dict[str, JSON] = {}
    if searches:
        queries = [use.subject for use in searches]
        fields["groundingMetadata"] = {"webSearchQueries": queries, "groundingChunks": chunks, "groundingSupports": []}
    if pages:
        fields["urlContextMetadata"] = {"urlMetadata": list(map(_url_metadata, pages))}
    return fields


def _url_metadata(use: WebToolUse) -> dict[str, str]:
    status = "URL_RETRIEVAL_STATUS_SUCCESS" if use.error is None else "URL_RETRIEVAL_STATUS_ERROR"
    return {"retrievedUrl": use.subject, "urlRetrievalStatus": status}


def wrap_signature(signature: str) -> str:
    """Return a signature as base64."""
    if _decode_base64(signature) is not None:
        return signature
    return base64.b64encode(_SIGNATURE_PREFIX + signature.encode("utf-8", "replace")).decode("ascii")


def unwrap_signature(text: str) -> str:
    """Return a wrapped signature as it was; every other unchanged."""
    data = _decode_base64(text)
    return (
        data.removeprefix(_SIGNATURE_PREFIX).decode("utf-8", "replace")
        if data and data.startswith(_SIGNATURE_PREFIX)
        else text
    )


def _decode_base64(text: str) -> bytes | None:
    """Decode base64 of either alphabet: the SDKs return signatures in the URL-safe one."""
    try:
        return base64.b64decode(text.replace("-", "+").replace("_", "/"), validate=True)
    except (binascii.Error, ValueError):
        return None
