"""Cases with 80 to 100 tools: what a set has, whether the right tool is found, and the run."""

import asyncio
import json
import sys

import pytest

from benchmarks.models import __main__ as command
from benchmarks.models.cases import is_test_case
from benchmarks.models.many_tools import CATEGORIES, many_tools_cases, recall
from benchmarks.models.results import case_results
from tests.scripted import model_list, scripted_upstream, text_reply

CASES = 45
"""Cases of each category; fifteen of them belong to the test."""


def tool(name: str, description: str) -> dict:
    schema = {"type": "dict", "properties": {"count": {"type": "integer"}}, "required": ["count"]}
    return {"name": name, "description": description, "parameters": schema}


@pytest.fixture
def bfcl(tmp_path):
    """Write cases, each with a tool of its own that the question names; number 5 of each category is in Greek."""
    (tmp_path / "possible_answer").mkdir()
    for category in CATEGORIES:
        rows, answers = [], []
        for number in range(CASES):
            word = f"{category.replace('_', '')}{number}"
            text = "Μέτρα τρία" if number == 5 else f"Please {word} three of them"
            row = {"id": f"{category}_{number}", "question": [[{"role": "user", "content": text}]]}
            rows.append(row | {"function": [tool(f"do.{word}", f"Does {word}.")]})
            answers.append({"id": row["id"], "ground_truth": [{f"do.{word}": {"count": [3]}}]})
        for folder, lines in ((tmp_path, rows), (tmp_path / "possible_answer", answers)):
            (folder / f"BFCL_v4_{category}.json").write_text("\n".join(map(json.dumps, lines)))
    return tmp_path


def test_twenty_cases_share_80_to_100_tools_with_their_own_among_them(bfcl):
    cases = many_tools_cases(bfcl, "test", 60)
    sets = [{id(case.tools) for case in cases[at : at + 20]} for at in (0, 20, 40)]

    assert 60 == len(cases)
    assert [1, 1, 1] == list(map(len, sets))
    assert 3 == len({tuple(each.name for each in case.tools) for case in cases})
    for case in cases:
        names = [each.name for each in case.tools]

        assert is_test_case(case)
        assert 80 <= len(names) == len(set(names)) <= 100
        assert case.expected[0][0].name in names
    assert cases == many_tools_cases(bfcl, "test", 60)


def test_a_case_is_left_out_whose_tool_has_the_name_of_another_one(bfcl):
    path = bfcl / "BFCL_v4_multiple.json"
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    same = [row | {"function": [*row["function"], tool("same", f"Is of {row['id']}.")]} for row in rows]
    path.write_text("\n".join(map(json.dumps, same)))
    cases = many_tools_cases(bfcl, "test", 60)
    kept = [case for case in cases if case.category == "multiple"]

    assert 45 + 3 == len(cases)
    assert 3 == len(kept)


def test_the_recall_counts_the_cases_whose_tool_is_described(bfcl):
    cases = many_tools_cases(bfcl, "test")
    greek = sum(case.line == 6 for case in cases)

    assert 4 == greek
    assert 1 - greek / len(cases) == recall(cases, 4)
    assert 1 == recall(cases, 100)


def run(monkeypatch, *arguments):
    monkeypatch.setattr(sys, "argv", ["benchmarks.models", *map(str, arguments)])
    return command.main()


async def test_the_command_keeps_every_result_and_prints_the_figures(bfcl, monkeypatch, tmp_path, capsys):
    def respond(asked):
        text = str(asked.body["messages"][-1]["content"])
        word = text.partition("Please ")[2].split()[:1]
        name = f"do_{word[0]}" if word and "1" in word[0] else "do_simplepython2"
        return text_reply(f'<function_call>\n{{"name": "{name}", "arguments": {{"count": 3}}}}\n</function_call>')

    common = ("many_tools", "--bfcl", bfcl, "--results", tmp_path / "results")
    async with scripted_upstream(respond=respond, listing=model_list("m")) as upstream:
        to_run = ("--upstream", upstream.url, "--name", "m", "--mode", "described4-signature", "--cases", "20")
        for _ in range(2):
            assert 0 == await asyncio.to_thread(run, monkeypatch, *common, *to_run)
            asked = len(upstream.requests)
    results = case_results(tmp_path / "results" / "test" / "m", "described4-signature").by_id
    right = sum(result.verdict == "right" for result in results.values())

    assert 20 == len(results) <= asked < 80
    assert 0 < right < 20
    capsys.readouterr()
    assert 0 == await asyncio.to_thread(run, monkeypatch, *common)
    printed = capsys.readouterr().out

    assert "right tool among the 4 described: 93.3% of 60 cases" in printed
    assert f"| m | described4-signature | 20 | {5 * right} % |" in printed


def test_the_command_asks_for_the_name_of_the_results(bfcl, monkeypatch):
    with pytest.raises(SystemExit, match="expected --name"):
        run(monkeypatch, "many_tools", "--bfcl", bfcl, "--upstream", "http://127.0.0.1:1")
