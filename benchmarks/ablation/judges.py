"""The replies by which rules are judged, what is read of each with every rule, and the rules that decide in it."""

import functools
import itertools
import json
import random
import signal
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

from benchmarks.ablation import rules

rules.install()  # before what imports the parser

from benchmarks.reading import Sample, _dialects_by_syntax, _in_style, _samples  # noqa: E402
from fcshim.parse.dialects import DIALECTS  # noqa: E402
from fcshim.testing.conformance import load as load_conformance  # noqa: E402
from fcshim.testing.mutations.snippets import snippet_seed, snippets  # noqa: E402
from fcshim.testing.mutations.styles import NOT_ESCAPED  # noqa: E402
from fcshim.testing.mutations.table import MUTATIONS  # noqa: E402
from fcshim.testing.mutations.verdict import Verdict, judge_mutant, read  # noqa: E402
from tests.conformance import test_other_suites as suites  # noqa: E402
from tests.conformance.readers import fcshim as read_conformance  # noqa: E402
from tests.parse import cases  # noqa: E402
from tests.parse.laws import check_reply, executable  # noqa: E402

LIMIT = 0.5
"""Seconds for one reply: what takes longer does not end."""
Change: TypeAlias = Literal["wrong", "broken", "lost", "events", "same"]
"""`wrong`: a call runs that was not meant; `broken`: a law does not hold; `events`: the same calls run, but the text or
an error is another."""
CHANGES: tuple[Change, ...] = ("wrong", "broken", "lost", "events")


class Result(NamedTuple):
    """What was read: the calls that run, all else, and for a mutant the verdict."""

    calls: list[Any]
    rest: Any
    verdict: Verdict | None = None


class Reply(NamedTuple):
    """One reply. `row`: its vector file, suite or mutation."""

    judge: str
    row: str
    read: Callable[[], Result]


def load_replies(seeds: int, count: int) -> Iterator[Reply]:
    """Yield the replies: `seeds` of each mutation, `count` snippets in each style and transcripts of each file."""
    for path in sorted(cases.VECTORS.glob("*.json")):
        for case in cases.load(path.stem):
            yield Reply("vectors", path.stem, functools.partial(_read_vector, case))
    for conformance_case in load_conformance():
        yield Reply("conformance", "ours", functools.partial(_read_conformance, conformance_case))
    for fixture in suites.CASES.values():
        yield Reply("conformance", "CanIToolCall", functools.partial(_read_fixture, fixture))
    yield from _mutants(seeds)
    yield from _snippets(count)
    yield from _transcripts(count)


def _mutants(seeds: int) -> Iterator[Reply]:
    for mutation in MUTATIONS:
        for sample, _ in _samples(mutation, seeds, list(DIALECTS.values())):
            yield Reply("mutants", mutation, functools.partial(_read_mutant, sample))


def _snippets(count: int) -> Iterator[Reply]:
    for syntax, dialects in _dialects_by_syntax().items():
        rng = random.Random(0)
        for at, snippet in enumerate(itertools.islice(snippets(rng), count)):
            for style in NOT_ESCAPED:
                made = _in_style(style, snippet_seed(snippet, rng), dialects[at % len(dialects)], rng)
                if made is not None:
                    yield Reply("snippets", f"{syntax}, {style}", functools.partial(_read_mutant, made[0]))


def _transcripts(count: int) -> Iterator[Reply]:
    for path in sorted((Path(__file__).parents[1] / "models" / "results").rglob("*.jsonl")):
        for line in itertools.islice(path.read_text(encoding="utf-8").splitlines(), count):
            row = json.loads(line)
            tools = [{"name": name} for name in sorted({call["name"] for call in row.get("calls", ())})] or None
            options = {"dialect": path.stem if path.stem in DIALECTS else "function_call", "rescue": tools is not None}
            for part in row["raw"]:
                case = cases.Case(row["id"], part["text"], tools=tools, options=options)
                yield Reply("transcripts", path.stem, functools.partial(_read_vector, case))


def _pieces(text: str) -> list[list[str]]:
    return [[text], [text[at : at + 3] for at in range(0, len(text), 3)]]


def _read_vector(case: cases.Case) -> Result:
    results = []
    for split in _pieces(case.input):
        events, finished = cases.run(case, split)
        results.append(check_reply(case.input, case.stop_reason, events, finished=finished))
    assert results[0] == results[1]
    return Result([(call["call"], call["arguments"]) for call in executable(results[0])], results[0])


def _read_conformance(case: Any) -> Result:
    result = read_conformance([case])[0]
    return Result(list(result.calls), result.text)


def _read_fixture(fixture: suites.Fixture) -> Result:
    whole, cut = (suites.outcome(suites.read_fixture(fixture, split)) for split in _pieces(fixture["raw_output"]))
    assert whole == cut
    return Result(whole[0], whole[1:])


def _read_mutant(sample: Sample) -> Result:
    whole, cut = (read(sample.tools, sample.dialect, sample.mutant, split) for split in _pieces(sample.mutant.text))
    assert whole == cut
    return Result(whole.calls, whole.failed, judge_mutant(whole, sample.mutant, sample.dialect))


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
                self.fired[rule][reply.row].append(at)

    def sample(self, rule: int, size: int) -> list[int]:
        """Return replies in which the rule decides, of each row about as many."""
        groups = list(self.fired[rule].values())
        share = max(1, size // max(1, len(groups)))
        found = [at for group in groups for at in group[:: max(1, len(group) // share)][:share]]
        return found[:: max(1, len(found) // size)]

    def change(self, at: int) -> Change:
        """Return what becomes of a reply with the rules that are off now."""
        signal.setitimer(signal.ITIMER_VIRTUAL, LIMIT)
        try:
            new = self.replies[at].read()
        except Exception:  # noqa: BLE001  # whatever the parser without the rules raises
            return "broken"
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        old = self.results[at]
        if self.replies[at].judge in {"mutants", "snippets"}:
            if "wrong" in {old.verdict, new.verdict}:
                return "same" if old.verdict == new.verdict else "wrong"
            is_lost = old.verdict in {"exact", "two readings"} and new.verdict not in {"exact", "two readings", None}
            is_lost = is_lost or (new.verdict == "lost" != old.verdict)
        else:
            if any(call not in old.calls for call in new.calls) or len(new.calls) > len(old.calls):
                return "wrong"
            is_lost = len(new.calls) < len(old.calls)
        return "lost" if is_lost else "same" if new == old else "events"


def stop_at_limit() -> None:
    """Let a reply end that takes longer than the limit."""
    signal.signal(signal.SIGVTALRM, _stop)


def _stop(*_: object) -> None:
    raise TimeoutError
