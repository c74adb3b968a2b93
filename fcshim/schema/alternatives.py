"""Expand a JSON Schema into alternatives without `$ref`, `allOf`, `anyOf` and `oneOf` (a disjunctive normal form).

Rule: the work is bounded; nothing outside the schema is fetched; an unusable part constrains nothing.
"""

import functools
import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import TypeAlias
from urllib.parse import unquote

from fcshim.events import JSON

Alternative: TypeAlias = tuple[dict[str, JSON], ...]
"""A conjunction of schemas; of each, only the keywords in `_RELEVANT_KEYWORDS` count."""

_DISTINGUISHING_KEYWORDS = ("type", "enum", "const", "properties", "additionalProperties", "items", "prefixItems")
"""Keywords that decide what values an alternative admits, so that coercion can choose between alternatives."""
_RELEVANT_KEYWORDS = frozenset({*_DISTINGUISHING_KEYWORDS, "required", "nullable", "patternProperties"})

_CONST_BRANCH_KEYWORDS = frozenset({"const", "type", "title", "description"})

_MAX_WORK = 10_000
"""Limit on schemas visited, alternatives built and enum values counted for one value, about 10 ms.

A hostile schema may double its references at each step, which never ends.
"""
_MAX_ALTERNATIVES = 256
"""Unions under `allOf` multiply. Real schemas stay under 20."""
_MAX_CONJUNCTS = 64
"""Schemas in one conjunction."""
_MAX_DEPTH = 64
"""Nesting of references, `allOf` and unions."""
_UNEVALUATED_KEYWORDS = frozenset({"unevaluatedProperties", "unevaluatedItems"})
_MAX_COMBINED_BRANCHES = 3
"""Branches of an `anyOf` of which each combination becomes an alternative: several may evaluate one value's members."""


class _TooLargeError(Exception):
    """A limit is reached."""


