"""The commands of the models benchmark."""

import asyncio
import sys

import pytest

from benchmarks.models import __main__ as command
from benchmarks.models.conversations import load_conversations
from benchmarks.models.loops import LoopResult, load_tasks
from benchmarks.models.results import CaseResult, case_results, conversation_results, loop_results
from tests.scripted import model_list, scripted_upstream, text_reply


def run(monkeypatch, *arguments):
    monkeypatch.setattr(sys, "argv", ["benchmarks.models", *map(str, arguments)])
    return command.main()


async def test_loops_runs_every_conversation_and_task_of_the_split_once(monkeypatch, tmp_path):
    respond = lambda _: text_reply("I do not know.")  # noqa: E731 - one expression
    async with scripted_upstream(respond=respond, listing=model_list("m")) as upstream:
        arguments = ("loops", "--upstream", upstream.url, "--name", "m", "--mode", "example", "--split", "tuning")
        for _ in range(2):
            assert 0 == await asyncio.to_thread(run, monkeypatch, *arguments, "--results", tmp_path)
            asked = len(upstream.requests)
            folder = tmp_path / "tuning" / "m"
            talks, loops = conversation_results(folder, "example").by_id, loop_results(folder, "example").by_id

            assert [each.case.id for each in load_conversations("tuning")] == list(talks)
            assert [task.id for task in load_tasks("tuning")] == list(loops)
            # One request of each kind comes before the tasks; a second run finds nothing to do.
            assert asked == 2 + sum(len(each.raw) for each in [*talks.values(), *loops.values()])


def test_a_command_names_the_options_that_it_lacks(monkeypatch, capsys):
    with pytest.raises(SystemExit):
        run(monkeypatch, "loops", "--upstream", "http://127.0.0.1:1")

    assert "loops: expected --name" in capsys.readouterr().err


def test_page_writes_both_tables_and_keeps_the_words_around_them(monkeypatch, tmp_path):
    words = [
        "# Head",
        command.BEGIN,
        "old",
        command.END,
        "Between.",
        command.BEGIN_LOOPS,
        "old",
        command.END_LOOPS,
        "End.",
    ]
    page = tmp_path / "models.md"
    page.write_text("\n\n".join(words))
    monkeypatch.setattr(command, "PAGE", page)
    monkeypatch.setattr(command, "PLOT", tmp_path / "models.svg")
    folder = tmp_path / "test" / "m"
    case_results(folder, "example").add(CaseResult(id="a", category="simple_python", verdict="right"))
    conversation_results(folder, "example").add(CaseResult(id="b", category="answer", verdict="right", text="5"))
    loop_results(folder, "example").add(LoopResult(id="c", verdict="right"))
    run(monkeypatch, "page", "--results", tmp_path)
    blocks = page.read_text().split("\n\n")

    assert words[:2] + words[3:6] + words[7:] == [blocks[at] for at in (0, 1, 3, 4, 5, 7, 8)]
    assert "| m | example | 1 | 100 % |" in blocks[2]
    assert "| m | example | 1 of 1 | 0 of 1 | 1 of 1 | 0 of 2 |" in blocks[6]
