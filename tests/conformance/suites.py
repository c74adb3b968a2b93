"""What fcshim makes of the suites of others: for each how many cases pass, and the names of the others."""

import ast
import json
import os
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from fcshim import StreamParser
from fcshim.constrain.calls import grammar_of_document
from fcshim.events import JSON
from fcshim.parse.dialects import FUNCTION_CALL
from fcshim.reply import Reply, fold
from fcshim.schema.validate import first_violation
from tests.conformance.environment import JSON_SCHEMA, JSON_TEXTS, LLM_COMPLY, NAUGHTY
from tests.constrain.matcher import Matcher

TOOLS = [{"name": "f", "parameters": {"type": "object", "properties": {"v": {}}, "required": ["v"]}}]

_ACCEPT, _REJECT, _EITHER = "a parser must accept", "a parser must reject", "a parser may do either"
_ADMITTED, _REFUSED = "valid instances that the grammar admits", "invalid instances that it refuses"
_VALID, _INVALID = "valid instances that the validator admits", "invalid instances that the validator refuses"
_NOTED = "invalid instances that it refuses, or notes that it does not"


@dataclass(frozen=True)
class SuiteResult:
    """How many of so many cases passed, and the names of those that did not."""

    total: int
    failures: tuple[str, ...]

    @property
    def passed(self) -> int:
        """The number of cases that passed."""
        return self.total - len(self.failures)


def naughty_strings() -> SuiteResult:
    """Strings that break programs, as an argument and as text: each arrives as it was written."""
    (assignment,) = (
        node for node in ast.parse(NAUGHTY.read_text(encoding="utf-8")).body if isinstance(node, ast.Assign)
    )
    texts: list[str] = ast.literal_eval(assignment.value)
    failures = [text for text in texts if _arguments(json.dumps(text)) != {"v": text} or _read(text).text != text]
    return SuiteResult(len(texts), tuple(failures))


def json_texts() -> dict[str, SuiteResult]:
    """JSONTestSuite's texts as the value of an argument, by what its parsers must do: accept, reject, or either."""
    cases = json.loads(JSON_TEXTS.read_text(encoding="utf-8").partition("export default ")[2])
    found: dict[str, list[tuple[str, bool]]] = {_ACCEPT: [], _REJECT: [], _EITHER: []}
    for case in cases:
        name, text = case["name"], case["input"]
        arguments = _arguments(text)
        match name[0]:
            case "y":
                found[_ACCEPT].append((name, arguments == {"v": json.loads(text)}))
            case "n":  # read only as a repair, which is valid JSON then; never as it stands
                found[_REJECT].append((name, arguments is None or not _is_strict(text)))
            case _:
                found[_EITHER].append((name, True))
    return {
        kind: SuiteResult(len(results), tuple(name for name, passed in results if not passed))
        for kind, results in found.items()
    }


def json_schemas() -> dict[str, SuiteResult]:
    """JSON-Schema-Test-Suite: valid instances that are admitted, invalid ones that are refused or noted."""
    kinds = (_ADMITTED, _REFUSED, _NOTED, _VALID, _INVALID)
    found: dict[str, list[tuple[str, bool]]] = {kind: [] for kind in kinds}
    for name, schema, tests in _schema_groups():
        grammar = grammar_of_document(schema, FUNCTION_CALL)
        assert grammar is not None
        matcher = Matcher(grammar)
        for test in tests:
            case = f"{name}: {test['description']}"
            admitted = matcher.admits(json.dumps(test["data"], ensure_ascii=False))
            is_valid = first_violation(schema, test["data"]) is None
            found[_VALID if test["valid"] else _INVALID].append((case, is_valid == test["valid"]))
            if test["valid"]:
                found[_ADMITTED].append((case, admitted))
            else:
                found[_REFUSED].append((case, not admitted))
                noted = any("enforced" in note or "satisfies" in note for note in grammar.notes)
                found[_NOTED].append((case, noted or not admitted))
    return {
        kind: SuiteResult(len(results), tuple(name for name, passed in results if not passed))
        for kind, results in found.items()
    }


def _schema_groups() -> Iterator[tuple[str, JSON, list[dict[str, JSON]]]]:
    for file in sorted(JSON_SCHEMA.glob("*.json")):
        for group in json.loads(file.read_text(encoding="utf-8")):
            yield f"{file.stem}: {group['description']}", group["schema"], group["tests"]


def llm_comply(url: str, api: str) -> SuiteResult:
    """Run llm-comply's suite of one API against a running proxy."""
    command = [LLM_COMPLY, "--base-url", url, "--model", "m", "--api-key", "none", "--format", api, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300, env=_environment())
    results = json.loads(done.stdout)["results"]
    judged = [each for each in results if each["status"] != "skipped"]
    return SuiteResult(len(judged), tuple(each["name"] for each in judged if each["status"] == "failed"))


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}


def _arguments(value: str) -> JSON:
    """Return the arguments of a call with this text as its only value; None where it is no call."""
    reply = _read(f'<function_call>\n{{"name": "f", "arguments": {{"v": {value}}}}}\n</function_call>')
    (call, *more) = (*[call for call in reply.tool_calls if call.error is None], None)
    return None if call is None or more != [None] else json.loads(call.tool_call_arguments_complete)


def _read(text: str) -> Reply:
    parser = StreamParser("function_call", tools=TOOLS)
    return fold([*parser.feed(text), *parser.close()])


def _is_strict(text: str) -> bool:
    try:
        json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return False
    return True


def _refuse(constant: str) -> None:
    raise ValueError(constant)


SUITES: dict[str, tuple[Path, Callable[[], dict[str, SuiteResult]]]] = {
    "JSONTestSuite, as arguments": (JSON_TEXTS, json_texts),
    "JSON-Schema-Test-Suite, draft 2020-12": (JSON_SCHEMA, json_schemas),
    "Big List of Naughty Strings": (NAUGHTY, lambda: {"arrive unchanged, as argument and as text": naughty_strings()}),
}
"""The suites that need no server: what has to be installed, and their results by the kind of case."""
