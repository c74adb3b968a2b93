"""Where in a schema what holds: every place once, and from which places one comes back to them.

Rule: bounded work, over all schemas of a grammar; a place beyond it admits anything.
Neighbours: `schema.alternatives` finds alternatives, `facets` reads them, `values` writes what is admitted.
"""

import itertools

from fcshim.constrain.facets import RELAXED, TELLING, Facets, relaxed
from fcshim.constrain.rules import Rules
from fcshim.events import JSON
from fcshim.schema.alternatives import Alternative, Expansion

MOST_MEMBERS = 512
MOST_ITEMS = 1_000
"""Elements that a schema may demand, or give a schema each."""

Place = tuple[int, ...]
"""The ids of the schemas that hold at once; the root that they lie in keeps them alive."""


class Places:
    """The places of one schema, its `root`."""

    def __init__(self, root: JSON, rules: Rules) -> None:
        self._rules = rules
        self._expansion = Expansion(root, TELLING, RELAXED)
        self._found: dict[Place, list[Facets] | None] = {}
        self._ways: dict[Place, set[Place]] = {}
        self._returning: frozenset[Place] = frozenset()

    def facets(self, place: Place) -> list[Facets] | None:
        """Give the alternatives of a place; None where it admits anything."""
        return self._found[place]

    def returns(self, outer: Place, inner: Place) -> bool:
        """Say whether the step from one place to the other may be taken again and again."""
        return outer in self._returning and inner in self._returning

    def explore(self, start: tuple[JSON, ...]) -> None:
        """Find every place that one comes to from where `start` holds."""
        waiting = [start]
        while waiting:
            schemas = waiting.pop()
            place = place_of(schemas)
            if place in self._found:
                continue
            found = self._found[place] = self._look(schemas)
            inner = [each for facets in found or () for each in _inner(facets)]
            self._ways[place] = set(map(place_of, inner))
            waiting += inner
        self._returning = _leading_back(self._ways)

    def _look(self, schemas: tuple[JSON, ...]) -> list[Facets] | None:
        self._rules.room -= 1
        if self._rules.room < 0 or self._rules.work < 0:
            self._rules.note("the schemas are too large to hold to all of them")
            return None
        distinct = tuple({id(schema): schema for schema in schemas if schema is not True}.values())
        before = self._expansion.work
        found = self._expansion.alternatives(distinct)
        self._rules.work -= self._expansion.work - before
        void = self._expansion.unresolved
        while void:
            self._rules.note(f"the reference {void.popitem()[0]!r:.80} is not held to")
        if self._expansion.exceeded:
            self._rules.note("unions or references are too large to hold to")
        for part in distinct if found is None else itertools.chain.from_iterable(found):
            self._note_relaxed(part)
        return None if found is None else list(map(Facets, _different(found)))

    def _note_relaxed(self, part: JSON) -> None:
        for keyword in relaxed(part) if isinstance(part, dict) else ():
            self._rules.note(f"{keyword} is not held to")


def place_of(schemas: tuple[JSON, ...]) -> Place:
    """Give the place where these schemas hold at once."""
    return tuple(dict.fromkeys(id(schema) for schema in schemas if schema is not True))


def _inner(facets: Facets) -> list[tuple[JSON, ...]]:
    """Give what may stand inside: the schemas of members and elements."""
    if facets.values is not None:
        return []
    inner: list[tuple[JSON, ...]] = []
    if "object" in facets.kinds:
        inner += list(facets.members.values())[: MOST_MEMBERS + 1]
        others = facets.others
        inner += [] if others is None else [others]
    if "array" in facets.kinds:
        first, rest = facets.elements()
        inner += first[:MOST_ITEMS]
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
