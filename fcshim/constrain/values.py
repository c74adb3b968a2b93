"""The values that a JSON Schema admits, as rules of a grammar.

Theory of operation. A schema is looked at as alternatives (`schema.alternatives`), each with its `Facets`. The schemas
that hold at one place become one rule. A place from which one comes back to itself is written a few times, each copy
leading to the one below it; the last one does without what leads on.

Rule: bounded work whatever the schema says; what cannot be expressed is relaxed and noted; what nothing can satisfy, or
not within the bounds, is None.
Neighbours: `strings` and `numbers` write scalars, `calls` asks for the arguments of a tool.
"""

import json
from collections.abc import Iterable, Sequence
from fractions import Fraction

from fcshim.constrain.facets import TELLING, Facets
from fcshim.constrain.grammar import (
    Expression,
    Repeat,
    Rule,
    Text,
    choice,
    one_of_texts,
    optional,
    series,
)
from fcshim.constrain.numbers import INTEGER, NUMBER, integers, numbers
from fcshim.constrain.strings import ANY, FORMATS, QUOTE, WHOLE, plain_string, string_between
from fcshim.events import JSON
from fcshim.schema.alternatives import Alternative, Expansion

_MOST_PLACES = 20_000
"""Places of all schemas together that become rules; the largest real sets of tools have some 5,000."""
_MOST_WORK = 100_000
"""Steps of looking for alternatives in all schemas together, 0.1 s; where references multiply there is no end."""
_LARGE_UNION = 1_000
_MOST_MEMBERS = 512
_MOST_ITEMS = 1_000
"""Elements that a schema may demand, or give a schema each."""
_MOST_KEY = 64
"""Characters of a key that the schema leaves free."""
_DEEPEST = 64
"""Values inside one another: as deep as arguments are read."""
_ROUNDS = 4
"""Steps from one place to the next on a way that leads back to itself."""

COMMA = series(Text(","), optional(Text(" ")))
COLON = series(Text(":"), optional(Text(" ")))

_OBJECT: dict[str, JSON] = {"type": "object"}

Place = tuple[int, ...]
"""The ids of the schemas that hold at once; the root that they lie in keeps them alive."""


class Rules:
    """The rules of one grammar, while it is made."""

    def __init__(self) -> None:
        self.rules: dict[str, Expression] = {}
        self.notes: dict[str, None] = {}
        self.room = _MOST_PLACES
        self.work = _MOST_WORK
        self._names: dict[Expression, Rule] = {}

    def share(self, expression: Expression, name: str = "") -> Expression:
        """Make a rule of an expression that may stand at several places, unless it is short."""
        if isinstance(expression, Rule | Text):
            return expression
        if expression not in self._names:
            rule = Rule(name or f"r{len(self.rules)}")
            self.rules[rule.name] = expression
            self._names[expression] = rule
        return self._names[expression]

    def note(self, text: str) -> None:
        """Tell what is not held to."""
        self.notes[text] = None

    def string(self) -> Expression:
        """Give the rule of any string."""
        return self.share(plain_string(self.share(ANY, "char")), "string")

    def anything(self, depth: int = 2) -> Expression:
        """Give the rule of any value, containers inside one another up to a depth."""
        scalars = [self.string(), NUMBER, Text("true"), Text("false"), Text("null")]
        if not depth:
            return self.share(choice(scalars), "any0")
        inner = self.anything(depth - 1)
        return self.share(choice([*scalars, _listed("[", inner, "]", 0, None), self.map_of(inner)]), f"any{depth}")

    def map_of(self, value: Expression, least: int = 0, most: int | None = None) -> Expression:
        """Give an object whose keys are free."""
        key = self.share(series(QUOTE, Repeat(self.share(WHOLE, "whole"), 1, _MOST_KEY, "characters"), QUOTE), "key")
        return _listed("{", series(key, COLON, value), "}", least, most)


