"""The suite is consistent: unique ids, known tools, expected calls that the schemas accept."""

import json
import unicodedata
from collections import Counter
from pathlib import Path

import pytest

from fcshim.errors import ConfigError
from fcshim.evaluate import CATEGORIES, DEFAULT_CATEGORIES, load_cases, suite
from fcshim.evaluate.suite import COMMANDS, RACE, fingerprint, select_cases, tool_sets
from fcshim.messages import as_tools
from fcshim.schema.validate import first_violation

ALL_CASES = load_cases(CATEGORIES)


def accepted_arguments(call):
    """Yield arguments of the call such that each accepted value occurs."""
    first = {key: values[0] for key, values in call.arguments.items()}
    yield first
    for key, values in call.arguments.items():
        for value in values:
            yield first | {key: value}


def test_ids_are_unique():
    assert [] == [id_ for id_, count in Counter(case.id for case in ALL_CASES).items() if count > 1]


def test_expected_calls_are_of_offered_tools_and_match_their_schemas():
    defects = [
        (case.id, call.name, defect)
        for case in ALL_CASES
        for call in (call for calls in case.expected for call in calls)
        for defect in case_defects(call, {tool.name: tool for tool in as_tools(case.tools)})
    ]

    assert [] == defects


def case_defects(call, offered):
    parameters = offered[call.name].parameters
    if not all(call.arguments.values()):
        yield "an argument has no accepted value"
    for arguments in accepted_arguments(call):
        if violation := first_violation(parameters, arguments):
            yield violation
        if unknown := arguments.keys() - parameters["properties"].keys():
            yield f"unknown: {unknown}"


def test_every_case_ends_with_a_user_turn_or_a_result():
    last = [case.messages[-1] for case in ALL_CASES]

    assert {"user", "tool"} == {message["role"] for message in last}
    assert all(message["content"].strip() for message in last)
    assert all(case.expected for case in ALL_CASES)


def test_every_tool_has_a_unique_name_and_a_description():
    tools = [tool for tools in tool_sets().values() for tool in tools]

    assert len({tool.name for tool in tools}) == len(tools)
    assert all(tool.description for tool in tools)


def test_every_category_is_large_enough_to_tell_models_apart():
    sizes = Counter(case.category for case in ALL_CASES)

    assert set(CATEGORIES) == set(sizes)
    assert min(sizes.values()) >= 30
    assert len(load_cases()) >= 300


def test_the_documentation_has_the_number_of_cases():
    page = Path(__file__).parents[2] / "docs" / "evaluation.md"

    assert f"\n{len(load_cases())} requests with known answers" in page.read_text(encoding="utf-8")


def test_a_tool_choice_names_the_expected_tool():
    chosen = {case.id: case for case in ALL_CASES if isinstance(case.tool_choice, dict)}

    assert {name: case.tool_choice["function"]["name"] for name, case in chosen.items()} == {
        name: case.expected[0][0].name for name, case in chosen.items()
    }
    assert {"auto", "required"} == {case.tool_choice for case in ALL_CASES if case.id not in chosen}


def test_categories_match_their_names():
    by_category = {name: load_cases([name]) for name in CATEGORIES}

    assert all(len(case.tools) == 1 for case in by_category["simple"])
    assert all(len(case.tools) > 1 for case in by_category["several_tools"])
    assert all(len(case.tools) >= 40 for case in by_category["many_tools"])
    assert all(len(calls) > 1 for case in by_category["parallel"] for calls in case.expected)
    assert all(len(case.messages) > 1 for case in by_category["multi_turn"])
    assert all(case.expected == ((),) for name in ("missing_information", "no_tool_fits") for case in by_category[name])
    assert all(
        max(len(message["content"] or "") for message in case.messages) > 2000 for case in by_category["long_results"]
    )
    assert all(any(has_nested_values(call) for call in case.expected[0]) for case in by_category["nested_arguments"])


def has_nested_values(call):
    return any(isinstance(value, dict | list) for values in call.arguments.values() for value in values)


