"""The graph of a schema: a node for each set of schemas that apply to one value, an edge to each member or element.

Rule: the work over all schemas of a grammar is bounded; a node beyond the bound admits any value.
"""

import itertools
from collections.abc import Sequence

from fcshim.constrain.keywords import EXPRESSIBLE, RELAXED, Keywords, equality_key, relaxed_keywords
from fcshim.constrain.rules import Rules
from fcshim.constrain.unevaluated import close
from fcshim.events import JSON
from fcshim.schema.alternatives import Alternative, Expansion

_MAX_ALTERNATIVES = 64
"""Alternatives of one union that are compared with each other; beyond it, they count as overlapping."""


def may_overlap(branches: Sequence[Sequence[Alternative]]) -> bool:
    """Return whether a value may satisfy two of the branches of a `oneOf`, each given by its alternatives.

    Only what is certain counts as disjoint: other types, other listed values, another value of a required member.
    """
    if sum(map(len, branches)) > _MAX_ALTERNATIVES:
        return True
    read = [[Keywords(parts) for parts in branch] for branch in branches]
    return any(
        _overlap(one, other) for first, second in itertools.combinations(read, 2) for one in first for other in second
    )


def _overlap(one: Keywords, other: Keywords) -> bool:
    kinds = one.possible_kinds & other.possible_kinds
    if not kinds:
        return False
    if one.values is not None and other.values is not None:
        return _share_values(one.values, other.values)
    if kinds != {"object"}:
        return True
    required = other.required_values
    return all(
        key not in required or _share_values(values, required[key]) for key, values in one.required_values.items()
    )


def _share_values(one: Sequence[JSON], other: Sequence[JSON]) -> bool:
    return not set(map(equality_key, one)).isdisjoint(map(equality_key, other))


MAX_MEMBERS = 512
MAX_ITEMS = 1_000
"""Largest `minItems` and number of `prefixItems` that is enforced."""

NodeId = tuple[int, ...]
"""The Python ids of the schemas that apply together; the root schema keeps the objects alive, so ids stay unique."""


class SchemaGraph:
    """The nodes that are reachable in one root schema."""

    def __init__(self, root: JSON, rules: Rules) -> None:
        self._rules = rules
        self._expansion = Expansion(root, EXPRESSIBLE, RELAXED, close)
        self._alternatives: dict[NodeId, list[Keywords] | None] = {}
        self._edges: dict[NodeId, set[NodeId]] = {}
        self._on_cycles: frozenset[NodeId] = frozenset()

    def alternatives(self, node: NodeId) -> list[Keywords] | None:
        """Return the alternatives of a node; None where it admits any value."""
        return self._alternatives[node]

    def is_recursive(self, outer: NodeId, inner: NodeId) -> bool:
        """Return whether the edge between two nodes may lie on a cycle."""
        return outer in self._on_cycles and inner in self._on_cycles

    def explore(self, start: tuple[JSON, ...]) -> None:
        """Find all nodes that are reachable from the node of `start`."""
        pending = [start]
        while pending:
            schemas = pending.pop()
            node = node_id(schemas)
            if node in self._alternatives:
                continue
            found = self._alternatives[node] = self._expand(schemas)
            children = [each for keywords in found or () for each in _child_schemas(keywords)]
            self._edges[node] = set(map(node_id, children))
            pending += children
        self._on_cycles = _nodes_on_cycles(self._edges)

    def _expand(self, schemas: tuple[JSON, ...]) -> list[Keywords] | None:
        self._rules.nodes_left -= 1
        if self._rules.nodes_left < 0 or self._rules.steps_left < 0:
            self._rules.note("the schemas are too large to enforce completely")
            return None
        distinct = tuple({id(schema): schema for schema in schemas if schema is not True}.values())
        before = self._expansion.work
        found = self._expansion.alternatives(distinct)
        self._rules.steps_left -= self._expansion.work - before
        unresolved = self._expansion.unresolved
        while unresolved:
            self._rules.note(f"the reference {unresolved.popitem()[0]!r:.80} is not enforced")
        if any(may_overlap(branches) for branches in self._expansion.exclusive_unions):
            self._rules.note("oneOf is enforced as anyOf")
        if self._expansion.exceeded:
            self._rules.note("unions or references are too large to enforce")
        for part in itertools.chain(*(found or ()), *self._expansion.unconstrained):
            for keyword in relaxed_keywords(part):
                self._rules.note(f"{keyword} is not enforced")
        return None if found is None else list(map(Keywords, _distinct(found)))


def node_id(schemas: tuple[JSON, ...]) -> NodeId:
    """Return the id of the node where these schemas apply together."""
    return tuple(dict.fromkeys(id(schema) for schema in schemas if schema is not True))


def _child_schemas(keywords: Keywords) -> list[tuple[JSON, ...]]:
    """Return the schemas of each member and element."""
    if keywords.values is not None:
        return []
    children: list[tuple[JSON, ...]] = []
    if "object" in keywords.kinds:
        children += list(keywords.members.values())[: MAX_MEMBERS + 1]
        others = keywords.other_members
        children += [] if others is None else [others]
    if "array" in keywords.kinds:
        first, rest = keywords.elements()
        children += first[:MAX_ITEMS]
        children += [] if rest is None else [rest]
        contained = keywords.contained()
        children += [] if contained is None else [contained.schemas, contained.others]
    return children


def _distinct(found: list[Alternative]) -> list[Alternative]:
    return list({tuple(map(id, alternative)): alternative for alternative in found}.values())


def _nodes_on_cycles(edges: dict[NodeId, set[NodeId]]) -> frozenset[NodeId]:
    """Return the nodes on cycles and between them: those left when sinks, then sources, are removed repeatedly."""
    remaining = _without_dead_ends(edges)
    reversed_edges: dict[NodeId, set[NodeId]] = {node: set() for node in remaining}
    for node in remaining:
        for inner in edges[node] & remaining:
            reversed_edges[inner].add(node)
    return frozenset(_without_dead_ends(reversed_edges))


def _without_dead_ends(edges: dict[NodeId, set[NodeId]]) -> set[NodeId]:
    """Remove nodes without outgoing edges until none is left."""
    out_degrees = {node: len(inner) for node, inner in edges.items()}
    incoming: dict[NodeId, list[NodeId]] = {}
    for node, inner in edges.items():
        for other in inner:
            incoming.setdefault(other, []).append(node)
    ends = [node for node, count in out_degrees.items() if not count]
    remaining = set(edges)
    while ends:
        end = ends.pop()
        remaining.discard(end)
        for node in incoming.get(end, ()):
            out_degrees[node] -= 1
            if not out_degrees[node]:
                ends.append(node)
    return remaining
