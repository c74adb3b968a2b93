"""Cases of the Berkeley Function Calling Leaderboard (BFCL v4), and the verdict that its checker would give.

A folder of BFCL has a file of cases for each category (`BFCL_v4_simple_python.json`) and their answers in
`possible_answer/`. The data are not part of fcshim; the package `bfcl-eval` has them in its folder `data`.
Source of the format and of the checker's rules: https://gorilla.cs.berkeley.edu/leaderboard.html
"""

import hashlib
import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

import msgspec

from fcshim.errors import ConfigError
from fcshim.evaluate.case import Case, ExpectedCall
from fcshim.evaluate.result import ActualCall, Verdict
from fcshim.evaluate.scoring import calls_of
from fcshim.events import JSON
from fcshim.messages import Tool
from fcshim.reply import Reply

CALL_CATEGORIES = ("simple_python", "multiple", "parallel", "parallel_multiple", "live_simple", "live_multiple")
NO_CALL_CATEGORIES = ("irrelevance", "live_irrelevance")
BFCL_CATEGORIES = (*CALL_CATEGORIES, *NO_CALL_CATEGORIES)

_TYPES = {"dict": "object", "float": "number", "tuple": "array", "any": "string"}
"""Names of types in BFCL, and what JSON Schema calls them."""
_PYTHON_TYPES: Mapping[str, type] = {
    "string": str,
    "integer": int,
    "float": float,
    "boolean": bool,
    "array": list,
    "tuple": list,
    "dict": dict,
    "any": str,
}
_OPTIONAL = ""
"""Stands among the accepted values of an argument that may be left out."""
_IGNORED = re.compile(r"[ ,./\-_*^]")
"""Characters that do not count in a string."""


class BfclCase(Case, frozen=True, kw_only=True):
    """A case of BFCL. `line` is the number of its line in the file, from 1; `schemas` are its parameters by tool."""

    line: int
    schemas: dict[str, dict[str, JSON]]


def load_bfcl(folder: Path, category: str) -> list[BfclCase]:
    """Return the cases of a category, in the order of the file. Raises `ConfigError` if it is missing or foreign."""
    name = f"BFCL_v4_{category}.json"
    answers: dict[str, JSON] = {}
    if category not in NO_CALL_CATEGORIES:
        answers = {row["id"]: row["ground_truth"] for row in _rows(folder / "possible_answer" / name)}
    try:
        return [_case(row, category, line, answers) for line, row in enumerate(_rows(folder / name), 1)]
    except (KeyError, TypeError, AttributeError) as error:
        raise ConfigError(f"{folder / name}: not a file of BFCL v4: {error!r}") from error


_load_once = cache(load_bfcl)


def load_bfcl_cases(folder: Path, categories: Sequence[str], limit: int | None = None) -> list[BfclCase]:
    """Return the cases of these categories, at most `limit` of each, in the order of the files.

    Raises `ConfigError`, also for an unknown category.
    """
    for category in categories:
        if category not in BFCL_CATEGORIES:
            raise ConfigError(
                f"BFCL has no category {category!r} of a single turn. Known are {', '.join(BFCL_CATEGORIES)}"
            )
    return [case for category in dict.fromkeys(categories) for case in _load_once(folder, category)[:limit]]


def bfcl_fingerprint(folder: Path) -> str:
    """Return a digest of all cases and answers in the folder, so that results of different versions are not mixed."""
    digest = hashlib.sha256()
    for category in BFCL_CATEGORIES:
        for path in (folder / (name := f"BFCL_v4_{category}.json"), folder / "possible_answer" / name):
            digest.update(path.read_bytes() if path.exists() else b"")
    return f"bfcl-{digest.hexdigest()[:16]}"


def judge_bfcl(case: BfclCase, reply: Reply) -> Verdict:
    """Return the verdict of the leaderboard's checker: the names, types and values of all calls, in any order."""
    actual = calls_of(reply)
    (expected,) = case.expected
    if not expected:
        return "called_though_none_fits" if actual else "right"
    if any(call.error for call in actual):
        return "malformed"
    if len(actual) != len(expected):
        return "missing_call" if len(actual) < len(expected) else "extra_call"
    if sorted(call.name for call in actual) != sorted(call.name for call in expected):
        return "wrong_tool"
    return "right" if _all_matched(case, expected, list(actual)) else "wrong_arguments"


def _rows(path: Path) -> list[dict[str, JSON]]:
    try:
        with path.open("rb") as lines:
            return [msgspec.json.decode(line) for line in lines if line.strip()]
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}. Expected the folder `data` of the package bfcl-eval") from error
    except msgspec.DecodeError as error:
        raise ConfigError(f"{path}: not a file of BFCL: {error}") from error


