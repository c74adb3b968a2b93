"""Runs tool-eval-bench, a suite of tasks with tools that judges the calls and the answer, against an endpoint."""

import asyncio
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from tests.conformance.environment import TOOL_EVAL


class ScenarioResult(msgspec.Struct, frozen=True):
    """The suite's verdict on one scenario; `points` are 2 for `pass`, 1 for `partial` and 0 for `fail`."""

    scenario_id: str
    status: str
    points: int
    summary: str = ""


class CategoryScore(msgspec.Struct, frozen=True):
    """The points of one category, and the points that it has."""

    label: str
    earned: int
    max: int


class Scores(msgspec.Struct, frozen=True):
    """What the suite counted."""

    total_points: int
    max_points: int
    category_scores: tuple[CategoryScore, ...]
    scenario_results: tuple[ScenarioResult, ...]


class _Report(msgspec.Struct, frozen=True):
    scores: Scores


class ToolEvalRun(NamedTuple):
    """The scores of a run; None if the suite made no report, and what it printed."""

    scores: Scores | None
    output: str


async def run_tool_eval(url: str, model: str, *options: str, scenarios: Sequence[str] = ()) -> ToolEvalRun:
    """Run scenarios against the OpenAI API of the endpoint at `url`: by default all."""
    selection = ["--scenarios", *scenarios] if scenarios else []
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        process = await asyncio.create_subprocess_exec(
            *(TOOL_EVAL, "run", "--base-url", url, "--format", "openai", "--model", model, "--no-live"),
            *("--no-probe-engine", "--no-warmup", "--no-preflight", "--json-file", report, "--output-dir", folder),
            *(*options, *selection),
            cwd=folder,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        output = (await process.communicate())[0].decode(errors="replace")
        scores = msgspec.json.decode(report.read_bytes(), type=_Report).scores if report.exists() else None
    return ToolEvalRun(scores, output)