def test_the_languages_use_many_scripts():
    text = "".join(case.messages[-1]["content"] for case in load_cases(["languages"]))
    scripts = {unicodedata.name(letter).split()[0] for letter in text if letter.isalpha()}
    wanted = "LATIN CYRILLIC GREEK ARABIC HEBREW DEVANAGARI THAI CJK HIRAGANA KATAKANA HANGUL"

    assert set(wanted.split()) <= scripts


def test_a_call_in_the_history_is_followed_by_its_results():
    case = next(case for case in ALL_CASES if case.id == "turns-033")
    _, calls, first, second, *_ = case.messages

    assert ["call_1", "call_2"] == [call["id"] for call in calls["tool_calls"]]
    assert ["call_1", "call_2"] == [first["tool_call_id"], second["tool_call_id"]]
    assert {"number": 77} == json.loads(calls["tool_calls"][0]["function"]["arguments"])


def test_every_tool_and_document_is_used():
    folder = Path(suite.__file__).parent
    lines = "".join(path.read_text(encoding="utf-8") for path in folder.glob("cases/*.jsonl"))
    called = {call.name for case in ALL_CASES for calls in case.expected for call in calls}

    assert set() == {tool.name for tools in tool_sets().values() for tool in tools} - called
    assert [] == [path.name for path in folder.glob("documents/*") if f'"@{path.stem}"' not in lines]


def test_commands_and_the_cases_of_the_race_are_loaded_only_if_they_are_named():
    assert {COMMANDS, RACE}.isdisjoint(case.category for case in load_cases())
    assert {COMMANDS} == {case.category for case in load_cases([COMMANDS])}
    assert set(DEFAULT_CATEGORIES) == {case.category for case in load_cases()}


def test_the_cases_of_the_race_share_one_short_set_of_tools():
    cases = load_cases([RACE])

    assert all(case.tools == tool_sets()["greenhouse"] for case in cases)
    assert {"auto"} == {case.tool_choice for case in cases}
    assert len(json.dumps([tool.parameters for tool in cases[0].tools])) < 800


def test_the_cases_of_the_race_expect_a_call_in_turn_and_each_round_has_every_kind():
    cases = load_cases([RACE])
    blocks = [cases[start : start + 8] for start in range(0, len(cases), 8)]

    assert [True, False] * (len(cases) // 2) == [any(case.expected) for case in cases]
    for block in blocks:
        calls, texts = block[::2], block[1::2]
        assert {1} < {len(case.expected[0]) for case in calls}
        assert {1, 3} <= {len(case.messages) for case in texts}
        assert any(len(case.messages) > 1 for case in calls)
    called = {name for case in cases for call in case.expected[0] for name in call.arguments}
    assert called == {name for tool in cases[0].tools for name in tool.parameters["properties"]}


def test_cases_are_selected_evenly_from_the_categories():
    cases = select_cases(DEFAULT_CATEGORIES, 24)
    counts = Counter(case.category for case in cases)

    assert 24 == len({case.id for case in cases})
    assert set(DEFAULT_CATEGORIES) == set(counts)
    assert max(counts.values()) - min(counts.values()) <= 1
    assert cases == select_cases(DEFAULT_CATEGORIES, 24)
    assert load_cases([RACE]) == select_cases([RACE])
    with pytest.raises(ConfigError, match="simple"):
        select_cases(["simpel"], 1)


def test_a_limit_prefers_different_lines_to_second_phrasings():
    cases = load_cases(limit=12)

    assert {12} == set(Counter(case.category for case in cases).values())
    assert [] == [case.id for case in cases if not case.id[-1].isdigit()]


def test_an_unknown_category_is_rejected():
    with pytest.raises(ConfigError, match="there is no category 'simpel'"):
        load_cases(["simpel"])


def test_the_suite_is_the_same_each_time():
    assert load_cases(CATEGORIES) == ALL_CASES
    assert 16 == len(fingerprint())
