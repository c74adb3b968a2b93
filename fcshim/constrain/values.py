"""The values that a JSON Schema admits, as rules of a grammar in a value syntax.

Theory of operation. `SchemaGraph` gives a node for each set of schemas that apply to one value, and its alternatives,
each with its `Keywords`. A node becomes one rule. The grammar has no recursion, so a node on a cycle is written a few
times, each copy referring to the next; the last copy omits the members and elements that continue the cycle.

Rule: the work is bounded for any schema. A keyword that cannot be expressed is ignored and noted; a schema that no
value satisfies, or none within the bounds, gives None.
"""

from collections.abc import Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from fcshim.constrain.conditions import with_unions
from fcshim.constrain.grammar import EMPTY, Expression, LiteralText, Repeat, choice, series
from fcshim.constrain.keywords import KINDS, Contained, Keywords, equality_key
from fcshim.constrain.references import with_pointers
from fcshim.constrain.rules import Rules
from fcshim.constrain.scalars import ScalarWriter
from fcshim.constrain.schema_graph import MAX_ITEMS, MAX_MEMBERS, NodeId, SchemaGraph, node_id
from fcshim.constrain.value_syntax import DOCUMENT_SYNTAX, JSON_SYNTAX, TypedExpression, ValueSyntax
from fcshim.events import JSON

_MAX_DEPTH = 64
"""Nesting of values: the depth up to which the parser reads arguments."""
_MAX_RECURSIONS = 4
"""Edges of a cycle that are followed."""

_MAX_DISTINCT = 5
"""Values of which the elements of a `uniqueItems` are written: each set of them becomes a rule."""

_OBJECT: dict[str, JSON] = {"type": "object"}
_ALL_KINDS = frozenset(KINDS)


class _WriteContext(Struct, frozen=True):
    """How a value is written: its syntax, its position, and whether it is an argument (or the arguments object)."""

    syntax: ValueSyntax
    recursions_left: int = _MAX_RECURSIONS
    depth: int = 0
    argument: bool = False
    in_union: bool = False
    """Whether it is a member of one of several objects: the parser cannot determine which one, nor the member's schema.
    """


