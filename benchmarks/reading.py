"""How replies with mistakes are read: every mutation of `fcshim.testing`, in every dialect.

Rule: a wrong call (delivered without an error, and not what was meant) misses the bar in every row. So does a row of
snippets of the standard library with unescaped quotes, of which less than 97 % are exact.

Run `python -m benchmarks.reading`; it takes some minutes. Peers that are
installed (see `tests/conformance/readers.py`) read the mutants of the dialect hermes.
"""

import itertools
import json
import random
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from benchmarks.report import Report, arguments
from fcshim.messages import Tool
from fcshim.parse.dialect import Dialect
from fcshim.parse.dialects import DIALECTS, HERMES
from fcshim.testing.conformance import ConformanceCase, ReaderResult
from fcshim.testing.mutations.seeds import Seed, make_seed
from fcshim.testing.mutations.snippets import snippet_seed, snippets
from fcshim.testing.mutations.styles import NOT_ESCAPED
from fcshim.testing.mutations.table import MUTATIONS, Mutant
from fcshim.testing.mutations.verdict import Delivered, Verdict, can_be_seen, cuts, judge_mutant, read
from tests.conformance.readers import installed

UNESCAPED_QUOTES = "unescaped quotes"
SEEDS, QUICK_SEEDS = 200, 8
SHARE_OF_DIALECTS = 4
"""Each seed is used in every fourth dialect, another quarter each time."""
VERDICTS: tuple[Verdict, ...] = ("exact", "two readings", "error", "lost", "wrong")
SNIPPETS, QUICK_SNIPPETS = 1_500, 60
MAX_NOT_EXACT = 3.0
"""Per cent of the snippets."""
EVERY_SPLIT_SHARE = 0.02
"""The share of mutants that is read with every split into two pieces, beside the three cuts."""
EVERY_SPLIT_SHARE_OF_SNIPPETS = 0.002
"""A snippet is ten times as long, so that it takes a hundred times as long."""


@dataclass(frozen=True, slots=True)
class Sample:
    """A mutant, the tools that are offered, and the selected dialect."""

    tools: Sequence[Tool]
    dialect: Dialect
    mutant: Mutant


def main() -> int:
    """Measure, report and return the exit status: 1 if a bar was missed."""
    parser = arguments("Count what is read of replies with mistakes.")
    parser.add_argument("--seeds", type=int, default=SEEDS, help="random tools and calls of each mutation")
    parser.add_argument("--snippets", type=int, default=SNIPPETS, help="contents whose quotes are not escaped")
    options = parser.parse_args()
    report = Report("reading")
    _report_snippets(report, QUICK_SNIPPETS if options.quick else options.snippets)
    seeds = QUICK_SEEDS if options.quick else options.seeds
    rows = {}
    for mutation in MUTATIONS:
        rows[mutation] = _count(mutation, seeds)
        print(mutation, dict(rows[mutation][0]), file=sys.stderr, flush=True)
    report.table(
        f"mutants of {seeds} seeds in {len(DIALECTS)} dialects",
        ["mutation", "mutants", *VERDICTS, "differ by split"],
        [_row(mutation, *counts) for mutation, counts in rows.items()],
    )
    peers = {mutation: _count_peers(mutation, seeds) for mutation in MUTATIONS}
    names = list(next(iter(peers.values())))
    report.table(
        "mutants in the dialect hermes: exact, and in parentheses wrong, per cent",
        ["mutation", *names],
        [[mutation, *(_shares(counts[name]) for name in names)] for mutation, counts in peers.items() if counts],
    )
    for mutation, (verdicts, differing) in rows.items():
        report.bar(f"{mutation}: wrong calls", verdicts["wrong"], 0)
        report.bar(f"{mutation}: mutants whose calls depend on the split", differing, 0)
    return report.finish(options.json)


def _report_snippets(report: Report, count: int) -> None:
    """Read calls that write snippets of the standard library, each in one dialect of each syntax."""
    rows = {
        f"{syntax}, {style}": _count_snippets(count, dialects, style)
        for syntax, dialects in _dialects_by_syntax().items()
        for style in NOT_ESCAPED
    }
    report.table(
        f"{count} snippets of the standard library with quotes, which are not escaped",
        ["arguments, style", "replies", *VERDICTS, "differ by split"],
        [_row(kind, *counts) for kind, counts in rows.items()],
    )
    for kind, (verdicts, differing) in rows.items():
        not_exact = 100 * (1 - verdicts["exact"] / max(1, verdicts.total()))
        report.bar(f"snippets, {kind}: wrong calls", verdicts["wrong"], 0)
        if kind.endswith(UNESCAPED_QUOTES):
            report.bar(f"snippets, {kind}: calls that are not exact", not_exact, MAX_NOT_EXACT, "%")
        report.bar(f"snippets, {kind}: replies whose calls depend on the split", differing, 0)