def _case(row: dict[str, JSON], category: str, line: int, answers: Mapping[str, JSON]) -> BfclCase:
    truth = answers[row["id"]] if answers else []
    return BfclCase(
        id=row["id"],
        category=category,
        line=line,
        messages=tuple(row["question"][0]),
        tools=tuple(
            Tool(_tool_name(each["name"]), each.get("description", ""), _schema(each["parameters"]))
            for each in row["function"]
        ),
        schemas={_tool_name(each["name"]): each["parameters"] for each in row["function"]},
        expected=(tuple(ExpectedCall(_tool_name(name), values) for call in truth for name, values in call.items()),),
    )


def _tool_name(name: str) -> str:
    """Return the name as providers accept it: without dots, as the leaderboard writes it for them, too."""
    return name.replace(".", "_")


def _schema(value: JSON) -> JSON:
    """Return the parameters as JSON Schema."""
    if isinstance(value, list):
        return [_schema(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        key: _TYPES.get(item, item) if key == "type" and isinstance(item, str) else _schema(item)
        for key, item in value.items()
    }


def _all_matched(case: BfclCase, expected: Sequence[ExpectedCall], actual: list[ActualCall]) -> bool:
    """Return whether each expected call takes the first actual call that matches and that no other one has taken."""
    for each in expected:
        found = next((call for call in actual if _matches(case.schemas[each.name], each, call)), None)
        if found is None:
            return False
        actual.remove(found)
    return True


def _matches(schema: dict[str, JSON], expected: ExpectedCall, call: ActualCall) -> bool:
    given = call.arguments
    if expected.name != call.name or not isinstance(given, dict):
        return False
    properties = schema["properties"]
    return (
        all(name in given for name in schema.get("required", ()))
        and all(
            name in properties
            and name in expected.arguments
            and _admits(properties[name], expected.arguments[name], value)
            for name, value in given.items()
        )
        and all(name in given or _OPTIONAL in accepted for name, accepted in expected.arguments.items())
    )


def _admits(schema: dict[str, JSON], accepted: Sequence[JSON], value: JSON) -> bool:
    """Return whether a value has the type of its parameter and is one of the accepted ones."""
    wanted = _PYTHON_TYPES[schema["type"]]
    if wanted is float and type(value) is int:
        value = float(value)
    items = _PYTHON_TYPES[schema["items"]["type"]] if schema["type"] in ("array", "tuple") else None
    typed, by_equality = _check_type(value, accepted, wanted, items)
    if not typed:
        return False
    if by_equality:
        return value in accepted
    if wanted is dict:
        return any(_same_object(value, each) for each in accepted if isinstance(each, dict))
    if items is dict:
        return any(
            len(value) == len(each) and all(map(_same_object, value, each))
            for each in accepted
            if isinstance(each, list)
        )
    if wanted is list:
        return _plain(value) in [_plain(each) for each in accepted if isinstance(each, list)]
    return _plain(value) in [_plain(each) for each in accepted]


def _check_type(value: JSON, accepted: Sequence[JSON], wanted: type, items: type | None) -> tuple[bool, bool]:
    """Return whether the type is right, and whether the value is then compared by equality alone.

    An accepted value may have another type than the parameter: the leaderboard calls it a variable.
    """
    usual = next((type(each) for each in accepted if each != _OPTIONAL), None)
    other = usual is not None and usual is not wanted
    if not isinstance(value, wanted) or (isinstance(value, bool) and wanted is not bool):
        return usual is type(value), True
    if items is None or not isinstance(value, list):
        return True, other
    lists = [each if isinstance(each, list) else None for each in accepted]
    return any(each is None or all(_check_type(item, each, items, None)[0] for item in value) for each in lists), other


def _plain(value: JSON) -> JSON:
    """Return a string, or the strings of a list, without the characters that do not count."""
    if isinstance(value, str):
        return _IGNORED.sub("", value).lower().replace("'", '"')
    return [_plain(item) if isinstance(item, str) else item for item in value] if isinstance(value, list) else value


def _same_object(value: dict[str, JSON], accepted: dict[str, Sequence[JSON]]) -> bool:
    def plain(item: JSON) -> JSON:
        return _plain(item) if isinstance(item, str) else item

    return all(key in accepted and plain(item) in map(plain, accepted[key]) for key, item in value.items()) and all(
        key in value or _OPTIONAL in items for key, items in accepted.items()
    )