class SchemaValueWriter:
    """Writes the values of one schema, its root, into `rules`."""

    def __init__(self, root: JSON, rules: Rules, syntax: ValueSyntax) -> None:
        self._root = root = with_unions(with_pointers(root))
        self._rules = rules
        self._syntax = syntax
        self._graph = SchemaGraph(root, rules)
        self._written: dict[tuple[NodeId, ValueSyntax, int], Expression | None] = {}

    def arguments(self) -> Expression | None:
        """Admit the objects that the root schema admits, as arguments."""
        start = (self._root, _OBJECT)
        self._graph.explore(start)
        node = node_id(start)
        found = self._graph.alternatives(node)
        if found is None:
            return self._syntax.free_arguments(self._rules, self._syntax.map_value_syntax.any_argument(self._rules))
        in_union = _is_union_of("object", found)
        context = _WriteContext(
            self._syntax.union_syntax if in_union else self._syntax, argument=True, in_union=in_union
        )
        options = [option for keywords in found for option in self._root_object(node, keywords, context)]
        written = dict.fromkeys(option for option in options if option is not None)
        return self._rules.share(choice(written)) if written else None

    def document(self) -> Expression | None:
        """Admit every value that the root schema admits."""
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
            pairs = {key: context.syntax.argument(key, written) for key, written in values.items() if written}
            yield self._members(pairs, list(value), 0, None, context)

    # Values of a node.

    def _value(self, schemas: tuple[JSON, ...], context: _WriteContext | None) -> Expression | None:
        if context is None:
            return None
        node = node_id(schemas)
        key = (node, context.syntax, context.recursions_left)
        if key not in self._written:
            written = dict.fromkeys(value for _, value in self._values(node, context))
            self._written[key] = self._rules.share(choice(written)) if written else None
        return self._written[key]

    def _enter(self, outer: NodeId, schemas: tuple[JSON, ...], context: _WriteContext) -> _WriteContext | None:
        """Return the context of a value inside another one; None where that would exceed the recursion bound."""
        context = replace(context, depth=context.depth + 1, argument=False, in_union=False)
        if not self._graph.is_recursive(outer, node_id(schemas)):
            return replace(context, recursions_left=_MAX_RECURSIONS)
        return replace(context, recursions_left=context.recursions_left - 1) if context.recursions_left else None

    def _values(self, node: NodeId, context: _WriteContext) -> list[TypedExpression]:
        found = self._graph.alternatives(node)
        if found is None or context.depth > _MAX_DEPTH:
            if context.argument:
                return context.syntax.any_argument(self._rules)
            return [("string", context.syntax.any_value(self._rules))]
        kinds = _ALL_KINDS if context.in_union else frozenset().union(*(keywords.possible_kinds for keywords in found))
        return [value for keywords in found for value in self._alternative(node, keywords, context, kinds)]

    def _alternative(
        self, node: NodeId, keywords: Keywords, context: _WriteContext, kinds: frozenset[str]
    ) -> Iterator[TypedExpression]:
        if keywords.literals is not None:
            if keywords.patterns():
                self._rules.note("pattern is not enforced")
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
                never_empty = context.syntax.ambiguous_empties and "string" in kinds
                return [
                    self._array(node, keywords, self._enter_container(kind, node, context), minimum=int(never_empty))
                ]
            case _:
                never_empty = context.syntax.ambiguous_empties and not kinds.isdisjoint({"string", "array"})
                return [
                    self._object(node, keywords, self._enter_container(kind, node, context), minimum=int(never_empty))
                ]

    def _scalars(self, context: _WriteContext) -> ScalarWriter:
        return ScalarWriter(context.syntax, self._rules, argument=context.argument)

    def _enter_container(self, kind: str, node: NodeId, context: _WriteContext) -> _WriteContext:
        """Return the context of the members or elements of a container."""
        union = context.in_union or _is_union_of(kind, self._graph.alternatives(node) or [])
        return replace(
            context, syntax=context.syntax.union_syntax if union else context.syntax, argument=False, in_union=False
        )

    # Containers.

    def _bounded_minimum(self, keywords: Keywords, keyword: str) -> int:
        """Return the effective minimum of a count keyword; one that is too large is noted and ignored."""
        minimum = keywords.lower_bound(keyword)
        if minimum <= MAX_ITEMS:
            return minimum
        self._rules.note(f"{keyword} {minimum} is not enforced")
        return 0

    def _array(self, node: NodeId, keywords: Keywords, context: _WriteContext, minimum: int) -> Expression | None:
        minimum, maximum = max(minimum, self._bounded_minimum(keywords, "minItems")), keywords.upper_bound("maxItems")
        if maximum is not None and maximum < minimum:
            return None
        first, rest = keywords.elements()
        if keywords.is_unique():
            distinct = self._distinct(first, rest, context, minimum, maximum)
            if distinct is not None and not keywords.counts_contained():
                return distinct
            self._rules.note("uniqueItems is not enforced")
        contained = keywords.contained()
        if contained is not None and minimum <= contained.least <= MAX_ITEMS and maximum is None:
            return None if rest is None else self._containing(node, keywords, context, contained)
        if keywords.counts_contained():
            self._rules.note("contains is not enforced")
        return self._elements(node, keywords, context, minimum, maximum)

    def _elements(
        self, node: NodeId, keywords: Keywords, context: _WriteContext, minimum: int, maximum: int | None
    ) -> Expression | None:
        first, rest = keywords.elements()
        brackets, fixed = context.syntax.array, list[Expression]()
        for schemas in first[: MAX_ITEMS if maximum is None else maximum]:
            element = self._value(schemas, self._enter(node, schemas, context))
            if element is None:
                return brackets.leading(fixed, minimum, self._rules)
            fixed.append(context.syntax.item(element))
        further = None if rest is None else self._value(rest, self._enter(node, rest, context))
        if further is None or (maximum is not None and maximum <= len(fixed)):
            return brackets.leading(fixed, minimum, self._rules)
        item = context.syntax.item(further)
        if not fixed:
            return brackets.repeated(item, minimum, maximum)
        return brackets.leading_then_repeated(fixed, item, minimum, maximum, self._rules)

    def _distinct(
        self,
        first: list[tuple[JSON, ...]],
        rest: tuple[JSON, ...] | None,
        context: _WriteContext,
        minimum: int,
        maximum: int | None,
    ) -> Expression | None:
        """Admit distinct elements in any order; None where the schema does not list a few values for each of them."""
        listed = [self._listed_values(schemas) for schemas in (*first, *([] if rest is None else [rest]))]
        written: dict[tuple[str, JSON], Expression] = {}
        for value in (each for values in listed for each in values or ()):
            found = list(self._scalars(context).literals([value], frozenset()))
            written |= {equality_key(value): context.syntax.item(text) for _, text in found}
        if None in listed or len(written) > _MAX_DISTINCT:
            return None
        choices = [
            {key: written[key] for key in map(equality_key, values or ()) if key in written} for values in listed
        ]
        further = {} if rest is None else choices.pop()
        return context.syntax.array.distinct(choices, further, minimum, maximum, self._rules)

    def _listed_values(self, schemas: tuple[JSON, ...]) -> list[JSON] | None:
        """Return the values of a node; None where it has others than the schema lists, and booleans."""
        values: list[JSON] = []
        for keywords in self._graph.alternatives(node_id(schemas)) or [Keywords(())]:
            if keywords.literals is None and keywords.kinds != {"boolean"}:
                return None
            values += [False, True] if keywords.literals is None else keywords.literals
        return values

    def _containing(
        self, node: NodeId, keywords: Keywords, context: _WriteContext, contained: Contained
    ) -> Expression | None:
        """Admit arrays with so many elements of one schema among the others."""
        found = self._value(contained.schemas, self._enter(node, contained.schemas, context))
        other = self._value(contained.others, self._enter(node, contained.others, context))
        if contained.most is None and keywords.limits_contained():
            self._rules.note("maxContains is not enforced")
        brackets, least = context.syntax.array, max(contained.least, 1)
        most = least if contained.most is None else contained.most
        without = [] if contained.least or other is None else [brackets.repeated(context.syntax.item(other), 0, None)]
        if found is None or most < least:
            return choice(without) if without else None
        element: Expression = context.syntax.item(found)
        more: Expression = EMPTY
        if other is not None:
            item = context.syntax.item(other)
            element = self._rules.share(series(Repeat(series(item, brackets.separator), 0, None, "items"), element))
            more = Repeat(series(brackets.separator, item), 0, None, "items")
        repeated = Repeat(series(brackets.separator, element), least - 1, most - 1, "items")
        return choice([*without, brackets.wrap(series(element, repeated, more))])

    def _object(self, node: NodeId, keywords: Keywords, context: _WriteContext, minimum: int = 0) -> Expression | None:
        required, maximum = keywords.required, keywords.upper_bound("maxProperties")
        minimum = max(minimum, self._bounded_minimum(keywords, "minProperties"))
        members, others = self._writable_members(keywords, context), keywords.other_members
        required = [key for key in required if key in members or key not in keywords.members]
        if maximum is not None and maximum < minimum:
            return None
        if len(members) > MAX_MEMBERS:
            return self._free_members(context, context.syntax.map_value_syntax.any_argument(self._rules))
        if any(key not in members for key in required):
            return None
        other = None if others is None or maximum == 0 else self._other_member(node, keywords, context)
        is_open = other is not None and bool(keywords.all_names) and minimum == 0
        if not members and others is not None and maximum != 0 and not is_open:
            values = self._free_values(node, others, context)
            if values:
                if keywords.all_names:
                    self._rules.note("names that must be absent are not excluded")
                return self._free_members(context, values, minimum, maximum, _key(keywords, context, self._rules))
        for keyword, _ in keywords.name_schemas if members else ():
            self._rules.note(f"{keyword} is not enforced")
        pairs = {key: self._member(node, key, schemas, context) for key, schemas in members.items()}
        if other is not None:
            self._rules.note("keys that the schema does not name may repeat")
        elif others is not None and maximum != 0:
            self._rules.note("members that the schema does not name are not admitted beside those that it names")
        return self._members(
            {key: pair for key, pair in pairs.items() if pair is not None}, required, minimum, maximum, context, other
        )

    def _other_member(self, node: NodeId, keywords: Keywords, context: _WriteContext) -> Expression | None:
        """Admit a member that the schema does not name; None where its name cannot be told from those that it names."""
        syntax = context.syntax
        key = None
        if keywords.upper_bound("maxProperties") is None and not keywords.relaxes_names:
            key = syntax.other_key(self._rules, keywords.all_names, argument=context.argument)
        values = [] if key is None else self._free_values(node, keywords.other_members or (), context)
        if key is None or not values:
            return None
        return self._rules.share(series(key, syntax.colon, choice(value for _, value in values)))

    def _writable_members(self, keywords: Keywords, context: _WriteContext) -> dict[str, tuple[JSON, ...]]:
        """Return the named members whose names can be written."""
        writable = {
            key: schemas
            for key, schemas in keywords.members.items()
            if context.syntax.can_write_key(key, argument=context.argument)
        }
        for key in [key for key in keywords.members if key not in writable]:
            self._rules.note(f"the name {key!r:.40} cannot be written")
        return writable

    def _free_values(self, node: NodeId, schemas: tuple[JSON, ...], context: _WriteContext) -> list[TypedExpression]:
        """Return the values of members that the schema does not name."""
        inner = self._enter(node, schemas, context)
        if inner is None:
            return []
        syntax = context.syntax.map_value_syntax
        return self._values_by_kind(
            schemas, replace(inner, syntax=syntax, argument=context.argument and syntax is context.syntax)
        )

    def _free_members(
        self,
        context: _WriteContext,
        values: list[TypedExpression],
        minimum: int = 0,
        maximum: int | None = None,
        key: Expression | None = None,
    ) -> Expression:
        if context.argument and key is None:
            return context.syntax.free_arguments(self._rules, values, minimum, maximum)
        return context.syntax.map_of(self._rules, choice(value for _, value in values), minimum, maximum, key)

    def _member(self, node: NodeId, key: str, schemas: tuple[JSON, ...], context: _WriteContext) -> Expression | None:
        inner = self._enter(node, schemas, context)
        values = (
            []
            if inner is None
            else self._values_by_kind(schemas, replace(inner, argument=context.argument, in_union=context.in_union))
        )
        if not values:
            return None
        if context.argument:
            return context.syntax.argument(key, values)
        return context.syntax.member(key, choice(value for _, value in values))

    def _values_by_kind(self, schemas: tuple[JSON, ...], context: _WriteContext) -> list[TypedExpression]:
        """Return the values of a node with their kinds for arguments, whose syntax may depend on the kind."""
        if context.argument:
            return [
                (kind, self._rules.share(value))
                for kind, value in dict.fromkeys(self._values(node_id(schemas), context))
            ]
        value = self._value(schemas, context)
        return [] if value is None else [("", value)]

    def _members(
        self,
        pairs: dict[str, Expression],
        required: list[str],
        minimum: int,
        maximum: int | None,
        context: _WriteContext,
        other: Expression | None = None,
    ) -> Expression | None:
        always_written = _always_written(list(pairs), required, minimum)
        if always_written is None or (maximum is not None and maximum < len(always_written)):
            return None
        optional = [key for key in pairs if key not in always_written]
        kept = always_written.union(optional if maximum is None else optional[: maximum - len(always_written)])
        brackets = context.syntax.arguments if context.argument else context.syntax.members
        written = [(value, key in always_written) for key, value in pairs.items() if key in kept]
        return self._rules.share(brackets.members(written, self._rules, other))


