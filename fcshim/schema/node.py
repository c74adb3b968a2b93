"""Parse strict JSON into nodes with source positions, so that one value can be replaced and all other text kept.

Rule: one linear pass; text that is not strict JSON (duplicate keys, lone surrogates, too deep or too long) has no node.
"""

import json
import math
import re
from typing import Literal

from fcshim.events import JSON

ValueKind = Literal["object", "array", "string", "integer", "fraction", "boolean", "null"]
"""Kinds of JSON values: a number without point and exponent is an `integer`, any other (also 5.0) a `fraction`."""

_KIND_BY_TYPE: dict[type, ValueKind] = {
    dict: "object",
    list: "array",
    str: "string",
    int: "integer",
    float: "fraction",
    bool: "boolean",
    type(None): "null",
}

KINDS: frozenset[ValueKind] = frozenset({"object", "array", "string", "integer", "fraction", "boolean", "null"})
CONTAINERS: frozenset[ValueKind] = frozenset({"object", "array"})

_MAX_DEPTH = 64
"""Nesting of one value, including JSON inside its strings: the parser's own limit for arguments."""
_MAX_TOKENS = 16_384
"""Tokens of one value, about 30 ms: as many as the parser collects characters of a value before it lets it pass."""
_MAX_NUMBER_LENGTH = 4_000
"""Characters of a number: Python refuses to read integers of more than 4,300 digits."""

_PLAIN = r'[^"\\\x00-\x1f\ud800-\udfff]*+'
_TOKEN = re.compile(
    r"[ \t\n\r]*+(?:"
    r"(?P<mark>[{}\[\],:])"
    rf'|(?P<string>"{_PLAIN}(?:\\(?:["\\/bfnrt]|u[0-9a-fA-F]{{4}}){_PLAIN})*")'
    r"|(?P<number>-?(?:0|[1-9][0-9]*+)(?P<fraction>(?:\.[0-9]++)?(?:[eE][-+]?[0-9]++)?))"
    r"|(?P<word>true|false|null)"
    r")"
)
_SPACE = re.compile(r"[ \t\n\r]*+")
_WORDS: dict[str, tuple[ValueKind, JSON]] = {
    "true": ("boolean", True),
    "false": ("boolean", False),
    "null": ("null", None),
}


def kind_of(value: JSON) -> ValueKind:
    """Return the kind of a value from `json.loads`."""
    return _KIND_BY_TYPE[type(value)]


class Node:
    """One value: its kind, its position in `source`, and its scalar `value` or its `children`.

    In an object `keys[i]` is the key of `children[i]`; `step` is the node's own key or index in `parent`.
    """

    __slots__ = ("children", "depth", "end", "keys", "kind", "parent", "source", "start", "step", "value")

    def __init__(self, kind: ValueKind, source: str, start: int, parent: "Node | None", depth: int) -> None:
        self.kind = kind
        self.source = source
        self.start = start
        self.end = start
        self.parent = parent
        self.step: str | int = ""
        self.depth = depth
        self.value: JSON = None
        self.keys: list[str] = [] if kind == "object" else _NO_KEYS
        self.children: list[Node] = [] if kind in CONTAINERS else _NO_CHILDREN

    @property
    def text(self) -> str:
        """The source text of the value."""
        return self.source[self.start : self.end]

    @property
    def pointer(self) -> str:
        """The JSON Pointer (RFC 6901) from the outermost value."""
        steps: list[str] = []
        node = self
        while node.parent is not None:
            steps.append("/" + str(node.step).replace("~", "~0").replace("/", "~1"))
            node = node.parent
        return "".join(reversed(steps))


_NO_KEYS: list[str] = []
_NO_CHILDREN: list[Node] = []  # shared by all scalars: a list each would double their memory


class _InvalidJsonError(ValueError):
    """The text is not strict JSON."""


def scan(source: str, depth: int = 0) -> Node | None:
    """Parse one JSON value that is nested `depth` levels deep; None where `source` is not exactly one."""
    try:
        return _Scanner(source, depth).read()
    except _InvalidJsonError:
        return None


