"""A tool's schema for the rest of an incomplete call: its members are ordered as the call has written them.

The grammar admits members in schema order only, so the order must match the prefix before a derivative is taken.
Rule: only the order changes, and an additional member that the call contains becomes a named one; validity does not.
"""

import json
import re
from collections.abc import Mapping

from fcshim.events import JSON

_TOKEN = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*(?:"|\\?\Z)|[{}\[\]:]')
"""A string, possibly incomplete, or a structural character of JSON."""


def order_by_prefix(schema: JSON, prefix: str) -> JSON:
    """Order the members of an arguments schema as `prefix` has them, the others after these.

    `prefix` is an incomplete strict JSON object. Schemas behind references and inside arrays keep their order.
    """
    return _ordered(schema, _members(prefix))


def _ordered(schema: JSON, written: "Mapping[str, _MemberTree]") -> JSON:
    if not (written and isinstance(schema, dict)):
        return schema
    listed = schema.get("properties")
    properties = listed if isinstance(listed, dict) else {}
    other = schema.get("additionalProperties", True)
    first = {
        key: _ordered(properties.get(key, other), members)
        for key, members in written.items()
        if key in properties or other is not False
    }
    return {**schema, "properties": {**first, **{key: value for key, value in properties.items() if key not in first}}}


class _MemberTree(dict[str, "_MemberTree"]):
    """The members of an object in order, by name, each with the members of its value."""


def _members(prefix: str) -> _MemberTree:
    """Read the member names of an incomplete JSON text; a name counts once its colon is there."""
    tree = _MemberTree()
    opened: list[_MemberTree | None] = []  # the open containers; None for an array and everything inside it
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
                members = opened[-1]
                value = None if members is None else members.setdefault(json.loads(text), _MemberTree())
            case _:
                text = token
    return tree
