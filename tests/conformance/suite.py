"""The inputs on which other parsers were seen to fail, and the judgement of one reader's answers.

Rule: what a reader gives is compared as a client would see it: the calls that run, and the text that is shown.
Neighbours: `cases.json` holds the inputs, `readers` read them, `__main__` makes the table.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

Verdict = Literal["right", "lost", "wrong"]
Call = dict[str, Any]
SYMBOLS: dict[Verdict, str] = {"right": "✓", "lost": "–", "wrong": "**!**"}
PROPERTIES = {"text": {"type": "string"}, "n": {"type": "integer"}, "flag": {"type": "boolean"}}
TOOLS: list[dict[str, Any]] = [
    {"type": "function", "function": {"name": "write", "parameters": {"type": "object", "properties": PROPERTIES}}}
]


@dataclass(frozen=True, slots=True)
class ConformanceCase:
    """One input: the calls it means, and the text, where it was lost or changed elsewhere (white space apart)."""

    name: str
    origin: Literal["shims", "engines"]
    input: str
    calls: list[Call]
    text: str | None = None
    stop_reason: str = "complete"

    def pieces(self) -> list[str]:
        """Return the input as it streams: one delta where that is the point, else four characters each."""
        if "one delta" in self.name:
            return [self.input]
        return [self.input[at : at + 4] for at in range(0, len(self.input), 4)]


@dataclass(frozen=True, slots=True)
class ReaderResult:
    """What a reader made of an input: the calls that it would run, and the text."""

    calls: list[Call]
    text: str


Reader = Callable[[Sequence[ConformanceCase]], list[ReaderResult]]
"""Reads all cases; an answer for each."""


def load() -> list[ConformanceCase]:
    """Return the cases in the order of the table."""
    path = Path(__file__).with_name("cases.json")
    return [ConformanceCase(**case) for case in json.loads(path.read_text(encoding="utf-8"))]


def judge(case: ConformanceCase, answer: ReaderResult) -> Verdict:
    """Say whether the answer is right, loses a call or text, or is wrong: runs what it should not, or differently."""
    if any(call not in case.calls for call in answer.calls):
        return "wrong"
    if answer.calls != case.calls:
        return "lost"
    if case.text is not None and case.text.strip() != answer.text.strip():
        return "lost" if len(answer.text.strip()) < len(case.text.strip()) else "wrong"
    return "right"


def table(columns: dict[str, list[Verdict]], cases: Sequence[ConformanceCase]) -> str:
    """Write the verdicts as a Markdown table, a column for each reader."""
    lines = [f"| input | {' | '.join(columns)} |", f"|---|{'---|' * len(columns)}"]
    for at, case in enumerate(cases):
        lines.append(f"| {case.name} | {' | '.join(SYMBOLS[verdicts[at]] for verdicts in columns.values())} |")
    sums = [f"{verdicts.count('right')} of {len(cases)}" for verdicts in columns.values()]
    return "\n".join([*lines, f"| **right** | {' | '.join(sums)} |"])