def load_json(text: str) -> JSON:
    """Return the value of strict JSON; a number beyond a double's range stays text, because JSON has no infinity."""
    return json.loads(text, parse_float=_parse_float)


def has_lone_surrogate(text: str) -> bool:
    """Return whether the text has a lone surrogate, which UTF-8 cannot encode."""
    return any("\ud800" <= char <= "\udfff" for char in text)


def _parse_float(text: str) -> float | str:
    number = float(text)
    return number if math.isfinite(number) else text


class _Scanner:
    """Parses token by token; `_open` is the innermost open container, `_expected` says what must come next."""

    def __init__(self, source: str, depth: int) -> None:
        self._source = source
        self._pos = 0
        self._depth = depth
        self._open: Node | None = None
        self._seen_keys: list[set[str]] = []
        self._root: Node | None = None
        self._key: str | None = None
        self._expected = "value"

    def read(self) -> Node:
        tokens = 0
        while self._root is None or self._open is not None:
            self._read_token()
            tokens += 1
            if tokens > _MAX_TOKENS:
                raise _InvalidJsonError
        found = _SPACE.fullmatch(self._source, self._pos)
        if found is None:
            raise _InvalidJsonError
        return self._root

    def _read_token(self) -> None:
        found = _TOKEN.match(self._source, self._pos)
        if found is None:
            raise _InvalidJsonError
        self._pos = found.end()
        group = found.lastgroup
        if group == "mark":
            self._read_punctuation(found["mark"])
        elif self._expected in {"key", "key or end"}:
            if group != "string":
                raise _InvalidJsonError
            self._add_key(_decode_string(found["string"]))
        else:
            self._add_scalar(found)

    def _read_punctuation(self, char: str) -> None:
        if char in "{[" and self._expected in {"value", "value or end"}:
            self._open_container("object" if char == "{" else "array")
        elif char in "}]" and self._open is not None and self._expected in {"comma", "key or end", "value or end"}:
            if (char == "}") != (self._open.kind == "object"):
                raise _InvalidJsonError
            self._open.end = self._pos
            self._seen_keys.pop()
            self._open = self._open.parent
            self._expected = "comma"
        elif char == "," and self._open is not None and self._expected == "comma":
            self._expected = "key" if self._open.kind == "object" else "value"
        elif char == ":" and self._expected == "colon":
            self._expected = "value"
        else:
            raise _InvalidJsonError

    def _add_key(self, key: str) -> None:
        seen = self._seen_keys[-1]
        if key in seen:
            raise _InvalidJsonError
        seen.add(key)
        self._key = key
        self._expected = "colon"

    def _open_container(self, kind: ValueKind) -> None:
        node = self._add_node(kind, self._pos - 1)
        if node.depth >= _MAX_DEPTH:
            raise _InvalidJsonError
        self._open = node
        self._seen_keys.append(set())
        self._expected = "key or end" if kind == "object" else "value or end"

    def _add_scalar(self, found: re.Match[str]) -> None:
        if self._expected not in {"value", "value or end"}:
            raise _InvalidJsonError
        group = found.lastgroup
        assert group is not None
        if group == "string":
            node = self._add_node("string", found.start("string"))
            node.value = _decode_string(found["string"])
        elif group == "word":
            kind, value = _WORDS[found["word"]]
            node = self._add_node(kind, found.start("word"))
            node.value = value
        else:
            if len(found["number"]) > _MAX_NUMBER_LENGTH:
                raise _InvalidJsonError
            node = self._add_node("fraction" if found["fraction"] else "integer", found.start("number"))
            node.value = json.loads(found["number"])
        node.end = self._pos
        self._expected = "comma"

    def _add_node(self, kind: ValueKind, start: int) -> Node:
        parent = self._open
        node = Node(kind, self._source, start, parent, self._depth if parent is None else parent.depth + 1)
        if parent is None:
            self._root = node
        elif self._key is not None:
            node.step = self._key
            parent.keys.append(self._key)
            parent.children.append(node)
            self._key = None
        else:
            node.step = len(parent.children)
            parent.children.append(node)
        return node


def _decode_string(text: str) -> str:
    value: str = json.loads(text)
    if "\\u" in text and has_lone_surrogate(value):
        raise _InvalidJsonError
    return value
