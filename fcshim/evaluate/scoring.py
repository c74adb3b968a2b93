"""Compares the calls of a reply with the expected ones and gives a verdict.

Rule: names and arguments are equal or not; there is no partial credit. The order of calls does not count, their
number does. Numbers are equal by value, objects in any order and with the defaults of a schema filled in; strings
exactly, and 1 equals 1.0, but not true.
"""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from fcshim.evaluate.case import Case, ExpectedCall
from fcshim.evaluate.result import ActualCall, Verdict
from fcshim.events import JSON, Event, Text, ToolCallEnd, ToolCallStart
from fcshim.reply import Reply, fold


def canonical(value: JSON) -> str:
    """Return a text that is equal for equal values."""
    return json.dumps(_normalize_numbers(value), sort_keys=True, ensure_ascii=False)


def fill_defaults(value: JSON, schema: JSON) -> JSON:
    """Return the value with the defaults of its schema filled in, also inside objects and arrays."""
    if not isinstance(schema, dict):
        return value
    if isinstance(value, dict):
        properties = schema.get("properties") or {}
        defaults = {key: each["default"] for key, each in properties.items() if "default" in each}
        return defaults | {key: fill_defaults(item, properties.get(key)) for key, item in value.items()}
    if isinstance(value, list):
        return [fill_defaults(item, schema.get("items")) for item in value]
    return value


def _normalize_numbers(value: JSON) -> JSON:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, dict):
        return {key: _normalize_numbers(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_normalize_numbers(item) for item in value]
    return value


_SEVERITY: Sequence[Verdict] = ("right", "wrong_arguments", "extra_call", "missing_call", "wrong_tool")
"""Verdicts from best to worst: the best verdict of all alternatives counts."""


def calls_of(reply: Reply) -> tuple[ActualCall, ...]:
    """Return the calls of a reply."""
    return tuple(map(_actual_call, reply.tool_calls))


def judge(case: Case, reply: Reply) -> Verdict:
    """Return the verdict for a reply to the case."""
    actual = calls_of(reply)
    if not any(case.expected):
        if actual:
            return "called_though_none_fits"
        return "right" if reply.text.strip() else "no_answer"
    if any(call.error for call in actual):
        return "malformed"
    if not actual and () in case.expected and reply.text.strip():
        return "right"
    schemas = {tool.name: tool.parameters for tool in case.tools}
    return min((_compare(expected, actual, schemas) for expected in case.expected if expected), key=_SEVERITY.index)


def early_verdict(case: Case, events: Sequence[Event]) -> Verdict | None:
    """Return the verdict if the rest of the reply cannot change it; None if it can.

    Text of `_MAX_TEXT` characters without a call after it counts as the rest of the reply.
    """
    expected = {call.name for calls in case.expected for call in calls}
    started = [event.tool_call_name for event in events if isinstance(event, ToolCallStart)]
    if started and not expected:
        return "called_though_none_fits"
    if not expected.issuperset(started):
        return "wrong_tool"
    if started and len(started) > max(map(len, case.expected)):
        return "extra_call"
    schemas = {tool.name: tool.parameters for tool in case.tools}
    ended = [_actual_call(event) for event in events if isinstance(event, ToolCallEnd)]
    for call in ended:
        if not call.error and not any(
            matches(each, call, schemas.get(call.name)) for calls in case.expected for each in calls
        ):
            return "wrong_arguments"
    text = 0
    for event in events:
        if isinstance(event, Text):
            text += len(event.text)
        elif isinstance(event, ToolCallStart):
            text = 0
    return judge(case, fold(events)) if text > _MAX_TEXT and len(started) == len(ended) else None


_MAX_TEXT = 240
"""Characters of text after which no call is awaited: small models write a call at once, or after a sentence or two."""


def _actual_call(end: ToolCallEnd) -> ActualCall:
    if end.error is not None:
        return ActualCall(end.tool_call_name, end.tool_call_arguments_complete, end.error.kind)
    return ActualCall(end.tool_call_name, json.loads(end.tool_call_arguments_complete))


def _compare(expected: Sequence[ExpectedCall], actual: Sequence[ActualCall], schemas: Mapping[str, JSON]) -> Verdict:
    expected_names, actual_names = _names(expected), _names(actual)
    if expected_names == actual_names:
        matching = [[matches(each, call, schemas.get(call.name)) for call in actual] for each in expected]
        return "right" if _has_perfect_matching(matching) else "wrong_arguments"
    if actual_names < expected_names:
        return "missing_call"
    return "extra_call" if actual_names > expected_names else "wrong_tool"


def _names(calls: Iterable[ExpectedCall | ActualCall]) -> Counter[str]:
    return Counter(call.name for call in calls)


def matches(expected: ExpectedCall, call: ActualCall, schema: JSON) -> bool:
    """Return whether a call matches the expected one. An argument that equals the schema's default may be omitted."""
    if expected.name != call.name:
        return False
    # With defaults filled in, an expected argument may be omitted if it is the default, and an unexpected one is
    # accepted if it is the default.
    actual, defaults = fill_defaults(call.arguments, schema), fill_defaults({}, schema)
    admitted = {key: [value] for key, value in defaults.items()} | expected.arguments
    return actual.keys() == admitted.keys() and all(
        canonical(actual[key]) in {canonical(fill_defaults({key: value}, schema)[key]) for value in values}
        for key, values in admitted.items()
    )


def _has_perfect_matching(matching: list[list[bool]]) -> bool:
    """Return whether each expected call can be paired with a different actual call, which are equally many.

    Kuhn's algorithm: a greedy pairing fails where a call with several accepted values takes the only match of another.
    """
    taken: dict[int, int] = {}

    def place(expected: int, visited: set[int]) -> bool:
        for actual, match in enumerate(matching[expected]):
            if match and actual not in visited:
                visited.add(actual)
                if actual not in taken or place(taken[actual], visited):
                    taken[actual] = expected
                    return True
        return False

    return all(place(expected, set()) for expected in range(len(matching)))
