"""The failed cases as text for users: the request, the expected calls and the actual ones.

A few lines per case; the file of results has the rest.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence

from fcshim.evaluate.case import Case
from fcshim.evaluate.result import ActualCall, Result
from fcshim.events import JSON

_MAX_LINE = 300
"""Most characters of a line."""


def describe_failures(results: Sequence[Result], cases: Iterable[Case]) -> Iterator[str]:
    """Yield the lines for every result that is not right."""
    known = {case.id: case for case in cases}
    for result in results:
        if not result.right:
            yield f"{result.id} in {result.dialect}: {result.verdict.replace('_', ' ')}"
            yield from (f"  {name:<9} {_truncate(text)}" for name, text in _fields(known[result.id], result))


def _fields(case: Case, result: Result) -> Iterator[tuple[str, str]]:
    yield "asked", case.messages[-1]["content"]
    for position, calls in enumerate(case.expected):
        yield "or" if position else "expected", _join_calls(_format_call(call.name, call.arguments) for call in calls)
    yield "got", result.problem or _join_calls(map(_format_actual, result.calls))
    if result.text.strip():
        yield "said", result.text


def _join_calls(calls: Iterable[str]) -> str:
    return ", ".join(calls) or "no call"


def _format_call(name: str, arguments: Mapping[str, Sequence[JSON]]) -> str:
    """Return a call as text, with the accepted values of each argument."""
    written = []
    for key, values in arguments.items():
        written.append(f"{key}={' or '.join(json.dumps(value, ensure_ascii=False) for value in values)}")
    return f"{name}({', '.join(written)})"


def _format_actual(call: ActualCall) -> str:
    if call.error or not isinstance(call.arguments, dict):
        return f"{call.name}, {call.error}: {call.arguments}"
    return _format_call(call.name, {key: [value] for key, value in call.arguments.items()})


def _truncate(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _MAX_LINE else f"{line[: _MAX_LINE - 1]}…"
