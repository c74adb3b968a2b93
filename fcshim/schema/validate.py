"""Validate a value against a tool's JSON Schema.

Rule: the work is bounded for every schema; no remote reference is fetched; an unusable schema admits everything.
"""

import re
from itertools import chain, islice

import msgspec

from fcshim.events import JSON
from fcshim.schema.evaluate import Evaluator, UnusableSchemaError
from fcshim.schema.limits import StepLimit, StepLimitError
from fcshim.schema.scalar_keywords import is_of_type, names_types, type_names
from fcshim.schema.violation import Violation

MAX_VALIDATION_STEPS = 20_000
"""For one value, at most 20 ms: arguments of some 3,000 values. The event loop of a proxy waits meanwhile."""
_MAX_COMPARED = 64
"""Violations among which the best description is searched; the messages of a hostile schema's others say no more."""
_WEAK_KEYWORDS = frozenset({"anyOf", "oneOf"})
_PLAIN_KEY = re.compile(r"[a-zA-Z][a-zA-Z0-9_]*")


class SchemaViolation(msgspec.Struct, frozen=True):
    """One violation: its path, the keyword and schema that it violates, and the invalid value."""

    path: str
    keyword: str
    expected: JSON
    value: JSON
    schema: dict[str, JSON]
    message: str


def first_violation(schema: JSON, value: JSON, steps: StepLimit | None = None) -> str | None:
    """Return the best description of why `value` is invalid, with its path, or None where it is valid.

    An empty or unusable schema admits everything. `pattern` and `patternProperties` are not checked. Raises
    `StepLimitError` where the check needs more than `steps` (`MAX_VALIDATION_STEPS`).
    """
    found = _Validation(schema, value, steps).find_best()
    return None if found is None else f"{_json_path(found)}: {found.message()}"


def find_violations(
    schema: JSON, value: JSON, limit: int = 20, steps: StepLimit | None = None
) -> list[SchemaViolation]:
    """Return up to `limit` violations, found as in `first_violation`; paths are like `a.b[0]`."""
    return [
        SchemaViolation(
            path=_json_path(each).removeprefix("$").removeprefix("."),
            keyword=each.keyword,
            expected=each.schema.get(each.keyword),
            value=each.value,
            schema=each.schema,
            message=each.message(),
        )
        for each in _Validation(schema, value, steps).find(limit)
    ]


class _Validation:
    """The violations of one value."""

    def __init__(self, schema: JSON, value: JSON, steps: StepLimit | None) -> None:
        self._schema = schema
        self._value = value
        self._evaluator = Evaluator(schema, steps or StepLimit(MAX_VALIDATION_STEPS))

    def find(self, limit: int) -> list[Violation]:
        """Return the first violations; if the search exceeds the step limit, those found so far."""
        found: list[Violation] = []
        try:
            for each in islice(self._evaluator.violations(self._schema, self._value), limit):
                found.append(each)  # noqa: PERF402 # what was found must survive an error
        except UnusableSchemaError:
            return []
        except (StepLimitError, RecursionError):
            if not found:
                raise StepLimitError from None
        return found

    def find_best(self) -> Violation | None:
        """Return the most helpful violation: the outermost one, but the innermost one among a union's branches."""
        best = max(self.find(_MAX_COMPARED), key=_relevance, default=None)
        while best is not None and best.branches:
            inner = sorted(self._find_in_branches(best), key=_relevance)
            if not inner or (len(inner) > 1 and _relevance(inner[0]) == _relevance(inner[1])):
                break
            best = inner[0]
        return best

    def _find_in_branches(self, union: Violation) -> list[Violation]:
        found = (self._evaluator.violations(branch, union.value, union.path) for branch in union.branches)
        try:
            return list(islice(chain.from_iterable(found), _MAX_COMPARED))
        except (StepLimitError, UnusableSchemaError, RecursionError):
            return []


def _relevance(violation: Violation) -> tuple[JSON, ...]:
    """Return the key by which jsonschema's `best_match` compares errors."""
    types = violation.schema.get("type")
    matches_type = names_types(types) and any(is_of_type(violation.value, name) for name in type_names(types))
    # Two paths first differ inside one value, so a key is never compared with an index.
    return (-len(violation.path), violation.path, violation.keyword not in _WEAK_KEYWORDS, not matches_type)


def _json_path(violation: Violation) -> str:
    """Return the path as in jsonschema: `$.a[0]`, and `$['not a name']`."""
    return "$" + "".join(map(_path_step, violation.path))


def _path_step(step: str | int) -> str:
    if isinstance(step, int):
        return f"[{step}]"
    if _PLAIN_KEY.fullmatch(step):
        return f".{step}"
    return "['" + step.replace("\\", "\\\\").replace("'", "\\'") + "']"
