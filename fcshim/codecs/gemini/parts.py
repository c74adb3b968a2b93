"""Single parts, read and written: media, function responses, thought signatures, and the arguments of calls in pieces.

Rule: the client's own media part is kept, for an upstream of this API. A function response that only wraps a text
becomes the text, any other becomes JSON; what is written is always an object. A signature of another provider is
wrapped as base64 on the way to the client, and unwrapped on the way back. Only calls are streamed in pieces whose
parameters are all texts, numbers, booleans or null: a piece has no form for an empty object or array, so it would be
lost.
"""

import base64
import binascii
import json
import re
from collections.abc import Sequence

import msgspec

from fcshim.codecs.gemini.field_names import take_field
from fcshim.codecs.json_text import expect, read_field, repair_surrogates, write_json
from fcshim.events import JSON, WebToolUse
from fcshim.messages import Content, MediaPart, Part, TextPart, Tool, ToolMessage, placeholder, text_of

SKIP_VALIDATION = "skip_thought_signature_validator"
"""The value that Google documents for calls without a signature, such as those of another model."""

_SIGNATURE_PREFIX = b"fcshim:"
_LOADED, _NOT_LOADED = "URL_RETRIEVAL_STATUS_SUCCESS", "URL_RETRIEVAL_STATUS_ERROR"
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
    inner = [value[name] for name in value if name != "name"]
    is_wrapper = len(inner) == 1 and set(value) - {"name"} <= {*_WRAPPER_FIELDS, "error"}
    result = inner[0] if is_wrapper else value
    parts: list[Part] = [TextPart(result if isinstance(result, str) else write_json(result).decode())]
    for index, item in enumerate(take_field(response, "parts", list, [], f"{path}.")):
        part = expect(item, dict, f"{path}.parts[{index}]")
        media = read_media(part, f"{path}.parts[{index}]")
        parts += [] if media is None else [media]
    return tuple(parts), set(value) == {"error"}


def write_result(message: ToolMessage) -> dict[str, JSON]:
    """Return the `response` object of a result."""
    return {"error" if message.is_error else "output": text_of(message.content)}


def grounding_fields(uses: Sequence[WebToolUse]) -> dict[str, JSON]:
    """Return the fields of a candidate that list what was searched, found and loaded; empty without web tools.

    Which passage of the text each page supports is not known here.
    """
    searches = [use for use in uses if use.action == "search"]
    chunks = [{"web": {"uri": page.url, "title": page.title}} for use in searches for page in use.results]
    loaded = [
        {"retrievedUrl": use.subject, "urlRetrievalStatus": _LOADED if use.error is None else _NOT_LOADED}
        for use in uses
        if use.action == "fetch"
    ]
    fields: dict[str, JSON] = {}
    if searches:
        queries = [use.subject for use in searches]
        fields["groundingMetadata"] = {"webSearchQueries": queries, "groundingChunks": chunks, "groundingSupports": []}
    if loaded:
        fields["urlContextMetadata"] = {"urlMetadata": loaded}
    return fields


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


_SCALARS = frozenset({"string", "number", "integer", "boolean", "null"})
_NAME = re.compile(r'("(?:[^"\\]|\\.)*")\s*:\s*')
_SCALAR = re.compile(r"([^\s,}\[{\"]+)(?=[\s,}])")
_TEXT = re.compile(
    r'(?:[^"\\]|\\[^u]|\\u(?![dD][89abAB])[0-9a-fA-F]{4}|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[0-9a-fA-F]{4})*', re.DOTALL
)
"""Whole characters: not half of an escape, and not the first half of a surrogate pair."""
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_MAX_PENDING = 4_096
"""Characters of a name or number that may wait for their end; they are searched again with each chunk."""


def has_pieces(tool: Tool) -> bool:
    """Return whether all parameters of the tool have a form as pieces."""
    properties = tool.parameters.get("properties", {})
    if not isinstance(properties, dict) or tool.parameters.get("additionalProperties") not in (None, False):
        return False
    return all(isinstance(each, dict) and _is_scalar(each.get("type")) for each in properties.values())


def _is_scalar(kind: JSON) -> bool:
    kinds = kind if isinstance(kind, list) else [kind]
    return bool(kinds) and all(isinstance(each, str) and each in _SCALARS for each in kinds)


class ArgumentPieces:
    """Splits the strict JSON of one call's arguments into pieces as it comes.

    `failed`: the arguments hold a value that has no form as a piece, so the call must not end.
    """

    def __init__(self) -> None:
        self.failed = False
        self._pending = ""
        self._path: str | None = None  # JSONPath (RFC 9535) of the value that comes, or is open
        self._in_text = False

    def feed(self, chunk: str) -> list[dict[str, JSON]]:
        """Take the next chunk; return the pieces that it completes, in the API's form."""
        if self.failed:
            return []
        pieces: list[dict[str, JSON]] = []
        text, position = self._pending + chunk, 0
        while not self.failed and (end := self._read(text, position, pieces)) > position:
            position = end
        self._pending = text[position:]
        self.failed = self.failed or len(self._pending) > _MAX_PENDING
        return pieces

    def _read(self, text: str, position: int, pieces: list[dict[str, JSON]]) -> int:
        """Read what is complete at a position; return the position after it, the same if nothing is."""
        if self._in_text:
            return self._read_text(text, position, pieces)
        ignored = " \t\r\n" if self._path is not None else "{ \t\r\n,}"  # around the members of the one object
        if text[position : position + 1] in ignored:
            return min(position + 1, len(text))
        if self._path is not None:
            return self._read_value(text, position, pieces)
        name = _NAME.match(text, position)
        if name is None:
            return position
        key = json.loads(name[1])
        self._path = f"$.{key}" if _IDENTIFIER.fullmatch(key) else f"$[{json.dumps(key, ensure_ascii=False)}]"
        return name.end()

    def _read_value(self, text: str, position: int, pieces: list[dict[str, JSON]]) -> int:
        if text.startswith('"', position):
            self._in_text = True
            return position + 1
        self.failed = text.startswith(("{", "["), position)
        scalar = _SCALAR.match(text, position)
        if scalar is None:
            return position
        match scalar[1]:
            case "null":
                value: dict[str, JSON] = {"nullValue": "NULL_VALUE"}
            case "true" | "false":
                value = {"boolValue": scalar[1] == "true"}
            case number:
                value = {"numberValue": msgspec.Raw(number.encode())}
        pieces.append({"jsonPath": self._path, **value})
        self._path = None
        return scalar.end()

    def _read_text(self, text: str, position: int, pieces: list[dict[str, JSON]]) -> int:
        found = _TEXT.match(text, position)
        end = position if found is None else found.end()
        is_last = text.startswith('"', end)
        if end > position or is_last:
            value = repair_surrogates(json.loads(f'"{text[position:end]}"', strict=False))
            more = {} if is_last else {"willContinue": True}
            pieces.append({"jsonPath": self._path, "stringValue": value, **more})
        if is_last:
            self._in_text, self._path = False, None
            return end + 1
        return end
