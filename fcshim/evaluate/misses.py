"""What went wrong, case by case, for people: what was asked, what was expected, what came.

Rule: a few lines a case; the file of results has the rest.
Neighbours: `cli.eval` writes them below the table.
"""

import json
from collections.abc import Iterable, Iterator, Sequence

from fcshim.evaluate.case import Case, ExpectedCall
from fcshim.evaluate.result import Call, Result
from fcshim.events import JSON

_LONGEST = 300
"""Characters of a line."""


def describe_misses(results: Sequence[Result], cases: Iterable[Case]) -> Iterator[str]:
    """Give the lines for every result that is not right."""
    known = {case.id: case for case in cases}
    for result in results:
        if not result.right:
            yield f"{result.id} in {result.dialect}: {result.verdict.replace('_', ' ')}"
            yield from (f"  {name:<9} {_clipped(text)}" for name, text in _parts(known[result.id], result))


def _parts(case: Case, result: Result) -> Iterator[tuple[str, str]]:
    yield "asked", case.messages[-1]["content"]
    for position, calls in enumerate(case.expected):
        yield "or" if position else "expected", _written(map(_expected, calls))
    yield "got", result.problem or _written(map(_made, result.calls))
    if result.text.strip():
        yield "said", result.text


def _written(calls: Iterable[str]) -> str:
    return ", ".join(calls) or "no call"


def _expected(call: ExpectedCall) -> str:
    return f"{call.name}({', '.join(f'{key}={_either(values)}' for key, values in call.arguments.items())})"


def _either(values: Sequence[JSON]) -> str:
    return " or ".join(json.dumps(value, ensure_ascii=False) for value in values)


def _made(call: Call) -> str:
    if call.error or not isinstance(call.arguments, dict):
        return f"{call.name}, {call.error}: {call.arguments}"
    return f"{call.name}({', '.join(f'{key}={_either([value])}' for key, value in call.arguments.items())})"


def _clipped(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 1]}…"
