"""Evaluate a JSON Schema (draft 2020-12) on a value, within a number of steps.

An implementation of our own, because the evaluation of a hostile schema must be able to stop: jsonschema takes 10 us a
keyword, runs patterns, compares the elements of `uniqueItems` pairwise and prints the whole value into every error.

Rule: an unusable keyword constrains nothing; `pattern` and `patternProperties` are not evaluated, because a client's
regular expression can backtrack catastrophically, and Python cannot interrupt a match.
"""

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from functools import partial
from typing import TypeAlias

from fcshim.events import JSON
from fcshim.schema.alternatives import resolve_reference
from fcshim.schema.applicators import APPLICATORS
from fcshim.schema.excerpt import excerpt
from fcshim.schema.limits import StepLimit, StepLimitError
from fcshim.schema.scalar_keywords import SCALAR_KEYWORDS, ScalarCheck, scalar_message
from fcshim.schema.violation import Place, SchemaPath, Violation

_MAX_DEPTH = 200
"""Nesting of schemas on one value and the values around it: three for each of the 64 levels that arguments may have.
Each takes three or four frames of the interpreter, which allows a thousand."""
_MAX_HOPS = 8
"""References followed to find the values that a branch of a union lists."""


class UnusableSchemaError(Exception):
    """The schema refers to itself without consuming any of the value."""


_Check: TypeAlias = Callable[[Place], Iterator[Violation]]
_ScalarKeyword: TypeAlias = tuple[str, ScalarCheck, JSON]
_CompiledSchema: TypeAlias = tuple[list[_ScalarKeyword], list[_Check]]


class Evaluator:
    """Evaluates the schemas inside one root schema; raises `StepLimitError` and `UnusableSchemaError`.

    The keywords are functions (`scalar_keywords`, `applicators`); those that apply schemas call it again.
    """

    def __init__(self, root: JSON, steps: StepLimit) -> None:
        self._root = root
        self.steps = steps
        self.identity = ValueIdentity(steps)
        self._compiled: dict[int, _CompiledSchema] = {}
        self._enums: dict[int, frozenset[Hashable]] = {}
        self._unions: dict[int, UnionIndex] = {}
        self._targets: dict[str, JSON] = {}
        self._active: set[tuple[int, int]] = set()
        """References that are being followed, each with the value it is followed for."""
        self._depth = 0

    def violations(self, schema: JSON, value: JSON, path: SchemaPath = ()) -> Iterator[Violation]:
        """Yield the violations of a value, in the order of the keywords."""
        self.steps.spend(2)
        if schema is False:
            yield Violation(path, "false", {}, value, lambda: f"False schema does not allow {excerpt(value)}")
        if not isinstance(schema, dict):
            return
        scalar_checks, checks = self._compile(schema)
        self.steps.spend(len(scalar_checks) + 2 * len(checks))
        for keyword, check, operand in scalar_checks:
            reason = check(operand, value)
            if reason is not None:
                yield Violation(path, keyword, schema, value, partial(scalar_message, value, reason))
        if checks:
            yield from self._apply(checks, Place(schema, value, path))

    def _apply(self, checks: list[_Check], place: Place) -> Iterator[Violation]:
        self.enter()
        try:
            for check in checks:
                yield from check(place)
        finally:
            self.leave()

    def enter(self) -> None:
        """Count a level of nesting. Raises `StepLimitError` for one too many."""
        if self._depth == _MAX_DEPTH:
            raise StepLimitError
        self._depth += 1

    def leave(self) -> None:
        """End a level of nesting."""
        self._depth -= 1

    def is_valid(self, schema: JSON, value: JSON) -> bool:
        """Return whether the schema admits the value."""
        for _ in self.violations(schema, value):
            return False
        return True

    def _compile(self, schema: dict[str, JSON]) -> _CompiledSchema:
        found = self._compiled.get(id(schema))
        if found is None:
            self.steps.spend(len(schema))
            found = self._compiled[id(schema)] = ([], [])
            for keyword, operand in schema.items():
                self._compile_keyword(keyword, operand, *found)
        return found

    def _compile_keyword(
        self, keyword: str, operand: JSON, scalar_checks: list[_ScalarKeyword], checks: list[_Check]
    ) -> None:
        scalar = SCALAR_KEYWORDS.get(keyword)
        applicator = APPLICATORS.get(keyword)
        if scalar is not None:
            if scalar[0](operand):
                scalar_checks.append((keyword, scalar[1], operand))
        elif applicator is not None and isinstance(operand, applicator[0]):
            checks.append(partial(applicator[1], self, operand))

    def lists(self, values: list[JSON], value: JSON) -> bool:
        """Return whether a value is one of the `values` in the schema."""
        listed = self._enums.get(id(values))
        if listed is None:
            listed = self._enums[id(values)] = frozenset(self.identity.keys(values))
        return self.identity.key(value) in listed

    def candidates(self, branches: list[JSON], value: JSON) -> Iterable[JSON]:
        """Return the branches of a union that may admit a value."""
        self.steps.spend(4)
        index = self._unions.get(id(branches))
        if index is None:
            self.steps.spend(2 * len(branches))
            index = self._unions[id(branches)] = UnionIndex(branches, self._resolve_branch, self.identity)
        return index.candidates(value)

    def _resolve_branch(self, schema: JSON) -> JSON:
        """Follow the references of a branch to where it lists values or properties."""
        for _ in range(_MAX_HOPS):
            if not isinstance(schema, dict) or not schema.keys().isdisjoint({"const", "enum", "properties"}):
                break
            if not isinstance(schema.get("$ref"), str):
                break
            schema = self.target(schema["$ref"])
        return schema

    def follow(self, reference: str, place: Place) -> Iterator[Violation]:
        """Yield the violations of the schema that a reference names. Raises `UnusableSchemaError` for a circle."""
        self.steps.spend(4)
        target = self.target(reference)
        key = (id(target), id(place.value))
        if key in self._active:
            raise UnusableSchemaError
        self._active.add(key)
        try:
            yield from self.violations(target, place.value, place.path)
        finally:
            self._active.discard(key)

    def target(self, reference: str) -> JSON:
        """Return the schema that a reference names."""
        if reference not in self._targets:
            self.steps.spend(1 + reference.count("/"))
            self._targets[reference] = resolve_reference(self._root, reference)
        return self._targets[reference]


