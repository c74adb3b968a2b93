"""The suite holds what it promises: answers that its tools admit, told apart by their ids."""

from collections import Counter

import pytest

from fcshim.errors import ConfigError
from fcshim.evaluate import CATEGORIES, DEFAULT_CATEGORIES, load_cases
from fcshim.evaluate.suite import COMMANDS, fingerprint, tool_sets
from fcshim.messages import as_tools
from fcshim.schema.validate import first_fault

EVERY = load_cases(CATEGORIES)


def admitted(call):
    """Give the arguments of the call, once with each value of each argument."""
    first = {key: values[0] for key, values in call.arguments.items()}
    yield first
    for key, values in call.arguments.items():
        for value in values:
            yield first | {key: value}


def test_ids_are_unique():
    assert [] == [id_ for id_, count in Counter(case.id for case in EVERY).items() if count > 1]


@pytest.mark.parametrize("case", EVERY, ids=lambda case: case.id)
def test_what_is_expected_is_offered_and_admitted_by_its_schema(case):
    offered = {tool.name: tool for tool in as_tools(case.tools)}

    for call in (call for alternative in case.expected for call in alternative):
        assert all(call.arguments.values())
        for arguments in admitted(call):
            assert None is first_fault(offered[call.name].parameters, arguments)
            assert set(arguments) <= set(offered[call.name].parameters["properties"])


@pytest.mark.parametrize("case", EVERY, ids=lambda case: case.id)
def test_every_case_ends_with_something_to_answer(case):
    assert case.messages[-1]["role"] in {"user", "tool"}
    assert case.messages[-1]["content"].strip()
    assert case.expected


def test_every_tool_has_a_name_of_its_own_and_a_description():
    tools = [tool for tools in tool_sets().values() for tool in tools]

    assert len({tool.name for tool in tools}) == len(tools)
    assert all(tool.description for tool in tools)


def test_commands_are_asked_only_where_they_are_named():
    assert COMMANDS not in {case.category for case in load_cases()}
    assert {COMMANDS} == {case.category for case in load_cases([COMMANDS])}
    assert set(DEFAULT_CATEGORIES) == {case.category for case in load_cases()}


def test_a_limit_takes_different_lines_before_second_phrasings():
    cases = load_cases(limit=12)

    assert {12} == set(Counter(case.category for case in cases).values())
    assert [] == [case.id for case in cases if not case.id[-1].isdigit()]


def test_an_unknown_category_is_a_mistake():
    with pytest.raises(ConfigError, match="there is no category 'simpel'"):
        load_cases(["simpel"])


def test_the_suite_is_the_same_each_time():
    assert load_cases(CATEGORIES) == EVERY
    assert 16 == len(fingerprint())