class Schema:
    """Writes the values of one schema, its root, into `rules`."""

    def __init__(self, root: JSON, rules: Rules) -> None:
        self._root = root
        self._rules = rules
        self._expansion = Expansion(root, TELLING, ())
        self._places: dict[Place, list[Facets] | None] = {}
        self._ways: dict[Place, set[Place]] = {}
        self._returning: frozenset[Place] = frozenset()
        self._made: dict[tuple[Place, int], Expression | None] = {}

    def objects(self) -> Expression | None:
        """Give the objects that the root admits."""
        start = (self._root, _OBJECT)
        self._explore(start)
        if self._places[_place(start)] is None:
            return self._rules.map_of(self._rules.anything())
        self._returning = _leading_back(self._ways)
        return self._value(start, _ROUNDS, 0)

    # Finding places.

    def _explore(self, start: tuple[JSON, ...]) -> None:
        waiting = [start]
        while waiting:
            schemas = waiting.pop()
            place = _place(schemas)
            if place in self._places:
                continue
            found = self._facets(schemas)
            self._places[place] = found
            inner = [each for facets in found or () for each in _inner(facets)]
            self._ways[place] = set(map(_place, inner))
            waiting += inner

    def _facets(self, schemas: tuple[JSON, ...]) -> list[Facets] | None:
        """Give the alternatives; None where that is anything."""
        self._rules.room -= 1
        if self._rules.room < 0 or self._rules.work < 0:
            self._rules.note("the schemas are too large to hold to all of them")
            return None
        distinct = tuple({id(schema): schema for schema in schemas if schema is not True}.values())
        before = self._expansion.work
        found = self._expansion.alternatives(distinct)
        spent = self._expansion.work - before
        self._rules.work -= spent
        if found is None:
            if spent > _LARGE_UNION:
                self._rules.note("a union is too large to hold to")
            return None
        return [self._noted(Facets(alternative)) for alternative in _different(found)]

    def _noted(self, facets: Facets) -> Facets:
        for keyword in facets.relaxed:
            self._rules.note(f"{keyword} is not held to")
        return facets

    # Writing them.

    def _value(self, schemas: tuple[JSON, ...], rounds: int, depth: int) -> Expression | None:
        place = _place(schemas)
        if (place, rounds) not in self._made:
            self._made[place, rounds] = self._written(place, rounds, depth)
        return self._made[place, rounds]

    def _inside(self, outer: Place, schemas: tuple[JSON, ...], rounds: int, depth: int) -> Expression | None:
        """Give a value inside another one."""
        here = _place(schemas)
        if outer in self._returning and here in self._returning:
            return self._value(schemas, rounds - 1, depth + 1) if rounds else None
        return self._value(schemas, _ROUNDS, depth + 1)

    def _written(self, place: Place, rounds: int, depth: int) -> Expression | None:
        found = self._places[place]
        if found is None or depth > _DEEPEST:
            return self._rules.anything()
        options = [option for facets in found for option in self._options(place, facets, rounds, depth)]
        return self._rules.share(choice(dict.fromkeys(options))) if options else None

    def _options(self, place: Place, facets: Facets, rounds: int, depth: int) -> Iterable[Expression]:
        literals = facets.literals
        if literals is not None:
            texts = [json.dumps(value, ensure_ascii=False) for value in literals]
            return [one_of_texts([(text, Text("")) for text in dict.fromkeys(texts)])] if texts else []
        kinds = facets.kinds - ({"integer"} if "number" in facets.kinds else set())
        options: list[Expression | None] = []
        for kind in sorted(kinds):
            match kind:
                case "string":
                    options.append(self._string(facets))
                case "integer" | "number":
                    options.append(self._number(facets, whole=kind == "integer"))
                case "boolean":
                    options += [Text("true"), Text("false")]
                case "null":
                    options.append(Text("null"))
                case "array":
                    options.append(self._array(place, facets, rounds, depth))
                case _:
                    options.append(self._object(place, facets, rounds, depth))
        return [option for option in options if option is not None]

    def _string(self, facets: Facets) -> Expression | None:
        least, most = facets.least("minLength"), facets.most("maxLength")
        form = FORMATS.get(facets.string_format())
        if form is not None and not least and most is None:
            return self._rules.share(form, facets.string_format())
        if facets.string_format():
            self._rules.note(f"format {facets.string_format()!r:.40} is not held to")
        if not least and most is None:
            return self._rules.string()
        return string_between(self._rules.share(WHOLE, "whole"), least, most)

    def _number(self, facets: Facets, *, whole: bool) -> Expression | None:
        low, high = facets.bounds(whole=whole)
        step = facets.step()
        if step is not None and step != 1:
            stepped = _multiples(step, low, high)
            if stepped is not None:
                return stepped
            self._rules.note("multipleOf is not held to")
        found = integers(low, high) if whole or step == 1 else numbers(low, high)
        return found if found not in (INTEGER, NUMBER) else self._rules.share(found, "integer" if whole else "number")

    def _array(self, place: Place, facets: Facets, rounds: int, depth: int) -> Expression | None:
        least, most = facets.least("minItems"), facets.most("maxItems")
        if least > _MOST_ITEMS:
            self._rules.note(f"minItems {least} is not held to")
            least = 0
        first, rest = facets.elements()
        if facets.is_unique():
            self._rules.note("uniqueItems is not held to")
        fixed: list[Expression] = []
        for schemas in first[: _MOST_ITEMS if most is None else most]:
            element = self._inside(place, schemas, rounds, depth)
            if element is None:
                return _ended(fixed, least, self._rules)
            fixed.append(element)
        further = None if rest is None else self._inside(place, rest, rounds, depth)
        if further is None or (most is not None and most <= len(fixed)):
            return _ended(fixed, least, self._rules)
        if not fixed:
            return None if most is not None and most < least else _listed("[", further, "]", least, most)
        return _tuple_of(fixed, further, least, most, self._rules)

    def _object(self, place: Place, facets: Facets, rounds: int, depth: int) -> Expression | None:
        required, fewest, most = facets.required(), facets.least("minProperties"), facets.most("maxProperties")
        members = facets.members()
        others = facets.others()
        if any(key not in members for key in required) or len(members) > _MOST_MEMBERS:
            return None if len(members) <= _MOST_MEMBERS else self._rules.map_of(self._rules.anything())
        if not members and others is not None:
            value = self._inside(place, others, rounds, depth)
            if value is not None and most != 0:
                return self._rules.map_of(value, fewest, most)
        written = {key: self._inside(place, schemas, rounds, depth) for key, schemas in members.items()}
        pairs = [(key, value) for key, value in written.items() if value is not None]
        wanted = self._wanted([key for key, _ in pairs], required, fewest)
        if wanted is None or (most is not None and most < len(wanted)):
            return None
        spare = len(pairs) if most is None else most - len(wanted)
        kept = [(key, value) for key, value in pairs if key in wanted or (spare := spare - 1) >= 0]
        return self._rules.share(_object_of([(_pair(key, value), key in wanted) for key, value in kept], self._rules))

    def _wanted(self, keys: list[str], required: list[str], fewest: int) -> set[str] | None:
        """Give the keys that are always written: the required ones, and as many more as there must be."""
        wanted = set(required)
        if not wanted.issubset(keys):
            return None
        wanted.update([key for key in keys if key not in wanted][: max(fewest - len(wanted), 0)])
        return wanted if len(wanted) >= fewest else None


