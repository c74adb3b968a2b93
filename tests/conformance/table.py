"""The verdicts on the results of readers, as a table of the documentation."""

from collections.abc import Mapping, Sequence

from fcshim.testing.conformance import ConformanceCase, Verdict
from tests.conformance.suites import SuiteResult

SYMBOLS: dict[Verdict, str] = {"right": "✓", "lost": "–", "wrong": "**!**"}


def table(columns: dict[str, list[Verdict]], cases: Sequence[ConformanceCase]) -> str:
    """Return the verdicts as a Markdown table with a column for each reader."""
    lines = [f"| input | {' | '.join(columns)} |", f"|---|{'---|' * len(columns)}"]
    for at, case in enumerate(cases):
        lines.append(f"| {case.name} | {' | '.join(SYMBOLS[verdicts[at]] for verdicts in columns.values())} |")
    sums = [f"{verdicts.count('right')} of {len(cases)}" for verdicts in columns.values()]
    return "\n".join([*lines, f"| **right** | {' | '.join(sums)} |"])


def suite_table(suites: Mapping[str, Mapping[str, SuiteResult]]) -> str:
    """Return how many cases of each suite pass, by the kind of case."""
    lines = ["| suite | cases | passed |", "|---|---|---|"]
    for name, results in suites.items():
        lines += [f"| {name} | {kind} | {result.passed} of {result.total} |" for kind, result in results.items()]
    return "\n".join(lines)
