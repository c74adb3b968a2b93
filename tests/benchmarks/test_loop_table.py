"""The figures of loops and conversations."""

from benchmarks.models.loop_table import load_loop_figures, loop_markdown_table, loop_text_table
from benchmarks.models.loops import LoopResult
from benchmarks.models.results import CaseResult, conversation_results, loop_results

LOOPS = [
    LoopResult(id="a", verdict="right", texts=("It is 5.",), seconds=2.0),
    LoopResult(id="b", verdict="recovered", seconds=4.0),
    LoopResult(id="c", verdict="markup", texts=("So.", "<function_result>5"), markup="<function_result>"),
    LoopResult(id="d", verdict="wrong_results", texts=("<tool_call>",), markup="<tool_call>", seconds=6.0),
]
CONVERSATIONS = [
    CaseResult(id="x", category="answer", verdict="right", text="5"),
    CaseResult(id="y", category="answer", verdict="missing_fact", text="</tool_response> 6"),
]
CELLS = ["m", "example", "1 of 4", "1 of 4", "1 of 2", "3 of 6", "3.0"]


def kept(tmp_path):
    for result in LOOPS:
        loop_results(tmp_path / "m", "example").add(result)
    for result in CONVERSATIONS:
        conversation_results(tmp_path / "m", "example").add(result)
    loop_results(tmp_path / "m", "hermes").add(LOOPS[0])  # interrupted: no conversations
    return load_loop_figures(tmp_path)


def test_markup_counts_in_every_text_whatever_the_verdict(tmp_path):
    (row,) = kept(tmp_path)

    assert 3 == row.markup


def test_the_tables_have_a_row_for_each_mode_with_both_kinds(tmp_path):
    rows = kept(tmp_path)

    assert CELLS == loop_markdown_table(rows).splitlines()[2].strip("| ").split(" | ")
    assert " ".join(CELLS).split() == loop_text_table(rows).splitlines()[-1].split()