def arguments(schema: JSON, rules: Rules) -> Expression:
    """Give the arguments of a tool with this schema; where nothing satisfies it, any object."""
    if not isinstance(schema, dict) or not schema:
        return Text("{}")
    found = Schema(schema, rules).objects()
    if found is None:
        rules.note("nothing that can be written here satisfies the schema")
        return rules.map_of(rules.anything())
    return found


def _place(schemas: tuple[JSON, ...]) -> Place:
    return tuple(dict.fromkeys(id(schema) for schema in schemas if schema is not True))


def _inner(facets: Facets) -> list[tuple[JSON, ...]]:
    """Give what may stand inside: the schemas of members and elements."""
    if facets.values is not None:
        return []
    inner: list[tuple[JSON, ...]] = []
    if "object" in facets.kinds:
        inner += list(facets.members().values())[: _MOST_MEMBERS + 1]
        others = facets.others()
        inner += [] if others is None else [others]
    if "array" in facets.kinds:
        first, rest = facets.elements()
        inner += first[:_MOST_ITEMS]
        inner += [] if rest is None else [rest]
    return inner


def _different(found: list[Alternative]) -> list[Alternative]:
    return list({tuple(map(id, alternative)): alternative for alternative in found}.values())


def _leading_back(ways: dict[Place, set[Place]]) -> frozenset[Place]:
    """Give the places from which one comes back: what is left when ends, then beginnings, are taken away in turn."""
    left = _peeled(ways)
    back: dict[Place, set[Place]] = {place: set() for place in left}
    for place in left:
        for inner in ways[place] & left:
            back[inner].add(place)
    return frozenset(_peeled(back))


