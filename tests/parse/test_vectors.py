"""Every vector gives its expected events under many splits."""

import json
from dataclasses import replace
from typing import Any

import pytest

from fcshim.parse.dialects import DIALECTS, FUNCTION_CALL, HERMES
from tests.parse.cases import VECTORS, Case, check, load

FEWEST_VECTORS = 5
CASES = [
    pytest.param(case, id=f"{path.stem}: {case.name}")
    for path in sorted(VECTORS.glob("*.json"))
    for case in load(path.stem)
]


@pytest.mark.parametrize("case", CASES)
def test_a_vector_gives_its_events_under_every_split(case: Case) -> None:
    check(case)


TRANSLATABLE = [
    case
    for case in CASES
    if "dialect" not in case.values[0].options  # type: ignore[union-attr] # a Case
    and "tool_call" not in case.values[0].input  # type: ignore[union-attr] # a Case
    and not case.values[0].input.endswith("</functio")  # type: ignore[union-attr] # a Case
]
"""Cases in which the default dialect's markers can be replaced by those of another dialect."""


@pytest.mark.parametrize("case", TRANSLATABLE)
def test_a_vector_gives_the_same_events_in_another_dialect(case: Case) -> None:
    check(_in_hermes(case, dialect="hermes"))


RESCUED = [
    case
    for case in TRANSLATABLE
    if case.values[0].tools and not case.values[0].input.startswith("{")  # type: ignore[union-attr] # a Case
]
"""Cases with tools, except bare JSON: with `rescue` that becomes a call."""


@pytest.mark.parametrize("case", RESCUED)
def test_rescue_reads_another_dialect_for_offered_tools(case: Case) -> None:
    check(_in_hermes(case, rescue=True))


def test_without_rescue_another_dialect_is_text() -> None:
    text = '<tool_call>{"name": "f", "arguments": {}}</tool_call>'

    check(Case("hermes", text, [{"text": text}, {"stop": "complete"}], tools=[{"name": "f"}]))


def test_rescue_needs_offered_tools() -> None:
    text = '<tool_call>{"name": "f", "arguments": {}}</tool_call>'

    check(Case("hermes", text, [{"text": text}, {"stop": "complete"}], options={"rescue": True}))


def test_rescue_reads_both_dialects_in_one_reply() -> None:
    text = '<tool_call>{"name": "f"}</tool_call><function_call>{"name": "f"}</function_call>'
    call = {"call": "f", "arguments": "{}"}

    check(Case("both", text, [call, call, {"stop": "tool_use"}], tools=[{"name": "f"}], options={"rescue": True}))


def _in_hermes(case: Case, **options: Any) -> Case:
    """Return the case with the other dialect's markers, in its input and in its expected events."""
    return replace(
        case,
        input=_other_markers(case.input),
        events=json.loads(_other_markers(json.dumps(case.events))),
        calls=json.loads(_other_markers(json.dumps(case.calls))),
        options=case.options | options,
    )


def _other_markers(text: str) -> str:
    for ours, theirs in (("function_call", "tool_call"), ("function_result", "tool_response")):
        for case in (str.lower, str.upper, str.title):
            text = text.replace(case(ours), case(theirs))
    return text


assert (FUNCTION_CALL.call.open, HERMES.call.open) == ("<function_call>", "<tool_call>")


def test_names_of_vectors_are_unique() -> None:
    for path in VECTORS.glob("*.json"):
        names = [case.name for case in load(path.stem)]

        assert len(set(names)) == len(names), path.stem


@pytest.mark.parametrize("dialect", DIALECTS)
def test_each_dialect_has_vectors(dialect: str) -> None:
    used = [case.values[0].options.get("dialect", FUNCTION_CALL.name) for case in CASES]  # type: ignore[union-attr]

    assert used.count(dialect) >= FEWEST_VECTORS, "a new dialect needs vectors of its own"