def arguments(schema: JSON, rules: Rules, syntax: ValueSyntax = JSON_SYNTAX) -> Expression:
    """Admit the arguments of a tool with this schema; any arguments if the schema cannot be satisfied."""
    if not isinstance(schema, dict) or not schema:
        return LiteralText(syntax.arguments.opening + syntax.arguments.closing)
    found = SchemaValueWriter(schema, rules, syntax).arguments()
    if found is None:
        rules.note("no value that the grammar can express satisfies the schema")
        return syntax.free_arguments(rules, syntax.map_value_syntax.any_argument(rules))
    return found


def document(schema: JSON, rules: Rules) -> Expression:
    """Admit the JSON documents of a schema; any document if the schema cannot be satisfied."""
    found = SchemaValueWriter(schema, rules, DOCUMENT_SYNTAX).document()
    if found is None:
        rules.note("no value that the grammar can express satisfies the schema")
        return DOCUMENT_SYNTAX.any_value(rules)
    return found


def _is_union_of(kind: str, found: Sequence[Keywords]) -> bool:
    """Return whether several alternatives admit containers of this kind."""
    return sum(each.literals is None and kind in each.kinds for each in found) > 1


def _key(keywords: Keywords, context: _WriteContext, rules: Rules) -> Expression | None:
    """Admit the names that the schema allows but does not list; None where any name is to be admitted."""
    schemas, syntax = keywords.name_schemas, context.syntax
    in_json = syntax.map_value_syntax.has_string_keys and (not context.argument or syntax.arguments is syntax.members)
    key = None
    if schemas and in_json:
        names = Keywords(tuple(schema for _, schema in schemas))
        key = ScalarWriter(syntax.map_value_syntax, rules, argument=False).string(names, frozenset())
    for keyword, _ in schemas if key is None else ():
        rules.note(f"{keyword} is not enforced")
    return key


def _always_written(keys: list[str], required: list[str], minimum: int) -> set[str] | None:
    """Return the keys that are always written: required ones, and more up to `minProperties`; None if too few."""
    always_written = set(required)
    if not always_written.issubset(keys):
        return None
    always_written.update([key for key in keys if key not in always_written][: max(minimum - len(always_written), 0)])
    return always_written if len(always_written) >= minimum else None
