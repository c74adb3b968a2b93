"""Switch off each rule of the parser, and each row of the table of edits, alone: `python -m benchmarks.ablation`.

The judges are the vectors of `tests/parse`, mutants and snippets of `tests/reading`, the cases of `tests/conformance`
and replies of real models. A rule earns nothing if without it no reply is wrong or lost, or breaks a law.
"""

import functools
import itertools
import json
import random
import signal
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.ablation import rules

rules.install()  # before what imports the parser

from benchmarks.reading import Sample, _dialects_by_syntax, _samples, _unescaped  # noqa: E402
from benchmarks.report import Report, arguments  # noqa: E402
from fcshim.parse.dialects import DIALECTS  # noqa: E402
from fcshim.parse.readings import edits  # noqa: E402
from tests.conformance.readers import fcshim as read_conformance  # noqa: E402
from tests.conformance.suite import load as load_conformance  # noqa: E402
from tests.parse import cases  # noqa: E402
from tests.parse.laws import check_reply, executable  # noqa: E402
from tests.reading.mutations import MUTATIONS  # noqa: E402
from tests.reading.snippets import snippet_seed, snippets  # noqa: E402
from tests.reading.verdict import judge_mutant, read  # noqa: E402

LIMIT, RULE_LIMIT, EDIT_LIMIT = 0.5, 2.0, 20.0
"""Seconds for one reply (what takes longer does not end), for one rule, and for one edit."""
KINDS = ("wrong", "broken", "lost", "events")
Result = tuple[list[Any], bool, Any]
"""The calls that run, whether the judge calls them wrong, and all else."""


class Reply(NamedTuple):
    """One reply of a judge; without a verdict of its own, a call is wrong that does not run with the rule."""

    judge: str
    read: Callable[[], Result]


def _replies(seeds: int, count: int) -> Iterator[Reply]:
    for path in sorted(cases.VECTORS.glob("*.json")):
        yield from (Reply("vectors", functools.partial(_read_vector, case)) for case in cases.load(path.stem))
    yield from (Reply("conformance", functools.partial(_read_conformance, case)) for case in load_conformance())
    for mutation in MUTATIONS:
        for sample, _ in _samples(mutation, seeds, list(DIALECTS.values())):
            yield Reply("mutants", functools.partial(_read_mutant, sample))
    rng, dialects = random.Random(0), list(itertools.chain.from_iterable(_dialects_by_syntax().values()))
    for at, snippet in enumerate(itertools.islice(snippets(rng), count)):
        made = _unescaped(snippet_seed(snippet, rng), dialects[at % len(dialects)], rng)
        yield from [Reply("snippets", functools.partial(_read_mutant, made[0]))] if made is not None else []
    for path in sorted((Path(__file__).parents[1] / "models" / "results").rglob("*.jsonl")):
        for line in itertools.islice(path.read_text(encoding="utf-8").splitlines(), count):
            row = json.loads(line)
            tools = [{"name": name} for name in sorted({call["name"] for call in row["calls"]})] or None
            options = {"dialect": path.stem if path.stem in DIALECTS else "hermes", "rescue": tools is not None}
            for part in row["raw"]:
                case = cases.Case(row["id"], part["text"], tools=tools, options=options)
                yield Reply("transcripts", functools.partial(_read_vector, case))


def _pieces(text: str) -> list[list[str]]:
    return [[text], [text[at : at + 3] for at in range(0, len(text), 3)]]


def _read_vector(case: cases.Case) -> Result:
    results = []
    for split in _pieces(case.input):
        events, finished = cases.run(case, split)
        results.append(check_reply(case.input, case.stop_reason, events, finished=finished))
    assert results[0] == results[1]
    return [(call["call"], call["arguments"]) for call in executable(results[0])], False, results[0]


def _read_conformance(case: Any) -> Result:
    result = read_conformance([case])[0]
    return result.calls, False, result.text


def _read_mutant(sample: Sample) -> Result:
    whole, cut = (read(sample.tools, sample.dialect, sample.mutant, split) for split in _pieces(sample.mutant.text))
    assert whole == cut
    return whole.calls, judge_mutant(whole, sample.mutant, sample.dialect) == "wrong", None


