"""Switch off each rule of the parser, and each row of the table of edits, alone: `python -m benchmarks.ablation`.

A rule earns nothing if without it no reply of a judge (see `judges.py`) is wrong or lost, or breaks a law.
"""

import sys
import time
from collections import Counter

from benchmarks.ablation import rules
from benchmarks.ablation.judges import CHANGES, Change, Judges, load_replies, stop_at_limit
from benchmarks.report import Report, arguments
from fcshim.parse.readings import edits

RULE_LIMIT, EDIT_LIMIT = 2.0, 20.0
"""Seconds for one rule, and for one edit."""
WORSE: tuple[Change, ...] = ("wrong", "broken", "lost")


def main() -> int:
    """Measure and report."""
    parser = arguments("Switch off each rule of the parser alone.")
    parser.add_argument("--seeds", type=int, default=1, help="random tools and calls of each mutation")
    parser.add_argument("--snippets", type=int, default=40, help="snippets, and transcripts of each file")
    parser.add_argument("--replies", type=int, default=16, help="replies that are read again for each rule")
    parser.add_argument("--only", default="", help="a part of the names of the rules to switch off")
    options = parser.parse_args()
    stop_at_limit()
    judges = Judges(list(load_replies(options.seeds, options.snippets)))
    print(f"{len(rules.RULES)} rules, {len(judges.replies)} replies", file=sys.stderr, flush=True)
    report = Report("ablation")
    _report_rules(report, judges, options.only, options.replies)
    if not options.only:
        _report_edits(report, judges)
    return report.finish(options.json)


def _report_rules(report: Report, judges: Judges, only: str, size: int) -> None:
    rows: list[list[str | int]] = []
    for number, rule in enumerate(rules.RULES):
        if only in str(rule):
            rules.OFF.add(number)
            sample = judges.sample(number, size)
            found, worse = _changes(judges, sample, RULE_LIMIT)
            rules.OFF.clear()
            rows.append(
                [str(rule), rule.cost(), len(sample), *(found[kind] for kind in CHANGES), ", ".join(sorted(worse))]
            )
    rows.sort(key=lambda row: (sum(map(int, row[3:6])), -int(row[1])))
    report.table("each rule switched off alone", ["rule", "lines", "replies", *CHANGES, "judges"], rows)
    idle = [row for row in rows if not sum(map(int, row[3:6]))]
    unread = sum(not row[2] for row in idle)
    only_vectors = sum(row[7] == "vectors" for row in rows)
    summary = [len(rows), len(idle) - unread, unread, only_vectors, len(rows) - len(idle) - only_vectors]
    columns = ["rules", "earn nothing", "decide in no reply", "needed by vectors alone", "needed by other judges"]
    report.table("summary", columns, [summary])


def _report_edits(report: Report, judges: Judges) -> None:
    damaged = [at for at, reply in enumerate(judges.replies) if reply.judge in {"mutants", "snippets"}]
    rows: list[list[str | int]] = []
    for name, edit in vars(edits).items():
        if isinstance(edit, edits.Edit):
            usual = edit.cost
            object.__setattr__(edit, "cost", edits.MAX_COST + 1)  # more than any reading may cost
            found, _ = _changes(judges, damaged, EDIT_LIMIT)
            object.__setattr__(edit, "cost", usual)
            rows.append([name, *(found[kind] for kind in CHANGES)])
    report.table("each edit switched off alone", ["edit", *CHANGES], rows)


def _changes(judges: Judges, sample: list[int], limit: float) -> tuple[Counter[Change], Counter[str]]:
    """Return what becomes of the replies with what is off now, and of which judges those are that become worse."""
    found, worse, began = Counter[Change](), Counter[str](), time.process_time()
    for at in sample:
        change = judges.change(at)
        found[change] += 1
        worse[judges.replies[at].judge] += change in WORSE
        if time.process_time() - began > limit:
            break
    return found, +worse


if __name__ == "__main__":
    sys.exit(main())
