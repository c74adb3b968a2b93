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

from fcshim.constrain.grammar import Expression, LiteralText, choice
from fcshim.constrain.keywords import KINDS, Keywords
from fcshim.constrain.rules import Rules
from fcshim.constrain.scalars import ScalarWriter
from fcshim.constrain.schema_graph import MOST_ITEMS, MOST_MEMBERS, NodeId, SchemaGraph, node_id
from fcshim.constrain.value_syntax import DOCUMENT_SYNTAX, JSON_SYNTAX, TypedExpression, ValueSyntax
from fcshim.events import JSON

_MAX_DEPTH = 64
"""Values inside one another: as deep as arguments are read."""
_MAX_RECURSIONS = 4
"""Steps from one place to the next on a way that leads back to itself."""

_OBJECT: dict[str, JSON] = {"type": "object"}
_ALL_KINDS = frozenset(KINDS)


class _WriteContext(Struct, frozen=True):
    """How a value is written: in which language, how far from the root, and whether as argument (or all)."""

    notation: ValueSyntax
    rounds: int = _MAX_RECURSIONS
    depth: int = 0
    argument: bool = False
    mixed: bool = False
    """Whether it is a member of one of several objects: a reader cannot know of which, nor what belongs there."""


class SchemaValueWriter:
    """Writes the values of one schema, its root, into `rules`."""

    def __init__(self, root: JSON, rules: Rules, syntax: ValueSyntax) -> None:
        self._root = root
        self._rules = rules
        self._syntax = syntax
        self._graph = SchemaGraph(root, rules)
        self._written: dict[tuple[NodeId, ValueSyntax, int], Expression | None] = {}

    def arguments(self) -> Expression | None:
        """Give the objects that the root admits, as arguments."""
        start = (self._root, _OBJECT)
        self._graph.explore(start)
        place = node_id(start)
        found = self._graph.alternatives(place)
        if found is None:
            return self._syntax.free_arguments(self._rules, self._syntax.map_value_syntax.any_argument(self._rules))
        mixed = _is_union_of("object", found)
        at = _WriteContext(self._syntax.union_syntax if mixed else self._syntax, argument=True, mixed=mixed)
        options = [option for facets in found for option in self._root_object(place, facets, at)]
        written = dict.fromkeys(option for option in options if option is not None)
        return self._rules.share(choice(written)) if written else None

    def document(self) -> Expression | None:
        """Give all that the root admits."""
        start = (self._root,)
        self._graph.explore(start)
        return self._value(start, _WriteContext(self._syntax))

    def _root_object(self, node: NodeId, keywords: Keywords, context: _WriteContext) -> Iterator[Expression | None]:
        if "object" not in keywords.kinds:
            return
        if keywords.literals is None:
            yield self._object(node, keywords, context)
            return
        for value in keywords.literals:
            values = {key: list(self._scalars(context).literals([inner], frozenset())) for key, inner in value.items()}
            pairs = {key: context.notation.argument(key, written) for key, written in values.items() if written}
            yield self._members(pairs, list(value), 0, None, context)

    # Finding what stands in a place.

    def _value(self, schemas: tuple[JSON, ...], context: _WriteContext | None) -> Expression | None:
        if context is None:
            return None
        place = node_id(schemas)
        key = (place, context.notation, context.rounds)
        if key not in self._written:
            written = dict.fromkeys(value for _, value in self._values(place, context))
            self._written[key] = self._rules.share(choice(written)) if written else None
        return self._written[key]

    def _enter(self, outer: NodeId, schemas: tuple[JSON, ...], context: _WriteContext) -> _WriteContext | None:
        """Give how a value inside another one is written; None where that must not go on."""
        context = replace(context, depth=context.depth + 1, argument=False, mixed=False)
        if not self._graph.is_recursive(outer, node_id(schemas)):
            return replace(context, rounds=_MAX_RECURSIONS)
        return replace(context, rounds=context.rounds - 1) if context.rounds else None

    def _values(self, node: NodeId, context: _WriteContext) -> list[TypedExpression]:
        found = self._graph.alternatives(node)
        if found is None or context.depth > _MAX_DEPTH:
            if context.argument:
                return context.notation.any_argument(self._rules)
            return [("string", context.notation.any_value(self._rules))]
        kinds = _ALL_KINDS if context.mixed else frozenset().union(*(facets.possible_kinds for facets in found))
        return [value for facets in found for value in self._alternative(node, facets, context, kinds)]

    def _alternative(
        self, node: NodeId, keywords: Keywords, context: _WriteContext, kinds: frozenset[str]
    ) -> Iterator[TypedExpression]:
        if keywords.literals is not None:
            if keywords.patterns():
                self._rules.note("pattern is not held to")
            yield from self._scalars(context).literals(keywords.literals, kinds)
            return
        for kind in sorted(keywords.kinds - ({"integer"} if "number" in keywords.kinds else set())):
            for value in self._of_kind(kind, node, keywords, context, kinds):
                if value is not None:
                    yield kind, value

    def _of_kind(
        self, kind: str, node: NodeId, keywords: Keywords, context: _WriteContext, kinds: frozenset[str]
    ) -> Sequence[Expression | None]:
        match kind:
            case "string":
                return [self._scalars(context).string(keywords, kinds - {"string"})]
            case "integer" | "number":
                return [self._scalars(context).number(keywords, whole=kind == "integer")]
            case "boolean":
                return [self._scalars(context).constant(value) for value in (True, False)]
            case "null":
                return [self._scalars(context).constant(None)]
            case "array":
                blurs = context.notation.ambiguous_empties and "string" in kinds
                return [self._array(node, keywords, self._enter_container(kind, node, context), least=int(blurs))]
            case _:
                blurs = context.notation.ambiguous_empties and not kinds.isdisjoint({"string", "array"})
                return [self._object(node, keywords, self._enter_container(kind, node, context), fewest=int(blurs))]

    def _scalars(self, context: _WriteContext) -> ScalarWriter:
        return ScalarWriter(context.notation, self._rules, argument=context.argument)

    def _enter_container(self, kind: str, node: NodeId, context: _WriteContext) -> _WriteContext:
        """Give how the inside of a container is written."""
        union = context.mixed or _is_union_of(kind, self._graph.alternatives(node) or [])
        return replace(
            context, notation=context.notation.union_syntax if union else context.notation, argument=False, mixed=False
        )

    # Containers.

    def _bounded_minimum(self, keywords: Keywords, keyword: str) -> int:
        """Give how many there must be; what nobody could write is not held to."""
        least = keywords.lower_bound(keyword)
        if least <= MOST_ITEMS:
            return least
        self._rules.note(f"{keyword} {least} is not held to")
        return 0

    def _array(self, node: NodeId, keywords: Keywords, context: _WriteContext, least: int) -> Expression | None:
        least, most = max(least, self._bounded_minimum(keywords, "minItems")), keywords.upper_bound("maxItems")
        if most is not None and most < least:
            return None
        first, rest = keywords.elements()
        if keywords.is_unique():
            self._rules.note("uniqueItems is not held to")
        brackets, fixed = context.notation.array, list[Expression]()
        for schemas in first[: MOST_ITEMS if most is None else most]:
            element = self._value(schemas, self._enter(node, schemas, context))
            if element is None:
                return brackets.leading(fixed, least, self._rules)
            fixed.append(context.notation.item(element))
        further = None if rest is None else self._value(rest, self._enter(node, rest, context))
        if further is None or (most is not None and most <= len(fixed)):
            return brackets.leading(fixed, least, self._rules)
        item = context.notation.item(further)
        if not fixed:
            return brackets.repeated(item, least, most)
        return brackets.leading_then_repeated(fixed, item, least, most, self._rules)

    def _object(self, node: NodeId, keywords: Keywords, context: _WriteContext, fewest: int = 0) -> Expression | None:
        required, most = keywords.required, keywords.upper_bound("maxProperties")
        fewest = max(fewest, self._bounded_minimum(keywords, "minProperties"))
        members, others = self._writable_members(keywords, context), keywords.other_members
        required = [key for key in required if key in members or key not in keywords.members]
        if most is not None and most < fewest:
            return None
        if len(members) > MOST_MEMBERS:
            return self._free_members(context, context.notation.map_value_syntax.any_argument(self._rules))
        if any(key not in members for key in required):
            return None
        if not members and others is not None and most != 0:
            values = self._free_values(node, others, context)
            if values:
                return self._free_members(context, values, fewest, most)
        pairs = {key: self._member(node, key, schemas, context) for key, schemas in members.items()}
        return self._members(
            {key: pair for key, pair in pairs.items() if pair is not None}, required, fewest, most, context
        )

    def _writable_members(self, keywords: Keywords, context: _WriteContext) -> dict[str, tuple[JSON, ...]]:
        """Give the members whose names can be written."""
        said = {
            key: schemas
            for key, schemas in keywords.members.items()
            if context.notation.can_write_key(key, argument=context.argument)
        }
        for key in [key for key in keywords.members if key not in said]:
            self._rules.note(f"the name {key!r:.40} cannot be written")
        return said

    def _free_values(self, node: NodeId, schemas: tuple[JSON, ...], context: _WriteContext) -> list[TypedExpression]:
        """Give the values of members whose keys are free."""
        inner = self._enter(node, schemas, context)
        if inner is None:
            return []
        notation = context.notation.map_value_syntax
        return self._values_by_kind(
            schemas, replace(inner, notation=notation, argument=context.argument and notation is context.notation)
        )

    def _free_members(
        self, context: _WriteContext, values: list[TypedExpression], fewest: int = 0, most: int | None = None
    ) -> Expression:
        if context.argument:
            return context.notation.free_arguments(self._rules, values, fewest, most)
        return context.notation.map_of(self._rules, choice(value for _, value in values), fewest, most)

    def _member(self, node: NodeId, key: str, schemas: tuple[JSON, ...], context: _WriteContext) -> Expression | None:
        inner = self._enter(node, schemas, context)
        values = (
            []
            if inner is None
            else self._values_by_kind(schemas, replace(inner, argument=context.argument, mixed=context.mixed))
        )
        if not values:
            return None
        if context.argument:
            return context.notation.argument(key, values)
        return context.notation.member(key, choice(value for _, value in values))

    def _values_by_kind(self, schemas: tuple[JSON, ...], context: _WriteContext) -> list[TypedExpression]:
        """Give the values of a place by their kinds, where that matters for how they are written."""
        if context.argument:
            return [
                (kind, self._rules.share(value))
                for kind, value in dict.fromkeys(self._values(node_id(schemas), context))
            ]
        value = self._value(schemas, context)
        return [] if value is None else [("", value)]

    def _members(
        self, pairs: dict[str, Expression], required: list[str], fewest: int, most: int | None, context: _WriteContext
    ) -> Expression | None:
        wanted = self._always_written(list(pairs), required, fewest)
        if wanted is None or (most is not None and most < len(wanted)):
            return None
        spare = len(pairs) if most is None else most - len(wanted)
        kept = [(key, value) for key, value in pairs.items() if key in wanted or (spare := spare - 1) >= 0]
        brackets = context.notation.arguments if context.argument else context.notation.members
        return self._rules.share(brackets.members([(value, key in wanted) for key, value in kept], self._rules))

    def _always_written(self, keys: list[str], required: list[str], fewest: int) -> set[str] | None:
        """Give the keys that are always written: the required ones, and as many more as there must be."""
        wanted = set(required)
        if not wanted.issubset(keys):
            return None
        wanted.update([key for key in keys if key not in wanted][: max(fewest - len(wanted), 0)])
        return wanted if len(wanted) >= fewest else None


def arguments(schema: JSON, rules: Rules, syntax: ValueSyntax = JSON_SYNTAX) -> Expression:
    """Give the arguments of a tool with this schema; where nothing satisfies it, any."""
    if not isinstance(schema, dict) or not schema:
        return LiteralText(syntax.arguments.opening + syntax.arguments.closing)
    found = SchemaValueWriter(schema, rules, syntax).arguments()
    if found is None:
        rules.note("nothing that can be written here satisfies the schema")
        return syntax.free_arguments(rules, syntax.map_value_syntax.any_argument(rules))
    return found


def document(schema: JSON, rules: Rules) -> Expression:
    """Give the JSON that a schema admits; where nothing satisfies it, any."""
    found = SchemaValueWriter(schema, rules, DOCUMENT_SYNTAX).document()
    if found is None:
        rules.note("nothing that can be written here satisfies the schema")
        return DOCUMENT_SYNTAX.any_value(rules)
    return found


def _is_union_of(kind: str, found: Sequence[Keywords]) -> bool:
    """Say whether a value of this kind may be one of several that differ inside."""
    return sum(facets.literals is None and kind in facets.kinds for facets in found) > 1