class Expansion:
    """Expands schemas inside one `root` schema.

    `work` counts the steps of all calls of `alternatives`; `exceeded` says whether the last call reached a limit;
    `unresolved` has the references so far that are remote or have no target, or whose base is not the root;
    `exclusive_unions` has the branches, each with its alternatives, of every `oneOf` of the last call; `unconstrained`
    the alternatives that it left out because one of them admits anything.

    An alternative without any of the `distinguishing` keywords admits anything. A schema without these and the `extra`
    keywords is ignored. `close` adds to an alternative of a schema, its first part, what the `unevaluated...` keywords
    of that schema say about the members and elements that no other part names.
    """

    def __init__(
        self,
        root: JSON,
        distinguishing: Iterable[str] = _DISTINGUISHING_KEYWORDS,
        extra: Iterable[str] = _RELEVANT_KEYWORDS,
        close: Callable[[Alternative], Alternative] | None = None,
    ) -> None:
        self.work = 0
        self.exceeded = False
        self.unresolved: dict[str, None] = {}
        self.exclusive_unions: list[list[list[Alternative]]] = []
        self.unconstrained: list[Alternative] = []
        self._root = root
        self._work_limit = 0
        self._distinguishing = frozenset(distinguishing)
        self._relevant = self._distinguishing.union(extra)
        self._close = close
        self._closing = 0
        self._unknown = 0

    def alternatives(self, schemas: tuple[JSON, ...]) -> list[Alternative] | None:
        """Return the alternatives of a conjunction of schemas; None where it admits anything.

        A union with an unconstrained branch admits anything, and so does a schema beyond the limits. An unsatisfiable
        conjunction has no alternatives.
        """
        self._work_limit = self.work + _MAX_WORK
        self.exceeded = False
        self._closing = 0
        self.exclusive_unions, self.unconstrained = [], []
        try:
            found = self._expand_conjunction(schemas, 0)
            enums = [schema.get("enum") for alternative in found for schema in alternative]
            self._spend(sum(len(values) for values in enums if isinstance(values, list)))
        except _TooLargeError:
            self.exceeded = True
            return None
        if all(map(self._is_constraining, found)):
            return found
        self.unconstrained += found
        return None

    def _is_constraining(self, alternative: Alternative) -> bool:
        return any(not self._distinguishing.isdisjoint(schema) for schema in alternative)

    def _spend(self, work: int) -> None:
        self.work += work
        if self.work > self._work_limit:
            raise _TooLargeError

    def _expand_conjunction(self, schemas: tuple[JSON, ...], depth: int) -> list[Alternative]:
        result: list[Alternative] = [()]
        for schema in schemas:
            result = self._product(result, self._expand(schema, depth))
        return result

    def _expand(self, schema: JSON, depth: int) -> list[Alternative]:
        if depth > _MAX_DEPTH:
            raise _TooLargeError
        self._spend(1)
        if schema is False:
            return []
        if not isinstance(schema, dict):
            return [()]
        if _is_embedded_resource(schema, self._root):
            self._note_unresolved(schema["$id"])
            return [()]
        if self._close is None or _UNEVALUATED_KEYWORDS.isdisjoint(schema):
            return self._expand_keywords(schema, depth)
        unknown = self._unknown
        self._closing += 1
        found = self._expand_keywords(schema, depth)
        self._closing -= 1
        return list(map(self._close, found)) if self._unknown == unknown else found

    def _expand_keywords(self, schema: dict[str, JSON], depth: int) -> list[Alternative]:
        own: list[Alternative] = [()] if self._relevant.isdisjoint(schema) else [(schema,)]
        result = self._product(own, self._expand_conjunction(tuple(self._conjuncts(schema)), depth + 1))
        for keyword in ("anyOf", "oneOf"):
            branches = schema.get(keyword)
            if isinstance(branches, list) and branches:
                expanded = [self._expand(branch, depth + 1) for branch in _merge_const_branches(branches)]
                if keyword == "oneOf":
                    self.exclusive_unions.append([[(*own[0], *option) for option in branch] for branch in expanded])
                options = [option for branch in expanded for option in branch]
                if self._closing and keyword == "anyOf":
                    options += self._combined(expanded)
                if self._closing or all(map(self._is_constraining, options)):
                    result = self._product(result, options)
                else:
                    self.unconstrained += options
        return result

    def _combined(self, branches: list[list[Alternative]]) -> Iterator[Alternative]:
        """Yield the alternatives in which a value satisfies several branches."""
        if len(branches) > _MAX_COMBINED_BRANCHES:
            self._unknown += 1
            return
        for count in range(2, len(branches) + 1):
            for first, *others in itertools.combinations(branches, count):
                yield from functools.reduce(self._product, others, first)

    def _note_unresolved(self, reference: str) -> None:
        self._unknown += 1
        self.unresolved[reference] = None

    def _conjuncts(self, schema: dict[str, JSON]) -> Iterator[JSON]:
        reference = schema.get("$ref")
        if isinstance(reference, str):
            found = resolve_reference(self._root, reference)
            if found is True:
                self._note_unresolved(reference)
            yield found
        conjuncts = schema.get("allOf")
        if isinstance(conjuncts, list):
            yield from conjuncts

    def _product(self, left: list[Alternative], right: list[Alternative]) -> list[Alternative]:
        if len(left) * len(right) > _MAX_ALTERNATIVES:
            raise _TooLargeError
        if left == [()]:
            return right
        self._spend(sum(map(len, left)) * len(right) + sum(map(len, right)) * len(left))
        result = [(*one, *other) for one in left for other in right]
        if any(len(parts) > _MAX_CONJUNCTS for parts in result):
            raise _TooLargeError
        return result


def _merge_const_branches(branches: list[JSON]) -> list[JSON]:
    """Merge the branches of a union into one `enum` where each is only a `const`, a common way to write an enum."""
    values: list[JSON] = []
    for branch in branches:
        if not isinstance(branch, dict) or "const" not in branch or not branch.keys() <= _CONST_BRANCH_KEYWORDS:
            return branches
        # A `type` beside the `const` is dropped by the merge, so it must not contradict the value.
        if "type" in branch and not (branch["type"] == "string" and isinstance(branch["const"], str)):
            return branches
        values.append(branch["const"])
    return [{"enum": values}]


def _is_embedded_resource(schema: dict[str, JSON], root: JSON) -> bool:
    """Return whether a subschema has an `$id` of its own (2020-12 core, 8.2.1), so `#` inside it is not the root."""
    name = schema.get("$id")
    return isinstance(name, str) and not name.startswith("#") and schema is not root


def resolve_reference(root: JSON, reference: str) -> JSON:
    """Return the target of a local reference (`#`, `#/a/b`); True, the schema that admits anything, for any other."""
    if reference == "#":
        return root
    if not reference.startswith("#/"):
        return True
    node = root
    for step in unquote(reference[2:]).split("/"):
        if node is True:
            break
        node = _step_into(node, step.replace("~1", "/").replace("~0", "~"), root)
    return node


def _step_into(node: JSON, step: str, root: JSON) -> JSON:
    if isinstance(node, dict):
        return True if _is_embedded_resource(node, root) else node.get(step, True)
    # `isdigit` alone accepts `²`; an index of more digits is beyond the end of any list.
    if isinstance(node, list) and step.isascii() and step.isdigit() and len(step) < 8:
        return node[int(step)] if int(step) < len(node) else True
    return True
