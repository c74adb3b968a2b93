"""The values that a JSON Schema admits, as rules of a grammar, in the language of a notation.

Theory of operation. A schema is looked at as alternatives (`schema.alternatives`), each with its `Facets`. The schemas
that hold at one place become one rule. A place from which one comes back to itself is written a few times, each copy
leading to the one below it; the last one does without what leads on.

Rule: bounded work whatever the schema says; what cannot be expressed is relaxed and noted; what nothing can satisfy, or
not within the bounds, is None.
Neighbours: `places` finds what holds where, `scalars` writes what holds no other values, `notation` says how; `calls`
asks for either.
"""

from collections.abc import Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from fcshim.constrain.facets import KINDS, Facets
from fcshim.constrain.grammar import Expression, Text, choice
from fcshim.constrain.notation import DOCUMENT_NOTATION, JSON_NOTATION, Notation, Value
from fcshim.constrain.places import MOST_ITEMS, MOST_MEMBERS, Place, Places, place_of
from fcshim.constrain.rules import Rules
from fcshim.constrain.scalars import Scalars
from fcshim.events import JSON

_DEEPEST = 64
"""Values inside one another: as deep as arguments are read."""
_ROUNDS = 4
"""Steps from one place to the next on a way that leads back to itself."""

_OBJECT: dict[str, JSON] = {"type": "object"}
_ALL = frozenset(KINDS)


class _At(Struct, frozen=True):
    """How a value is written: in which language, how far from the root, and whether as argument (or all)."""

    notation: Notation
    rounds: int = _ROUNDS
    depth: int = 0
    argument: bool = False
    mixed: bool = False
    """Whether it is a member of one of several objects: a reader cannot know of which, nor what belongs there."""


