"""Switch off each rule of the parser, and each row of the table of edits, alone: `python -m benchmarks.ablation`.

A rule earns nothing if without it no reply is wrong or lost, none breaks a law, and none takes much longer.
"""

import argparse
import functools
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from types import FrameType

from benchmarks.ablation import rules

rules.install()  # before what imports the parser

from benchmarks.ablation.judges import Judges, replies  # noqa: E402
from benchmarks.report import Report  # noqa: E402
from fcshim.parse.readings import edits  # noqa: E402

LIMIT = 0.5
"""Seconds of one reply: what takes longer does not end."""
RULE_LIMIT, EDIT_LIMIT = 2.0, 20.0
SLOWER = 2.0
KINDS = ("wrong", "broken", "lost", "slower", "events")


class _SlowError(Exception):
    pass


def _stop(_signal: int, _frame: FrameType | None) -> None:
    raise _SlowError


def _changes(
    judges: Judges, sample: Sequence[int], switch: Callable[[bool], None], limit: float = RULE_LIMIT
) -> Counter[str]:
    """Return what becomes of the replies while a rule is switched off, and of which judges they are."""
    found, began, usual = Counter[str](), time.process_time(), 0.0
    for at in sample:
        usual += _seconds(judges, at)
        switch(True)
        signal.setitimer(signal.ITIMER_VIRTUAL, LIMIT)
        try:
            change = judges.change(at)
        except Exception:  # noqa: BLE001  # whatever the parser without the rule raises
            change = "broken"
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
            switch(False)
        found[change] += 1
        found[judges.replies[at].judge] += change in {"wrong", "broken", "lost"}
        if time.process_time() - began > limit:
            break
    found["slower"] = int(time.process_time() - began - usual > SLOWER * usual)
    return found


def _seconds(judges: Judges, at: int) -> float:
    began = time.process_time()
    judges.replies[at].read()
    return time.process_time() - began


def _switch(number: int, off: bool) -> None:  # noqa: FBT001
    rules.OFF.symmetric_difference_update({number} if off != (number in rules.OFF) else ())


def _edit_rows(judges: Judges, size: int) -> Iterator[list[str | int]]:
    """Switch off each edit: it costs more than any reading may."""
    sample = [at for at, reply in enumerate(judges.replies) if reply.judge in {"mutants", "snippets"}]
    for name, edit in vars(edits).items():
        if isinstance(edit, edits.Edit):
            costs = (edit.cost, edits.MAX_COST + 1)
            switch = functools.partial(_set_cost, edit, costs)
            found = _changes(judges, sample, switch, limit=EDIT_LIMIT)
            yield [name, *(found[kind] for kind in KINDS)]


def _set_cost(edit: edits.Edit, costs: tuple[int, int], off: bool) -> None:  # noqa: FBT001
    object.__setattr__(edit, "cost", costs[off])


def main() -> int:
    """Measure and report."""
    parser = argparse.ArgumentParser(description="Switch off each rule of the parser alone.")
    parser.add_argument("--seeds", type=int, default=1, help="random tools and calls of each mutation")
    parser.add_argument("--snippets", type=int, default=40)
    parser.add_argument("--replies", type=int, default=16, help="replies that are read again for each rule")
    parser.add_argument("--only", default="", help="a part of the names of the rules to switch off")
    options = parser.parse_args()
    signal.signal(signal.SIGVTALRM, _stop)
    judges = Judges(list(replies(options.seeds, options.snippets)))
    print(f"{len(rules.RULES)} rules, {len(judges.replies)} replies", file=sys.stderr, flush=True)
    rows: list[list[str | int]] = []
    for number, rule in enumerate(rules.RULES):
        if options.only in str(rule):
            sample = judges.sample(number, options.replies)
            found = _changes(judges, sample, functools.partial(_switch, number))
            judged = ", ".join(f"{count} {name}" for name, count in found.items() if name in judges.names and count)
            rows.append([str(rule), rules.cost(rule), len(sample), *(found[kind] for kind in KINDS), judged])
    rows.sort(key=lambda row: (sum(map(int, row[3:7])), -int(row[1])))
    report = Report("ablation")
    report.table("each rule switched off alone", ["rule", "lines", "replies", *KINDS, "judges"], rows)
    idle = [row for row in rows if not sum(map(int, row[3:7]))]
    unread = sum(not row[2] for row in rows)
    print(f"\n{len(idle)} of {len(rows)} rules earn nothing, {unread} of them decide in no reply")
    report.table("each edit switched off alone", ["edit", *KINDS], list(_edit_rows(judges, options.replies)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
