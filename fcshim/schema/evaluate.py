"""Evaluate a JSON Schema (draft 2020-12) on a value, within a number of steps.

An implementation of our own, because the evaluation of a hostile schema must be able to stop: jsonschema takes 10 us a
keyword, runs patterns, compares the elements of `uniqueItems` pairwise and prints the whole value into every error.

Rule: an unusable keyword constrains nothing; `pattern` and `patternProperties` are not evaluated, because a client's
regular expression can backtrack catastrophically, and Python cannot interrupt a match.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator
from functools import partial
from typing import TypeAlias

from fcshim.events import JSON
from fcshim.schema.alternatives import resolve_reference
from fcshim.schema.excerpt import excerpt
from fcshim.schema.limits import StepLimit, StepLimitError
from fcshim.schema.scalar_keywords import SCALAR_KEYWORDS, ScalarCheck, is_count, scalar_message
from fcshim.schema.union_index import UnionIndex
from fcshim.schema.value_identity import ValueIdentity

SchemaPath: TypeAlias = tuple[str | int, ...]
"""Keys and indexes that lead from the whole value to the one that is meant."""

_MAX_DEPTH = 200
"""Nesting of schemas on one value and the values around it: three for each of the 64 levels that arguments may have.
Each takes three or four frames of the interpreter, which allows a thousand."""
_MAX_HOPS = 8
"""References followed to find the values that a branch of a union lists."""
_NO_BRANCH = "is not valid under any of the given schemas"


class UnusableSchemaError(Exception):
    """The schema refers to itself without consuming any of the value."""


class Violation:
    """A violation: where, of which keyword, and for a union its branches, whose own violations say more."""

    __slots__ = ("branches", "keyword", "message", "path", "schema", "value")

    def __init__(
        self,
        path: SchemaPath,
        keyword: str,
        schema: dict[str, JSON],
        value: JSON,
        message: Callable[[], str],
        branches: list[JSON] | None = None,
    ) -> None:
        self.path = path
        self.keyword = keyword
        self.schema = schema
        self.value = value
        self.message = message
        self.branches = branches or []


class _Place:
    """One value, and the schema that is evaluated on it."""

    __slots__ = ("path", "schema", "value")

    def __init__(self, schema: dict[str, JSON], value: JSON, path: SchemaPath) -> None:
        self.schema = schema
        self.value = value
        self.path = path

    def violation(self, keyword: str, message: Callable[[], str], branches: list[JSON] | None = None) -> Violation:
        return Violation(self.path, keyword, self.schema, self.value, message, branches)


_Check: TypeAlias = Callable[[_Place], Iterator[Violation]]
_ScalarKeyword: TypeAlias = tuple[str, ScalarCheck, JSON]
_CompiledSchema: TypeAlias = tuple[list[_ScalarKeyword], list[_Check]]


class Evaluator:
    """Evaluates the schemas inside one root schema; raises `StepLimitError` and `UnusableSchemaError`."""

    def __init__(self, root: JSON, steps: StepLimit) -> None:
        self._root = root
        self._steps = steps
        self._identity = ValueIdentity(steps)
        self._compiled: dict[int, _CompiledSchema] = {}
        self._enums: dict[int, frozenset[Hashable]] = {}
        self._unions: dict[int, UnionIndex] = {}
        self._targets: dict[str, JSON] = {}
        self._active: set[tuple[int, int]] = set()
        """References that are being followed, each with the value it is followed for."""
        self._depth = 0

    def violations(self, schema: JSON, value: JSON, path: SchemaPath = ()) -> Iterator[Violation]:
        """Yield the violations of a value, in the order of the keywords."""
        self._steps.spend(2)
        if schema is False:
            yield Violation(path, "false", {}, value, lambda: f"False schema does not allow {excerpt(value)}")
        if not isinstance(schema, dict):
            return
        scalar_checks, checks = self._compile(schema)
        self._steps.spend(len(scalar_checks) + 2 * len(checks))
        for keyword, check, operand in scalar_checks:
            reason = check(operand, value)
            if reason is not None:
                yield Violation(path, keyword, schema, value, partial(scalar_message, value, reason))
        if checks:
            yield from self._apply(checks, _Place(schema, value, path))

    def _apply(self, checks: list[_Check], place: _Place) -> Iterator[Violation]:
        self._enter()
        try:
            for check in checks:
                yield from check(place)
        finally:
            self._depth -= 1

    def _enter(self) -> None:
        if self._depth == _MAX_DEPTH:
            raise StepLimitError
        self._depth += 1

    def is_valid(self, schema: JSON, value: JSON) -> bool:
        """Return whether the schema admits the value."""
        for _ in self.violations(schema, value):
            return False
        return True

    def _compile(self, schema: dict[str, JSON]) -> _CompiledSchema:
        found = self._compiled.get(id(schema))
        if found is None:
            self._steps.spend(len(schema))
            found = self._compiled[id(schema)] = ([], [])
            for keyword, operand in schema.items():
                self._compile_keyword(keyword, operand, *found)
        return found

    def _compile_keyword(
        self, keyword: str, operand: JSON, scalar_checks: list[_ScalarKeyword], checks: list[_Check]
    ) -> None:
        scalar = SCALAR_KEYWORDS.get(keyword)
        applicator = _APPLICATORS.get(keyword)
        if scalar is not None:
            if scalar[0](operand):
                scalar_checks.append((keyword, scalar[1], operand))
        elif applicator is not None and isinstance(operand, applicator[0]):
            checks.append(partial(applicator[1], self, operand))

    # Lists of values.

    def check_enum(self, operand: list[JSON], place: _Place) -> Iterator[Violation]:
        """`enum`."""
        allowed = self._enums.get(id(operand))
        if allowed is None:
            allowed = self._enums[id(operand)] = frozenset(self._identity.keys(operand))
        if self._identity.key(place.value) not in allowed:
            yield place.violation("enum", lambda: f"{excerpt(place.value)} is not one of {excerpt(operand)}")

    def check_const(self, operand: JSON, place: _Place) -> Iterator[Violation]:
        """`const`."""
        if self._identity.key(place.value) != self._identity.key(operand):
            yield place.violation("const", lambda: f"{excerpt(operand)} was expected")

    def check_unique(self, operand: bool, place: _Place) -> Iterator[Violation]:  # noqa: FBT001 # it is JSON
        """`uniqueItems`."""
        value = place.value
        if operand and isinstance(value, list) and len(set(self._identity.keys(value))) < len(value):
            yield place.violation("uniqueItems", partial(scalar_message, value, "has non-unique elements"))

    # Objects.

    def check_required(self, operand: list[JSON], place: _Place) -> Iterator[Violation]:
        """`required`."""
        if isinstance(place.value, dict):
            yield from self._missing("required", operand, place, "is a required property")

    def _missing(self, keyword: str, names: list[JSON], place: _Place, reason: str) -> Iterator[Violation]:
        self._steps.spend(len(names))
        for name in names:
            if isinstance(name, str) and name not in place.value:
                yield place.violation(keyword, partial(scalar_message, name, reason))

    def check_properties(self, operand: dict[str, JSON], place: _Place) -> Iterator[Violation]:
        """`properties`."""
        value = place.value
        if not isinstance(value, dict):
            return
        self._steps.spend(min(len(operand), len(value)))
        for key in operand if len(operand) <= len(value) else value:
            if key in operand and key in value:
                yield from self.violations(operand[key], value[key], (*place.path, key))

    def check_additional(self, operand: JSON, place: _Place) -> Iterator[Violation]:
        """`additionalProperties`."""
        extras = self._additional_keys(place)
        if operand is not False:
            for key in extras:
                yield from self.violations(operand, place.value[key], (*place.path, key))
        elif extras:
            message = partial(_unexpected, "Additional properties", sorted(extras))
            yield place.violation("additionalProperties", message)

    def _additional_keys(self, place: _Place) -> list[str]:
        """Return the keys that the schema does not name; none where a pattern may admit them."""
        if not isinstance(place.value, dict) or place.schema.get("patternProperties"):
            return []
        self._steps.spend(len(place.value))
        properties = place.schema.get("properties")
        known = properties if isinstance(properties, dict) else {}
        return [key for key in place.value if key not in known]

    def check_names(self, operand: JSON, place: _Place) -> Iterator[Violation]:
        """`propertyNames`."""
        for key in place.value if isinstance(place.value, dict) else ():
            yield from self.violations(operand, key, place.path)

    def check_dependent_required(self, operand: dict[str, JSON], place: _Place) -> Iterator[Violation]:
        """`dependentRequired`."""
        for key, names in self._dependents(operand, place):
            if isinstance(names, list):
                yield from self._missing("dependentRequired", names, place, f"is a dependency of {excerpt(key)}")

    def check_dependent_schemas(self, operand: dict[str, JSON], place: _Place) -> Iterator[Violation]:
        """`dependentSchemas`."""
        for _, schema in self._dependents(operand, place):
            yield from self.violations(schema, place.value, place.path)

    def _dependents(self, operand: dict[str, JSON], place: _Place) -> list[tuple[str, JSON]]:
        self._steps.spend(len(operand))
        return [each for each in operand.items() if each[0] in place.value] if isinstance(place.value, dict) else []

    # Arrays.

    def check_prefix(self, operand: list[JSON], place: _Place) -> Iterator[Violation]:
        """`prefixItems`."""
        for index, (schema, item) in enumerate(zip(operand, _list(place.value), strict=False)):
            yield from self.violations(schema, item, (*place.path, index))

    def check_items(self, operand: JSON, place: _Place) -> Iterator[Violation]:
        """`items`; a list of schemas up to draft 2019-09."""
        if isinstance(operand, list):
            yield from self.check_prefix(operand, place)
            return
        first, length = len(_list(place.schema.get("prefixItems"))), len(_list(place.value))
        if operand is False and length > first:
            message = f"Expected at most {first} items but found {length - first} extra"
            yield place.violation("items", lambda: message)
            return
        for index in range(first, length):
            yield from self.violations(operand, place.value[index], (*place.path, index))

    def check_contains(self, operand: JSON, place: _Place) -> Iterator[Violation]:
        """`contains`, with `minContains` and `maxContains`."""
        if not isinstance(place.value, list):
            return
        low, high = place.schema.get("minContains", 1), place.schema.get("maxContains")
        matches = sum([self.is_valid(operand, item) for item in place.value])
        if high is not None and is_count(high) and matches > high:
            message = f"contains {matches} items matching the given schema, at most {high} are expected"
            yield place.violation("maxContains", partial(scalar_message, place.value, message))
        elif matches < (low if is_count(low) else 1):
            message = "does not contain items matching the given schema" if not matches else "contains too few of them"
            yield place.violation("contains", partial(scalar_message, place.value, message))

    # Combinations.

    def check_all(self, operand: list[JSON], place: _Place) -> Iterator[Violation]:
        """`allOf`."""
        for schema in operand:
            yield from self.violations(schema, place.value, place.path)

    def check_any(self, operand: list[JSON], place: _Place) -> Iterator[Violation]:
        """`anyOf`."""
        for branch in self._candidates(operand, place.value):
            if self.is_valid(branch, place.value):
                return
        if operand:
            yield place.violation("anyOf", partial(scalar_message, place.value, _NO_BRANCH), operand)

    def check_one(self, operand: list[JSON], place: _Place) -> Iterator[Violation]:
        """`oneOf`."""
        valid = [branch for branch in self._candidates(operand, place.value) if self.is_valid(branch, place.value)]
        if operand and not valid:
            yield place.violation("oneOf", partial(scalar_message, place.value, _NO_BRANCH), operand)
        elif len(valid) > 1:
            yield place.violation("oneOf", lambda: f"{excerpt(place.value)} is valid under each of {excerpt(valid)}")

    def _candidates(self, branches: list[JSON], value: JSON) -> Iterable[JSON]:
        self._steps.spend(4)
        index = self._unions.get(id(branches))
        if index is None:
            self._steps.spend(2 * len(branches))
            index = self._unions[id(branches)] = UnionIndex(branches, self._resolve_branch, self._identity)
        return index.candidates(value)

    def _resolve_branch(self, schema: JSON) -> JSON:
        """Follow the references of a branch to where it lists values or properties."""
        for _ in range(_MAX_HOPS):
            if not isinstance(schema, dict) or not schema.keys().isdisjoint({"const", "enum", "properties"}):
                break
            if not isinstance(schema.get("$ref"), str):
                break
            schema = self._target(schema["$ref"])
        return schema

    def check_not(self, operand: JSON, place: _Place) -> Iterator[Violation]:
        """`not`."""
        if self.is_valid(operand, place.value):
            message = lambda: f"{excerpt(place.value)} should not be valid under {excerpt(operand)}"  # noqa: E731
            yield place.violation("not", message)

    def check_if(self, operand: JSON, place: _Place) -> Iterator[Violation]:
        """`if`, with `then` and `else`."""
        branch = place.schema.get("then" if self.is_valid(operand, place.value) else "else", True)
        yield from self.violations(branch, place.value, place.path)

    def check_reference(self, operand: str, place: _Place) -> Iterator[Violation]:
        """`$ref` inside the root schema."""
        self._steps.spend(4)
        target = self._target(operand)
        key = (id(target), id(place.value))
        if key in self._active:
            raise UnusableSchemaError
        self._active.add(key)
        try:
            yield from self.violations(target, place.value, place.path)
        finally:
            self._active.discard(key)

    def _target(self, reference: str) -> JSON:
        if reference not in self._targets:
            self._steps.spend(1 + reference.count("/"))
            self._targets[reference] = resolve_reference(self._root, reference)
        return self._targets[reference]

    # Members and elements that no other keyword of the same schema evaluates.

    def check_unevaluated_properties(self, operand: JSON, place: _Place) -> Iterator[Violation]:
        """`unevaluatedProperties`."""
        if not isinstance(place.value, dict):
            return
        evaluated = self._evaluated(place.schema, place.value, own=True)
        extras = [key for key in place.value if key not in evaluated and not self.is_valid(operand, place.value[key])]
        if extras:
            message = partial(_unexpected, "Unevaluated properties", sorted(extras))
            yield place.violation("unevaluatedProperties", message)

    def check_unevaluated_items(self, operand: JSON, place: _Place) -> Iterator[Violation]:
        """`unevaluatedItems`."""
        if not isinstance(place.value, list):
            return
        evaluated = self._evaluated(place.schema, place.value, own=True)
        items = enumerate(place.value)
        extras = [item for index, item in items if index not in evaluated and not self.is_valid(operand, item)]
        if extras:
            yield place.violation("unevaluatedItems", partial(_unexpected, "Unevaluated items", extras))

    def _evaluated(self, schema: JSON, value: JSON, *, own: bool = False) -> set[str | int]:
        """Return the keys or indexes that the schema evaluates; `own` disregards its own `unevaluated...` keywords."""
        self._steps.spend(1 + len(value))
        if not isinstance(schema, dict):
            return set()
        self._enter()
        found = _evaluated_members(schema, value) if isinstance(value, dict) else self._evaluated_items(schema, value)
        if not own and not schema.keys().isdisjoint({"unevaluatedProperties", "unevaluatedItems"}):
            found.update(value if isinstance(value, dict) else range(len(value)))
        for inner in self._applied(schema, value):
            found |= self._evaluated(inner, value)
        self._depth -= 1
        return found

    def _evaluated_items(self, schema: dict[str, JSON], value: list[JSON]) -> set[str | int]:
        if "items" in schema and not isinstance(schema["items"], list):
            return set(range(len(value)))
        prefix = _list(schema.get("prefixItems", schema.get("items")))
        found: set[str | int] = set(range(min(len(prefix), len(value))))
        if "contains" in schema:
            found.update(index for index, item in enumerate(value) if self.is_valid(schema["contains"], item))
        return found

    def _applied(self, schema: dict[str, JSON], value: JSON) -> Iterator[JSON]:
        """Yield the schemas that apply to the same value and admit it."""
        if isinstance(schema.get("$ref"), str):
            yield self._target(schema["$ref"])
        for keyword in ("allOf", "anyOf", "oneOf"):
            yield from (each for each in _list(schema.get(keyword)) if self.is_valid(each, value))
        if "if" in schema:
            admitted = self.is_valid(schema["if"], value)
            yield schema["if"] if admitted else True
            yield schema.get("then" if admitted else "else", True)
        dependent = schema.get("dependentSchemas")
        if isinstance(dependent, dict) and isinstance(value, dict):
            yield from (each for key, each in dependent.items() if key in value)


def _evaluated_members(schema: dict[str, JSON], value: dict[str, JSON]) -> set[str | int]:
    if "additionalProperties" in schema or schema.get("patternProperties"):
        return set(value)
    properties = schema.get("properties")
    return {key for key in value if key in properties} if isinstance(properties, dict) else set()


def _unexpected(subject: str, extras: list[JSON]) -> str:
    verb = "was" if len(extras) == 1 else "were"
    return f"{subject} are not allowed ({excerpt(extras)[1:-1]} {verb} unexpected)"


def _list(value: JSON) -> list[JSON]:
    return value if isinstance(value, list) else []


_SCHEMA = (dict, bool)
_APPLICATORS: dict[str, tuple[type | tuple[type, ...], Callable[..., Iterator[Violation]]]] = {
    "$ref": (str, Evaluator.check_reference),
    "enum": (list, Evaluator.check_enum),
    "const": (object, Evaluator.check_const),
    "uniqueItems": (bool, Evaluator.check_unique),
    "required": (list, Evaluator.check_required),
    "properties": (dict, Evaluator.check_properties),
    "additionalProperties": (_SCHEMA, Evaluator.check_additional),
    "propertyNames": (_SCHEMA, Evaluator.check_names),
    "dependentRequired": (dict, Evaluator.check_dependent_required),
    "dependentSchemas": (dict, Evaluator.check_dependent_schemas),
    "prefixItems": (list, Evaluator.check_prefix),
    "items": ((dict, bool, list), Evaluator.check_items),
    "contains": (_SCHEMA, Evaluator.check_contains),
    "allOf": (list, Evaluator.check_all),
    "anyOf": (list, Evaluator.check_any),
    "oneOf": (list, Evaluator.check_one),
    "not": (_SCHEMA, Evaluator.check_not),
    "if": (_SCHEMA, Evaluator.check_if),
    "unevaluatedProperties": (_SCHEMA, Evaluator.check_unevaluated_properties),
    "unevaluatedItems": (_SCHEMA, Evaluator.check_unevaluated_items),
}
"""Of each keyword that applies schemas or compares values: what its operand must be, and its evaluation."""
