"""The verdicts on the results of readers, as a table of the documentation."""

from collections.abc import Sequence

from fcshim.testing.conformance import ConformanceCase, Verdict

SYMBOLS: dict[Verdict, str] = {"right": "✓", "lost": "–", "wrong": "**!**"}


def table(columns: dict[str, list[Verdict]], cases: Sequence[ConformanceCase]) -> str:
    """Return the verdicts as a Markdown table with a column for each reader."""
    lines = [f"| input | {' | '.join(columns)} |", f"|---|{'---|' * len(columns)}"]
    for at, case in enumerate(cases):
        lines.append(f"| {case.name} | {' | '.join(SYMBOLS[verdicts[at]] for verdicts in columns.values())} |")
    sums = [f"{verdicts.count('right')} of {len(cases)}" for verdicts in columns.values()]
    return "\n".join([*lines, f"| **right** | {' | '.join(sums)} |"])