class Schema:
    """Writes the values of one schema, its root, into `rules`."""

    def __init__(self, root: JSON, rules: Rules, notation: Notation) -> None:
        self._root = root
        self._rules = rules
        self._notation = notation
        self._places = Places(root, rules)
        self._made: dict[tuple[Place, Notation, int], Expression | None] = {}

    def arguments(self) -> Expression | None:
        """Give the objects that the root admits, as arguments."""
        start = (self._root, _OBJECT)
        self._places.explore(start)
        place = place_of(start)
        found = self._places.facets(place)
        if found is None:
            return self._notation.free_arguments(self._rules, self._notation.in_maps.any_argument(self._rules))
        mixed = _several("object", found)
        at = _At(self._notation.in_unions if mixed else self._notation, argument=True, mixed=mixed)
        options = [option for facets in found for option in self._whole(place, facets, at)]
        written = dict.fromkeys(option for option in options if option is not None)
        return self._rules.share(choice(written)) if written else None

    def whole(self) -> Expression | None:
        """Give all that the root admits."""
        start = (self._root,)
        self._places.explore(start)
        return self._value(start, _At(self._notation))

    def _whole(self, place: Place, facets: Facets, at: _At) -> Iterator[Expression | None]:
        if "object" not in facets.kinds:
            return
        if facets.literals is None:
            yield self._object(place, facets, at)
            return
        for value in facets.literals:
            values = {key: list(self._scalars(at).literals([inner], frozenset())) for key, inner in value.items()}
            pairs = {key: at.notation.argument(key, written) for key, written in values.items() if written}
            yield self._members(pairs, list(value), 0, None, at)

    # Finding what stands in a place.

    def _value(self, schemas: tuple[JSON, ...], at: _At | None) -> Expression | None:
        if at is None:
            return None
        place = place_of(schemas)
        key = (place, at.notation, at.rounds)
        if key not in self._made:
            written = dict.fromkeys(value for _, value in self._values(place, at))
            self._made[key] = self._rules.share(choice(written)) if written else None
        return self._made[key]

    def _inside(self, outer: Place, schemas: tuple[JSON, ...], at: _At) -> _At | None:
        """Give how a value inside another one is written; None where that must not go on."""
        at = replace(at, depth=at.depth + 1, argument=False, mixed=False)
        if not self._places.returns(outer, place_of(schemas)):
            return replace(at, rounds=_ROUNDS)
        return replace(at, rounds=at.rounds - 1) if at.rounds else None

    def _values(self, place: Place, at: _At) -> list[Value]:
        found = self._places.facets(place)
        if found is None or at.depth > _DEEPEST:
            if at.argument:
                return at.notation.any_argument(self._rules)
            return [("string", at.notation.anything(self._rules))]
        kinds = _ALL if at.mixed else frozenset().union(*(facets.possible for facets in found))
        return [value for facets in found for value in self._options(place, facets, at, kinds)]

    def _options(self, place: Place, facets: Facets, at: _At, kinds: frozenset[str]) -> Iterator[Value]:
        if facets.literals is not None:
            if facets.patterns():
                self._rules.note("pattern is not held to")
            yield from self._scalars(at).literals(facets.literals, kinds)
            return
        for kind in sorted(facets.kinds - ({"integer"} if "number" in facets.kinds else set())):
            for value in self._of_kind(kind, place, facets, at, kinds):
                if value is not None:
                    yield kind, value

    def _of_kind(
        self, kind: str, place: Place, facets: Facets, at: _At, kinds: frozenset[str]
    ) -> Sequence[Expression | None]:
        match kind:
            case "string":
                return [self._scalars(at).string(facets, kinds - {"string"})]
            case "integer" | "number":
                return [self._scalars(at).number(facets, whole=kind == "integer")]
            case "boolean":
                return [self._scalars(at).word(value) for value in (True, False)]
            case "null":
                return [self._scalars(at).word(None)]
            case "array":
                blurs = at.notation.empties_blur and "string" in kinds
                return [self._array(place, facets, self._within(kind, place, at), least=int(blurs))]
            case _:
                blurs = at.notation.empties_blur and not kinds.isdisjoint({"string", "array"})
                return [self._object(place, facets, self._within(kind, place, at), fewest=int(blurs))]

    def _scalars(self, at: _At) -> Scalars:
        return Scalars(at.notation, self._rules, argument=at.argument)

    def _within(self, kind: str, place: Place, at: _At) -> _At:
        """Give how the inside of a container is written."""
        union = at.mixed or _several(kind, self._places.facets(place) or [])
        return replace(at, notation=at.notation.in_unions if union else at.notation, argument=False, mixed=False)

    # Containers.

    def _least(self, facets: Facets, keyword: str) -> int:
        """Give how many there must be; what nobody could write is not held to."""
        least = facets.least(keyword)
        if least <= MOST_ITEMS:
            return least
        self._rules.note(f"{keyword} {least} is not held to")
        return 0

    def _array(self, place: Place, facets: Facets, at: _At, least: int) -> Expression | None:
        least, most = max(least, self._least(facets, "minItems")), facets.most("maxItems")
        if most is not None and most < least:
            return None
        first, rest = facets.elements()
        if facets.is_unique():
            self._rules.note("uniqueItems is not held to")
        brackets, fixed = at.notation.array, list[Expression]()
        for schemas in first[: MOST_ITEMS if most is None else most]:
            element = self._value(schemas, self._inside(place, schemas, at))
            if element is None:
                return brackets.first_of(fixed, least, self._rules)
            fixed.append(at.notation.item(element))
        further = None if rest is None else self._value(rest, self._inside(place, rest, at))
        if further is None or (most is not None and most <= len(fixed)):
            return brackets.first_of(fixed, least, self._rules)
        item = at.notation.item(further)
        if not fixed:
            return brackets.listed(item, least, most)
        return brackets.then_listed(fixed, item, least, most, self._rules)

    def _object(self, place: Place, facets: Facets, at: _At, fewest: int = 0) -> Expression | None:
        required, most = facets.required, facets.most("maxProperties")
        fewest = max(fewest, self._least(facets, "minProperties"))
        members, others = self._said(facets, at), facets.others
        required = [key for key in required if key in members or key not in facets.members]
        if most is not None and most < fewest:
            return None
        if len(members) > MOST_MEMBERS:
            return self._free(at, at.notation.in_maps.any_argument(self._rules))
        if any(key not in members for key in required):
            return None
        if not members and others is not None and most != 0:
            values = self._free_values(place, others, at)
            if values:
                return self._free(at, values, fewest, most)
        pairs = {key: self._member(place, key, schemas, at) for key, schemas in members.items()}
        return self._members({key: pair for key, pair in pairs.items() if pair is not None}, required, fewest, most, at)

    def _said(self, facets: Facets, at: _At) -> dict[str, tuple[JSON, ...]]:
        """Give the members whose names can be written."""
        said = {key: schemas for key, schemas in facets.members.items() if at.notation.says(key, argument=at.argument)}
        for key in [key for key in facets.members if key not in said]:
            self._rules.note(f"the name {key!r:.40} cannot be written")
        return said

    def _free_values(self, place: Place, schemas: tuple[JSON, ...], at: _At) -> list[Value]:
        """Give the values of members whose keys are free."""
        inner = self._inside(place, schemas, at)
        if inner is None:
            return []
        notation = at.notation.in_maps
        return self._spread(
            schemas, replace(inner, notation=notation, argument=at.argument and notation is at.notation)
        )

    def _free(self, at: _At, values: list[Value], fewest: int = 0, most: int | None = None) -> Expression:
        if at.argument:
            return at.notation.free_arguments(self._rules, values, fewest, most)
        return at.notation.map_of(self._rules, choice(value for _, value in values), fewest, most)

    def _member(self, place: Place, key: str, schemas: tuple[JSON, ...], at: _At) -> Expression | None:
        inner = self._inside(place, schemas, at)
        values = [] if inner is None else self._spread(schemas, replace(inner, argument=at.argument, mixed=at.mixed))
        if not values:
            return None
        if at.argument:
            return at.notation.argument(key, values)
        return at.notation.member(key, choice(value for _, value in values))

    def _spread(self, schemas: tuple[JSON, ...], at: _At) -> list[Value]:
        """Give the values of a place by their kinds, where that matters for how they are written."""
        if at.argument:
            return [
                (kind, self._rules.share(value)) for kind, value in dict.fromkeys(self._values(place_of(schemas), at))
            ]
        value = self._value(schemas, at)
        return [] if value is None else [("", value)]

    def _members(
        self, pairs: dict[str, Expression], required: list[str], fewest: int, most: int | None, at: _At
    ) -> Expression | None:
        wanted = self._wanted(list(pairs), required, fewest)
        if wanted is None or (most is not None and most < len(wanted)):
            return None
        spare = len(pairs) if most is None else most - len(wanted)
        kept = [(key, value) for key, value in pairs.items() if key in wanted or (spare := spare - 1) >= 0]
        brackets = at.notation.arguments if at.argument else at.notation.members
        return self._rules.share(brackets.members([(value, key in wanted) for key, value in kept], self._rules))

    def _wanted(self, keys: list[str], required: list[str], fewest: int) -> set[str] | None:
        """Give the keys that are always written: the required ones, and as many more as there must be."""
        wanted = set(required)
        if not wanted.issubset(keys):
            return None
        wanted.update([key for key in keys if key not in wanted][: max(fewest - len(wanted), 0)])
        return wanted if len(wanted) >= fewest else None


def arguments(schema: JSON, rules: Rules, notation: Notation = JSON_NOTATION) -> Expression:
    """Give the arguments of a tool with this schema; where nothing satisfies it, any."""
    if not isinstance(schema, dict) or not schema:
        return Text(notation.arguments.opens + notation.arguments.closes)
    found = Schema(schema, rules, notation).arguments()
    if found is None:
        rules.note("nothing that can be written here satisfies the schema")
        return notation.free_arguments(rules, notation.in_maps.any_argument(rules))
    return found


def document(schema: JSON, rules: Rules) -> Expression:
    """Give the JSON that a schema admits; where nothing satisfies it, any."""
    found = Schema(schema, rules, DOCUMENT_NOTATION).whole()
    if found is None:
        rules.note("nothing that can be written here satisfies the schema")
        return DOCUMENT_NOTATION.anything(rules)
    return found


def _several(kind: str, found: Sequence[Facets]) -> bool:
    """Say whether a value of this kind may be one of several that differ inside."""
    return sum(facets.literals is None and kind in facets.kinds for facets in found) > 1
