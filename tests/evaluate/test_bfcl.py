"""BFCL's files are read as published, and calls are judged as by the leaderboard's own checker."""

import json
from pathlib import Path

import pytest

from fcshim.errors import ConfigError
from fcshim.evaluate.bfcl import bfcl_fingerprint, judge_bfcl, load_bfcl, load_bfcl_cases
from fcshim.events import JSON, CallError, ToolCallEnd
from fcshim.reply import Reply

_FUNCTION = {
    "name": "trip.plan",
    "description": "Plan a trip.",
    "parameters": {
        "type": "dict",
        "properties": {
            "city": {"type": "string"},
            "days": {"type": "integer"},
            "budget": {"type": "float"},
            "stops": {"type": "array", "items": {"type": "string"}},
            "legs": {"type": "array", "items": {"type": "dict"}},
            "options": {"type": "dict", "properties": {"class": {"type": "any"}}},
        },
        "required": ["city"],
    },
}
_ANSWER = {
    "trip.plan": {
        "city": ["New York, NY", "NYC"],
        "days": [3],
        "budget": [5, ""],
        "stops": [["Rome", "Bern"], ""],
        "legs": [[{"to": ["Rome"], "km": [10, ""]}], ""],
        "options": [{"class": ["first", ""]}, ""],
    }
}


def _folder(tmp_path: Path, category: str, answers: list[JSON]) -> Path:
    name = f"BFCL_v4_{category}.json"
    row = {"id": "a", "question": [[{"role": "user", "content": "Go"}]], "function": [_FUNCTION]}
    (tmp_path / name).write_text(json.dumps(row) + "\n", encoding="utf-8")
    if answers:
        (tmp_path / "possible_answer").mkdir()
        row = {"id": "a", "ground_truth": answers}
        (tmp_path / "possible_answer" / name).write_text(json.dumps(row) + "\n", encoding="utf-8")
    return tmp_path


def _reply(*calls: dict[str, JSON], name: str = "trip_plan", error: CallError | None = None) -> Reply:
    ends = [ToolCallEnd(f"c{at}", name, json.dumps(call), at, error=error) for at, call in enumerate(calls)]
    return Reply(tool_calls=tuple(ends))


_RIGHT: list[dict[str, JSON]] = [
    {"city": "new york ny", "days": 3},
    {"city": "NYC", "days": 3, "budget": 5},
    {"city": "NYC", "days": 3, "budget": 5.0, "stops": ["rome", "Bern "]},
    {"city": "NYC", "days": 3, "legs": [{"to": "Rome"}], "options": {"class": "FIRST"}},
]
_WRONG: list[dict[str, JSON]] = [
    {"city": "NYC"},
    {"days": 3},
    {"city": "Boston", "days": 3},
    {"city": "NYC", "days": "3"},
    {"city": "NYC", "days": True},
    {"city": "NYC", "days": 3.0},
    {"city": "NYC", "days": 3, "extra": 1},
    {"city": "NYC", "days": 3, "stops": ["Bern", "Rome"]},
    {"city": "NYC", "days": 3, "stops": ["Rome", 5]},
    {"city": "NYC", "days": 3, "legs": [{"km": 10}]},
    {"city": "NYC", "days": 3, "legs": []},
    {"city": "NYC", "days": 3, "options": {"seat": "A"}},
]


@pytest.mark.parametrize("arguments", _RIGHT)
def test_values_that_the_leaderboard_accepts_are_right(tmp_path: Path, arguments: dict[str, JSON]) -> None:
    (case,) = load_bfcl(_folder(tmp_path, "simple_python", [_ANSWER]), "simple_python")

    assert judge_bfcl(case, _reply(arguments)) == "right"


@pytest.mark.parametrize("arguments", _WRONG)
def test_values_that_the_leaderboard_refuses_are_wrong(tmp_path: Path, arguments: dict[str, JSON]) -> None:
    (case,) = load_bfcl(_folder(tmp_path, "simple_python", [_ANSWER]), "simple_python")

    assert judge_bfcl(case, _reply(arguments)) == "wrong_arguments"


def test_calls_match_in_any_order_and_once_each(tmp_path: Path) -> None:
    second = {"trip.plan": {"city": ["Rome"]}}
    (case,) = load_bfcl(_folder(tmp_path, "parallel", [_ANSWER, second]), "parallel")
    good, rome = _RIGHT[0], {"city": "Rome"}

    assert judge_bfcl(case, _reply(rome, good)) == "right"
    assert judge_bfcl(case, _reply(good, good)) == "wrong_arguments"
    assert judge_bfcl(case, _reply(good)) == "missing_call"
    assert judge_bfcl(case, _reply(good, rome, rome)) == "extra_call"


def test_another_tool_and_an_unusable_call_have_verdicts_of_their_own(tmp_path: Path) -> None:
    (case,) = load_bfcl(_folder(tmp_path, "simple_python", [_ANSWER]), "simple_python")

    assert judge_bfcl(case, _reply(_RIGHT[0], name="other")) == "wrong_tool"
    assert judge_bfcl(case, _reply({}, error=CallError("truncated", "", ""))) == "malformed"


def test_any_call_is_wrong_where_no_tool_fits(tmp_path: Path) -> None:
    (case,) = load_bfcl(_folder(tmp_path, "irrelevance", []), "irrelevance")

    assert judge_bfcl(case, Reply(text="I cannot do that.")) == "right"
    assert judge_bfcl(case, _reply({"city": "NYC"})) == "called_though_none_fits"


def test_tools_are_offered_in_json_schema_under_names_without_dots(tmp_path: Path) -> None:
    (case,) = load_bfcl(_folder(tmp_path, "irrelevance", []), "irrelevance")
    (tool,) = case.tools

    assert (case.line, tool.name, tool.parameters["type"]) == (1, "trip_plan", "object")
    assert tool.parameters["properties"]["budget"] == {"type": "number"}
    assert tool.parameters["properties"]["options"]["properties"]["class"] == {"type": "string"}


def test_a_missing_or_foreign_file_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="Expected the folder `data`"):
        load_bfcl(tmp_path, "irrelevance")

    (tmp_path / "BFCL_v4_irrelevance.json").write_text('{"id": "a"}\n', encoding="utf-8")

    with pytest.raises(ConfigError, match="not a file of BFCL"):
        load_bfcl(tmp_path, "irrelevance")


def test_cases_come_in_the_order_of_the_categories_and_at_most_so_many_of_each(tmp_path: Path) -> None:
    folder = _folder(tmp_path, "irrelevance", [])
    (folder / "BFCL_v4_live_irrelevance.json").write_bytes((folder / "BFCL_v4_irrelevance.json").read_bytes() * 3)
    cases = load_bfcl_cases(folder, ["live_irrelevance", "irrelevance", "live_irrelevance"], 2)

    assert ["live_irrelevance", "live_irrelevance", "irrelevance"] == [case.category for case in cases]


def test_an_unknown_category_is_named_with_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no category 'memory'.* Known are simple_python, .*live_irrelevance$"):
        load_bfcl_cases(tmp_path, ["memory"])


def test_the_fingerprint_changes_with_cases_and_answers(tmp_path: Path) -> None:
    folder = _folder(tmp_path, "parallel", [_ANSWER])
    first = bfcl_fingerprint(folder)
    (folder / "possible_answer" / "BFCL_v4_parallel.json").write_text("{}")

    assert first.startswith("bfcl-")
    assert first != bfcl_fingerprint(folder)