class ValueIdentity:
    """Equal keys for equal JSON values, as long as the values live, so that a set can search lists of values.

    Equal is what JSON Schema says (1 equals 1.0, true does not equal 1); linear in the size of the values.
    """

    def __init__(self, steps: StepLimit) -> None:
        self._steps = steps
        self._numbers: dict[tuple[Hashable, ...], int] = {}
        self._containers: dict[int, Hashable] = {}

    def key(self, value: JSON) -> Hashable:
        """Return the key of a value: scalars are their own, but booleans equal numbers in Python."""
        if isinstance(value, bool):
            return ("boolean", value)
        return self._container_key(value) if isinstance(value, dict | list) else value

    def keys(self, values: list[JSON]) -> Iterable[Hashable]:
        """Return the keys of several values. Raises `StepLimitError`."""
        self._steps.spend(len(values))
        return [value if type(value) is str else self.key(value) for value in values]

    def _container_key(self, value: JSON) -> Hashable:
        found = self._containers.get(id(value))
        if found is None:
            self._steps.spend(4)
            if isinstance(value, list):
                content = ("array", *self.keys(value))
            else:
                names = sorted(value)
                content = ("object", *names, *self.keys([value[name] for name in names]))
            # A number, because the hash of a nested tuple is computed each time.
            found = ("container", self._numbers.setdefault(content, len(self._numbers)))
            self._containers[id(value)] = found
        return found


ResolveSchema = Callable[[JSON], JSON]
"""Follows the `$ref` of a schema that is nothing but a reference."""


class UnionIndex:
    """Finds the branches of one `anyOf` or `oneOf` that may admit a value, by its value or a discriminating member.

    A branch that is left out does not admit the value; so a union of a thousand branches costs a lookup.
    """

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
    properties = branches[0].get("properties") if isinstance(branches[0], dict) else None
    if not isinstance(properties, dict):
        return None
    listing = [name for name, schema in properties.items() if listed_values(schema) is not None][:_MAX_NAMES]
    return next((name for name in listing if all(_discriminates(branch, name) for branch in branches)), None)


_MAX_NAMES = 8
"""Members of the first branch that are tried: discriminators come first, and each try visits every branch."""


def _discriminates(branch: JSON, name: str) -> bool:
    if not isinstance(branch, dict):
        return False
    properties, required = branch.get("properties"), branch.get("required")
    if not isinstance(properties, dict) or not isinstance(required, list):
        return False
    return name in required and listed_values(properties.get(name)) is not None