def _peeled(ways: dict[Place, set[Place]]) -> set[Place]:
    """Take away, again and again, what leads nowhere."""
    onward = {place: len(inner) for place, inner in ways.items()}
    into: dict[Place, list[Place]] = {}
    for place, inner in ways.items():
        for other in inner:
            into.setdefault(other, []).append(place)
    ends = [place for place, count in onward.items() if not count]
    left = set(ways)
    while ends:
        end = ends.pop()
        left.discard(end)
        for place in into.get(end, ()):
            onward[place] -= 1
            if not onward[place]:
                ends.append(place)
    return left


def _multiples(step: Fraction, low: Fraction | None, high: Fraction | None) -> Expression | None:
    """Admit the multiples of a step, where they are few, or those of a power of ten."""
    if low is not None and high is not None and (high - low) / step <= 256:
        first, last = -(-low // step), high // step
        texts = [_decimal(step * at) for at in range(int(first), int(last) + 1)]
        return one_of_texts([(text, Text("")) for text in texts]) if texts and all(texts) else None
    size = step.numerator
    if low is None and high is None and step.denominator == 1 and str(size).strip("0") == "1":
        return choice([Text("0"), series(INTEGER, Text("0" * (len(str(size)) - 1)))]) if size > 1 else None
    return None


def _decimal(number: Fraction) -> str:
    """Write a number with at most six places; nothing where it has more."""
    scaled = number * 10**6
    if scaled.denominator != 1:
        return ""
    text = f"{abs(scaled.numerator):07}"
    fraction = text[-6:].rstrip("0")
    sign = "-" if number < 0 else ""
    return sign + text[:-6] + ("." + fraction if fraction else "")


def _pair(key: str, value: Expression) -> Expression:
    return series(Text(json.dumps(key, ensure_ascii=False)), COLON, value)


def _object_of(members: Sequence[tuple[Expression, bool]], rules: Rules) -> Expression:
    """Give an object of members in this order, each with whether it must be there."""
    first = next((at for at, (_, wanted) in enumerate(members) if wanted), None)
    if first is None:
        return _object_of_some([member for member, _ in members], rules)
    before = [optional(series(member, COMMA)) for member, _ in members[:first]]
    after = [
        series(COMMA, member) if wanted else optional(series(COMMA, member)) for member, wanted in members[first + 1 :]
    ]
    return series(Text("{"), *before, members[first][0], *after, Text("}"))


def _object_of_some(members: Sequence[Expression], rules: Rules) -> Expression:
    """Give an object of any of the members.

    Read from the end: what may follow a member that was written, and what may be written where none was yet.
    """
    behind: Expression = Text("}")
    empty: Expression = Text("}")
    for member in reversed(members):
        empty = rules.share(choice([series(member, behind), empty]))
        behind = rules.share(series(optional(series(COMMA, member)), behind))
    return series(Text("{"), empty)


def _listed(opens: str, part: Expression, closes: str, least: int, most: int | None) -> Expression:
    """Give parts with commas between them."""
    if most is not None and most <= 0:
        return Text(opens + closes)
    more = Repeat(series(COMMA, part), max(least - 1, 0), None if most is None else most - 1, "items")
    inner = series(part, more)
    return series(Text(opens), inner if least else optional(inner), Text(closes))


def _ended(elements: Sequence[Expression], least: int, rules: Rules) -> Expression | None:
    """Give an array of some of these and no more, from the first on."""
    if least > len(elements):
        return None
    return series(Text("["), _followed(elements, Text(""), least, rules), Text("]"))


def _tuple_of(
    fixed: Sequence[Expression], further: Expression, least: int, most: int | None, rules: Rules
) -> Expression:
    """Give an array of these, and then of more."""
    count = len(fixed)
    more = Repeat(series(COMMA, further), max(least - count, 0), None if most is None else most - count, "items")
    return series(Text("["), _followed(fixed, more, least, rules), Text("]"))


def _followed(elements: Sequence[Expression], tail: Expression, least: int, rules: Rules) -> Expression:
    """Give elements, each only where those before it are, and the tail behind all of them."""
    for at in range(len(elements) - 1, -1, -1):
        tail = series(*([COMMA] if at else []), elements[at], tail)
        tail = rules.share(tail if at < least else optional(tail))
    return tail
