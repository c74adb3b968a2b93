"""Find the branches of a union that may admit a value, by its type, its value or a discriminating member.

Rule: a branch that is left out does not admit the value; exact, so that a union of a thousand branches costs a lookup.
"""

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence

from fcshim.events import JSON
from fcshim.schema.value_identity import ValueIdentity

ResolveSchema = Callable[[JSON], JSON]
"""Follows the `$ref` of a schema that is nothing but a reference."""


class UnionIndex:
    """Index of the branches of one `anyOf` or `oneOf`."""

    def __init__(self, branches: Sequence[JSON], resolve: ResolveSchema, identity: ValueIdentity) -> None:
        self._branches = branches
        self._identity = identity
        plain = [resolve(branch) for branch in branches]
        self._by_value = self._values_index(plain)
        self._discriminator = None if self._by_value is not None else _discriminator(plain)
        self._by_member = self._values_index(self._member_schemas(plain)) if self._discriminator is not None else None

    def candidates(self, value: JSON) -> Iterable[JSON]:
        """Return the branches that may admit the value, in their order."""
        if self._by_value is not None:
            return self._lookup(self._by_value, value)
        if self._by_member is None or not isinstance(value, dict):
            return self._branches
        # Each branch requires the discriminator.
        return self._lookup(self._by_member, value[self._discriminator]) if self._discriminator in value else ()

    def _lookup(self, index: dict[Hashable, list[int]], value: JSON) -> list[JSON]:
        return [self._branches[number] for number in index.get(self._identity.key(value), ())]

    def _member_schemas(self, plain: Sequence[JSON]) -> list[JSON]:
        return [branch["properties"][self._discriminator] for branch in plain]

    def _values_index(self, schemas: Sequence[JSON]) -> dict[Hashable, list[int]] | None:
        """Return the numbers of the schemas by the values that they list; None if one lists none."""
        index: defaultdict[Hashable, list[int]] = defaultdict(list)
        for number, schema in enumerate(schemas):
            values = listed_values(schema)
            if values is None:
                return None
            for key in dict.fromkeys(self._identity.keys(values)):
                index[key].append(number)
        return index


def listed_values(schema: JSON) -> list[JSON] | None:
    """Return a list that has every value which the schema admits; None if `const` and `enum` give none."""
    if not isinstance(schema, dict):
        return None
    if "const" in schema:
        return [schema["const"]]
    values = schema.get("enum")
    return values if isinstance(values, list) else None


def _discriminator(branches: Sequence[JSON]) -> str | None:
    """Return the name of a member that every branch requires and of which it lists the values."""
    names = [name for name in _discriminating_names(branches[0]) if all(_discriminates(one, name) for one in branches)]
    return names[0] if names else None


_MAX_NAMES = 8
"""Members of the first branch that are tried: discriminators come first, and each try visits every branch."""


def _discriminating_names(branch: JSON) -> list[str]:
    properties = branch.get("properties") if isinstance(branch, dict) else None
    if not isinstance(properties, dict):
        return []
    return [name for name, schema in properties.items() if listed_values(schema) is not None][:_MAX_NAMES]


def _discriminates(branch: JSON, name: str) -> bool:
    if not isinstance(branch, dict):
        return False
    properties, required = branch.get("properties"), branch.get("required")
    if not isinstance(properties, dict) or not isinstance(required, list):
        return False
    return name in required and listed_values(properties.get(name)) is not None