def _dialects_by_syntax() -> dict[str, list[Dialect]]:
    """Return the dialects whose strings stand in quotes, by the syntax of their arguments."""
    found: dict[str, list[Dialect]] = {"JSON": [], "Python": []}
    rng = random.Random(0)
    seed = snippet_seed('print("x")', rng)
    for dialect in DIALECTS.values():
        mutant = MUTATIONS[UNESCAPED_QUOTES](seed, dialect, rng)
        if mutant is not None:
            found["JSON" if '"content": ' in mutant.text else "Python"].append(dialect)
    return found


def _count_snippets(count: int, dialects: Sequence[Dialect], style: str) -> tuple[Counter[Verdict], int]:
    rng = random.Random(0)
    chosen = itertools.islice(snippets(rng), count)
    seeds = ((snippet_seed(snippet, rng), dialects[at % len(dialects)]) for at, snippet in enumerate(chosen))
    samples = (_in_style(style, seed, dialect, rng) for seed, dialect in seeds)
    return _judge_all(samples, EVERY_SPLIT_SHARE_OF_SNIPPETS)


def _in_style(style: str, seed: Seed, dialect: Dialect, rng: random.Random) -> tuple[Sample, random.Random] | None:
    mutant = MUTATIONS[style](seed, dialect, rng)
    return None if mutant is None else (Sample(seed.tools, dialect, mutant), rng)


def _row(mutation: str, verdicts: Counter[Verdict], differing: int) -> list[str | int | float]:
    total = max(1, verdicts.total())
    shares = [f"{100 * verdicts[verdict] / total:.1f} %" for verdict in VERDICTS[:-1]]
    return [mutation, verdicts.total(), *shares, verdicts["wrong"], differing]


def _count(mutation: str, seeds: int) -> tuple[Counter[Verdict], int]:
    """Return the verdicts on a mutation, and for how many mutants the calls depend on the split."""
    return _judge_all(_samples(mutation, seeds, DIALECTS.values()), EVERY_SPLIT_SHARE)


def _judge_all(
    samples: Iterable[tuple[Sample, random.Random] | None], every_split_share: float
) -> tuple[Counter[Verdict], int]:
    verdicts, differing = Counter[Verdict](), 0
    for sample, rng in filter(None, samples):
        text = sample.mutant.text
        results = [read(sample.tools, sample.dialect, sample.mutant, pieces) for pieces in cuts(text, rng)]
        if rng.random() < every_split_share:
            results += [
                read(sample.tools, sample.dialect, sample.mutant, [text[:at], text[at:]]) for at in range(len(text))
            ]
        differing += any(result != results[0] for result in results)
        judged = [judge_mutant(result, sample.mutant, sample.dialect) for result in results]
        if None not in judged:
            verdicts[_worst([verdict for verdict in judged if verdict is not None])] += 1
    return verdicts, differing


def _samples(
    mutation: str, seeds: int, dialects: Sequence[Dialect] | Iterator[Dialect]
) -> Iterator[tuple[Sample, random.Random]]:
    rows = list(dialects)
    share = SHARE_OF_DIALECTS if len(rows) > 1 else 1
    for number in range(seeds):
        for dialect in rows[number % share :: share]:
            rng = random.Random(f"{number} {mutation} {dialect.name}")
            seed = make_seed(rng)
            mutant = MUTATIONS[mutation](seed, dialect, rng)
            if mutant is not None and can_be_seen(seed.tools, dialect, mutant):
                yield Sample(seed.tools, dialect, mutant), rng


def _worst(verdicts: Sequence[Verdict]) -> Verdict:
    return max(verdicts, key=VERDICTS.index)


def _count_peers(mutation: str, seeds: int) -> dict[str, Counter[Verdict]]:
    samples = [sample for sample, _ in _samples(mutation, seeds, [HERMES])]
    cases = [_case(sample) for sample in samples]
    return {
        name: Counter(filter(None, map(_judge_peer, samples, read_all(cases))))
        for name, read_all in installed().items()
        if cases
    }


def _case(sample: Sample) -> ConformanceCase:
    tools = [{"type": "function", "function": json.loads(json.dumps(_as_dict(tool)))} for tool in sample.tools]
    return ConformanceCase("", "shims", sample.mutant.text, [], stop_reason=sample.mutant.stop_reason, tools=tools)


def _as_dict(tool: Tool) -> dict[str, object]:
    return {"name": tool.name, "description": tool.description, "parameters": tool.parameters}


def _judge_peer(sample: Sample, result: ReaderResult) -> Verdict | None:
    calls = [(call["name"], call["arguments"]) for call in result.calls]
    return judge_mutant(Delivered(calls, failed=False), sample.mutant, sample.dialect)


def _shares(verdicts: Counter[Verdict]) -> str:
    total = max(1, verdicts.total())
    return f"{100 * verdicts['exact'] / total:.0f} ({100 * verdicts['wrong'] / total:.0f})"


if __name__ == "__main__":
    sys.exit(main())
