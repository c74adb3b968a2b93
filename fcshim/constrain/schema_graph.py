"""Where in a schema what holds: every place once, and from which places one comes back to them.

Rule: bounded work, over all schemas of a grammar; a place beyond it admits anything.
Neighbours: `schema.alternatives` finds alternatives, `facets` reads them, `values` writes what is admitted.
"""

import itertools

from fcshim.constrain.keywords import EXPRESSIBLE, RELAXED, Keywords, relaxed_keywords
from fcshim.constrain.rules import Rules
from fcshim.events import JSON
from fcshim.schema.alternatives import Alternative, Expansion

MOST_MEMBERS = 512
MOST_ITEMS = 1_000
"""Elements that a schema may demand, or give a schema each."""

NodeId = tuple[int, ...]
"""The ids of the schemas that hold at once; the root that they lie in keeps them alive."""


class SchemaGraph:
    """The places of one schema, its `root`."""

    def __init__(self, root: JSON, rules: Rules) -> None:
        self._rules = rules
        self._expansion = Expansion(root, EXPRESSIBLE, RELAXED)
        self._alternatives: dict[NodeId, list[Keywords] | None] = {}
        self._edges: dict[NodeId, set[NodeId]] = {}
        self._on_cycles: frozenset[NodeId] = frozenset()

    def alternatives(self, node: NodeId) -> list[Keywords] | None:
        """Give the alternatives of a place; None where it admits anything."""
        return self._alternatives[node]

    def is_recursive(self, outer: NodeId, inner: NodeId) -> bool:
        """Say whether the step from one place to the other may be taken again and again."""
        return outer in self._on_cycles and inner in self._on_cycles

    def explore(self, start: tuple[JSON, ...]) -> None:
        """Find every place that one comes to from where `start` holds."""
        waiting = [start]
        while waiting:
            schemas = waiting.pop()
            place = node_id(schemas)
            if place in self._alternatives:
                continue
            found = self._alternatives[place] = self._expand(schemas)
            inner = [each for facets in found or () for each in _child_schemas(facets)]
            self._edges[place] = set(map(node_id, inner))
            waiting += inner
        self._on_cycles = _nodes_on_cycles(self._edges)

    def _expand(self, schemas: tuple[JSON, ...]) -> list[Keywords] | None:
        self._rules.nodes_left -= 1
        if self._rules.nodes_left < 0 or self._rules.steps_left < 0:
            self._rules.note("the schemas are too large to hold to all of them")
            return None
        distinct = tuple({id(schema): schema for schema in schemas if schema is not True}.values())
        before = self._expansion.work
        found = self._expansion.alternatives(distinct)
        self._rules.steps_left -= self._expansion.work - before
        void = self._expansion.unresolved
        while void:
            self._rules.note(f"the reference {void.popitem()[0]!r:.80} is not held to")
        if self._expansion.exceeded:
            self._rules.note("unions or references are too large to hold to")
        for part in distinct if found is None else itertools.chain.from_iterable(found):
            self._note_relaxed(part)
        return None if found is None else list(map(Keywords, _distinct(found)))

    def _note_relaxed(self, part: JSON) -> None:
        for keyword in relaxed_keywords(part) if isinstance(part, dict) else ():
            self._rules.note(f"{keyword} is not held to")


def node_id(schemas: tuple[JSON, ...]) -> NodeId:
    """Give the place where these schemas hold at once."""
    return tuple(dict.fromkeys(id(schema) for schema in schemas if schema is not True))


def _child_schemas(keywords: Keywords) -> list[tuple[JSON, ...]]:
    """Give what may stand inside: the schemas of members and elements."""
    if keywords.values is not None:
        return []
    inner: list[tuple[JSON, ...]] = []
    if "object" in keywords.kinds:
        inner += list(keywords.members.values())[: MOST_MEMBERS + 1]
        others = keywords.other_members
        inner += [] if others is None else [others]
    if "array" in keywords.kinds:
        first, rest = keywords.elements()
        inner += first[:MOST_ITEMS]
        inner += [] if rest is None else [rest]
    return inner


def _distinct(found: list[Alternative]) -> list[Alternative]:
    return list({tuple(map(id, alternative)): alternative for alternative in found}.values())


def _nodes_on_cycles(edges: dict[NodeId, set[NodeId]]) -> frozenset[NodeId]:
    """Give the places from which one comes back: what is left when ends, then beginnings, are taken away in turn."""
    left = _without_dead_ends(edges)
    back: dict[NodeId, set[NodeId]] = {place: set() for place in left}
    for place in left:
        for inner in edges[place] & left:
            back[inner].add(place)
    return frozenset(_without_dead_ends(back))


def _without_dead_ends(edges: dict[NodeId, set[NodeId]]) -> set[NodeId]:
    """Take away, again and again, what leads nowhere."""
    onward = {place: len(inner) for place, inner in edges.items()}
    into: dict[NodeId, list[NodeId]] = {}
    for place, inner in edges.items():
        for other in inner:
            into.setdefault(other, []).append(place)
    ends = [place for place, count in onward.items() if not count]
    left = set(edges)
    while ends:
        end = ends.pop()
        left.discard(end)
        for place in into.get(end, ()):
            onward[place] -= 1
            if not onward[place]:
                ends.append(place)
    return left
