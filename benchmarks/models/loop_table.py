"""The figures of loops and conversations: how many were right, and in how many of them markup reached the client."""

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.models.answer_text import markup_in
from benchmarks.models.loops import LoopResult
from benchmarks.models.modes import MODES
from benchmarks.models.results import CaseResult, conversation_results, loop_results
from benchmarks.models.table import format_markdown
from benchmarks.report import format_table

COLUMNS = ("model", "mode", "loops right", "recovered", "conversations right", "with markup", "seconds per loop")


@dataclass(frozen=True, slots=True)
class LoopFigures:
    """What the loops and conversations of one model in one mode say.

    `recovered`: loops that are right but for calls that failed. `markup`: loops and conversations in which markup of
    calls or results reached the client, whatever their verdict.
    """

    model: str
    mode: str
    loops: int
    right: int
    recovered: int
    conversations: int
    right_conversations: int
    markup: int
    seconds: float


def load_loop_figures(folder: Path) -> list[LoopFigures]:
    """Return the figures of all results in a folder, by model, in the order of the modes."""
    return [
        loop_figures(model.name, mode, loops, conversations)
        for model in sorted(folder.iterdir())
        for mode in MODES
        if (loops := list(loop_results(model, mode).by_id.values()))
        and (conversations := list(conversation_results(model, mode).by_id.values()))
    ]


def loop_figures(
    model: str, mode: str, loops: Sequence[LoopResult], conversations: Sequence[CaseResult]
) -> LoopFigures:
    """Return the figures of one model in one mode."""
    return LoopFigures(
        model=model,
        mode=mode,
        loops=len(loops),
        right=sum(result.right for result in loops),
        recovered=sum(result.verdict == "recovered" for result in loops),
        conversations=len(conversations),
        right_conversations=sum(result.verdict == "right" for result in conversations),
        markup=sum(bool(markup_in(texts)) for texts in _texts(loops, conversations)),
        seconds=statistics.mean(result.seconds for result in loops),
    )


def loop_text_table(rows: Sequence[LoopFigures]) -> str:
    """Return the table in plain text."""
    return format_table(list(COLUMNS), [_cells(row) for row in rows])


def loop_markdown_table(rows: Sequence[LoopFigures]) -> str:
    """Return the table for the documentation."""
    return format_markdown(COLUMNS, map(_cells, rows))


def _texts(loops: Sequence[LoopResult], conversations: Sequence[CaseResult]) -> Iterator[Sequence[str]]:
    yield from (result.texts for result in loops)
    yield from ([result.text] for result in conversations)


def _cells(row: LoopFigures) -> list[str]:
    return [
        row.model,
        row.mode,
        f"{row.right} of {row.loops}",
        f"{row.recovered} of {row.loops}",
        f"{row.right_conversations} of {row.conversations}",
        f"{row.markup} of {row.loops + row.conversations}",
        f"{row.seconds:.1f}",
    ]
