"""A tool's schema as a grammar needs it for the rest of a call that has begun: its members in the order they came in.

Rule: only the order changes, and a member that may be there without being named is named; what is valid stays so.
Neighbours: `constraint` makes the grammar, which wants members in the schema's order; `residue` what is left of it.
"""

import json
import re
from collections.abc import Mapping

from fcshim.events import JSON

_TOKEN = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*(?:"|\\?\Z)|[{}\[\]:]')
"""A string, also one that has only begun, and the signs that say what it is."""


def order_by_prefix(schema: JSON, prefix: str) -> JSON:
    """Give the schema of arguments with the members that `begun` names before the others, as it orders them.

    `begun` is the beginning of strict JSON. What stands behind references, or in arrays, keeps its order.
    """
    return _ordered(schema, _members(prefix))


def _ordered(schema: JSON, written: "Mapping[str, _MemberTree]") -> JSON:
    if not (written and isinstance(schema, dict)):
        return schema
    named = schema.get("properties")
    properties = named if isinstance(named, dict) else {}
    other = schema.get("additionalProperties", True)
    first = {
        key: _ordered(properties.get(key, other), inside)
        for key, inside in written.items()
        if key in properties or other is not False
    }
    return {**schema, "properties": {**first, **{key: value for key, value in properties.items() if key not in first}}}


class _MemberTree(dict[str, "_MemberTree"]):
    """The members of an object by name, in order, each with its own."""


def _members(prefix: str) -> _MemberTree:
    """Read which members the objects of a text have that may end anywhere."""
    tree = _MemberTree()
    opened: list[_MemberTree | None] = []  # None: an array, and what is in one
    value: _MemberTree | None = tree
    text = ""
    for token in _TOKEN.findall(prefix):
        match token:
            case "{":
                opened.append(value)
            case "[":
                opened.append(None)
                value = None
            case "}" | "]":
                opened.pop()
            case ":":
                inside = opened[-1]
                value = None if inside is None else inside.setdefault(json.loads(text), _MemberTree())
            case _:
                text = token
    return tree