class Judges:
    """The replies, what they say with every rule, and the rules that decide in them."""

    def __init__(self, replies: Sequence[Reply]) -> None:
        self.replies = replies
        self.results = [reply.read() for reply in replies]
        self.fired: dict[int, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
        for at, reply in enumerate(replies):
            rules.FIRED.clear()
            reply.read()  # a rule that decided only the first time builds tables, which are cached
            for rule in rules.FIRED:
                self.fired[rule][reply.judge].append(at)

    def sample(self, rule: int, size: int) -> list[int]:
        """Return replies in which the rule decides, of each judge about as many."""
        groups = self.fired[rule].values()
        share = max(1, size // max(1, len(groups)))
        return [at for group in groups for at in group[:: max(1, len(group) // share)][:share]]

    def changes(self, sample: Sequence[int], limit: float) -> tuple[Counter[str], Counter[str]]:
        """Return what becomes of the replies with what is off now, and of which judges those are that become worse."""
        found, judges, began = Counter[str](), Counter[str](), time.process_time()
        for at in sample:
            signal.setitimer(signal.ITIMER_VIRTUAL, LIMIT)
            try:
                change = self._change(at)
            except Exception:  # noqa: BLE001  # whatever the parser without the rule raises
                change = "broken"
            finally:
                signal.setitimer(signal.ITIMER_VIRTUAL, 0)
            found[change] += 1
            judges[self.replies[at].judge] += change in {"wrong", "broken", "lost"}
            if time.process_time() - began > limit:
                break
        return found, +judges

    def _change(self, at: int) -> str:
        calls, was_wrong, rest = self.results[at]
        new, is_wrong, new_rest = self.replies[at].read()
        by_verdict = self.replies[at].judge in {"mutants", "snippets"}
        if (is_wrong and not was_wrong) if by_verdict else any(call not in calls for call in new):
            return "wrong"
        return "lost" if any(call not in new for call in calls) else "events" if new_rest != rest else "same"


def _stop(*_: object) -> None:
    raise TimeoutError


def main() -> int:
    """Measure and report."""
    parser = arguments("Switch off each rule of the parser alone.")
    parser.add_argument("--seeds", type=int, default=1, help="random tools and calls of each mutation")
    parser.add_argument("--snippets", type=int, default=40, help="snippets, and transcripts of each file")
    parser.add_argument("--replies", type=int, default=16, help="replies that are read again for each rule")
    parser.add_argument("--only", default="", help="a part of the names of the rules to switch off")
    options = parser.parse_args()
    signal.signal(signal.SIGVTALRM, _stop)
    judges = Judges(list(_replies(options.seeds, options.snippets)))
    print(f"{len(rules.RULES)} rules, {len(judges.replies)} replies", file=sys.stderr, flush=True)
    rows: list[list[str | int]] = []
    for number, rule in enumerate(rules.RULES):
        if options.only in str(rule):
            rules.OFF.add(number)
            sample = judges.sample(number, options.replies)
            found, worse = judges.changes(sample, RULE_LIMIT)
            rules.OFF.clear()
            rows.append(
                [str(rule), rule.cost(), len(sample), *(found[kind] for kind in KINDS), ", ".join(sorted(worse))]
            )
    rows.sort(key=lambda row: (sum(map(int, row[3:6])), -int(row[1])))
    report = Report("ablation")
    report.table("each rule switched off alone", ["rule", "lines", "replies", *KINDS, "judges"], rows)
    idle = [row for row in rows if not sum(map(int, row[3:6]))]
    unread = sum(not row[2] for row in idle)
    only_vectors = sum(row[7] == "vectors" for row in rows)
    summary = [len(rows), len(idle) - unread, unread, only_vectors, len(rows) - len(idle) - only_vectors]
    columns = ["rules", "earn nothing", "decide in no reply", "needed by vectors alone", "needed by other judges"]
    report.table("summary", columns, [summary])
    damaged = [at for at, reply in enumerate(judges.replies) if reply.judge in {"mutants", "snippets"}]
    edit_rows: list[list[str | int]] = []
    for name, edit in vars(edits).items():
        if isinstance(edit, edits.Edit) and not options.only:
            usual = edit.cost
            object.__setattr__(edit, "cost", edits.MAX_COST + 1)  # more than any reading may cost
            found, _ = judges.changes(damaged, EDIT_LIMIT)
            object.__setattr__(edit, "cost", usual)
            edit_rows.append([name, *(found[kind] for kind in KINDS)])
    report.table("each edit switched off alone", ["edit", *KINDS], edit_rows)
    return report.finish(options.json)


if __name__ == "__main__":
    sys.exit(main())
