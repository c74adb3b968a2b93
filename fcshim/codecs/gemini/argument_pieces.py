"""The arguments of a call in pieces, each with its path, for clients that ask for them (`streamFunctionCallArguments`).

Rule: only calls are streamed whose parameters are all texts, numbers, booleans or null: a piece has no form for an
empty object or array, so it would be lost.
"""

import json
import re

import msgspec

from fcshim.codecs.json_text import repair_surrogates
from fcshim.events import JSON
from fcshim.messages import Tool

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
        self._path: str | None = None  # of the value that comes, or is open
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
        self._path = _path(json.loads(name[1]))
        return name.end()

    def _read_value(self, text: str, position: int, pieces: list[dict[str, JSON]]) -> int:
        if text.startswith('"', position):
            self._in_text = True
            return position + 1
        self.failed = text.startswith(("{", "["), position)
        scalar = _SCALAR.match(text, position)
        if scalar is None:
            return position
        pieces.append({"jsonPath": self._path, **_scalar(scalar[1])})
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


def _path(name: str) -> str:
    """Return the JSONPath (RFC 9535) of a member of the arguments."""
    return f"$.{name}" if _IDENTIFIER.fullmatch(name) else f"$[{json.dumps(name, ensure_ascii=False)}]"


def _scalar(text: str) -> dict[str, JSON]:
    if text == "null":
        return {"nullValue": "NULL_VALUE"}
    return {"boolValue": text == "true"} if text in ("true", "false") else {"numberValue": msgspec.Raw(text.encode())}
