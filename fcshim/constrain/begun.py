"""A tool's schema as a grammar needs it for the rest of a call that has begun: its members in the order they came in.

Rule: only the order changes, and a member that may be there without being named is named; what is valid stays so.
Neighbours: `constraint` makes the grammar, which wants members in the schema's order; `residue` what is left of it.
"""

from collections.abc import Mapping

from fcshim.events import JSON
from fcshim.parse.arguments.strict import StrictJson
from fcshim.parse.closers import closers
from fcshim.parse.limits import DEFAULT_LIMITS

_NO_CLOSERS = closers(())
_SOME_VALUE = "0"
"""The reader takes note of a key when its value begins."""


def in_begun_order(schema: JSON, begun: str) -> JSON:
    """Give the schema of arguments with the members that `begun` names before the others, as it orders them.

    `begun` is the beginning of strict JSON. What stands behind references, or in arrays, keeps its order.
    """
    begun = begun.rstrip()
    return _ordered(schema, _Members(begun + _SOME_VALUE if begun.endswith(":") else begun).tree)


def _ordered(schema: JSON, said: "Mapping[str, _Tree]") -> JSON:
    if not (said and isinstance(schema, dict)):
        return schema
    named = schema.get("properties")
    properties = named if isinstance(named, dict) else {}
    other = schema.get("additionalProperties", True)
    first = {
        key: _ordered(properties.get(key, other), inside)
        for key, inside in said.items()
        if key in properties or other is not False
    }
    return {**schema, "properties": {**first, **{key: value for key, value in properties.items() if key not in first}}}


class _Tree(dict[str, "_Tree"]):
    """The members of an object by name, in order, each with its own."""


class _Members(StrictJson):
    """Reads which members the objects of a text have that may end anywhere."""

    def __init__(self, text: str) -> None:
        super().__init__(_NO_CLOSERS, DEFAULT_LIMITS)
        self.tree = _Tree()
        self._way = [self.tree]
        self.read_on(text, 0)

    def _key_read(self, key: str) -> None:
        if "[" in self._containers:
            return
        del self._way[len(self._containers) :]
        inside = self._way[-1][key] = _Tree()
        self._way.append(inside)
