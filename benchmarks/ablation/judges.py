"""The judges: replies with what they mean, and what a rule that is switched off changes in them."""

import itertools
import json
import random
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.ablation.rules import FIRED
from benchmarks.reading import Sample, _dialects_by_syntax, _samples, _unescaped
from fcshim.parse.dialects import DIALECTS
from tests.conformance.readers import fcshim as read_conformance
from tests.conformance.suite import ConformanceCase
from tests.conformance.suite import load as load_conformance
from tests.parse import cases
from tests.parse.laws import check_reply, executable
from tests.reading.mutations import MUTATIONS
from tests.reading.snippets import snippet_seed, snippets
from tests.reading.verdict import judge_mutant, read

TRANSCRIPTS = Path(__file__).parents[1] / "models" / "results"
PIECE = 3


@dataclass(frozen=True, slots=True)
class Reply:
    """One reply that a judge reads: `read` returns the calls that run, whether they are wrong, and all else.

    Without a verdict of the judge, a call is wrong that does not run with the rule.
    """

    judge: str
    size: int
    read: Callable[[], tuple[list[Any], bool, Any]]


def replies(seeds: int, count: int) -> Iterator[Reply]:
    """Yield the replies of all judges: `seeds` per mutation, `count` snippets and transcripts of each file."""
    for path in sorted(cases.VECTORS.glob("*.json")):
        yield from (_vector("vectors", case) for case in cases.load(path.stem))
    for case in load_conformance():
        yield Reply("conformance", len(case.input), lambda case=case: _read_conformance(case))
    for mutation in MUTATIONS:
        yield from (_mutant("mutants", sample) for sample, _ in _samples(mutation, seeds, DIALECTS.values()))
    rng, dialects = random.Random(0), list(itertools.chain.from_iterable(_dialects_by_syntax().values()))
    for at, snippet in enumerate(itertools.islice(snippets(rng), count)):
        made = _unescaped(snippet_seed(snippet, rng), dialects[at % len(dialects)], rng)
        yield from [_mutant("snippets", made[0])] if made is not None else []
    for path in sorted(TRANSCRIPTS.rglob("*.jsonl")):
        for line in itertools.islice(path.read_text(encoding="utf-8").splitlines(), count):
            yield from _transcripts(path.stem, json.loads(line))


def _pieces(text: str) -> Iterator[list[str]]:
    yield [text]
    yield [text[at : at + PIECE] for at in range(0, len(text), PIECE)]


def _vector(judge: str, case: cases.Case) -> Reply:
    def run() -> tuple[list[Any], bool, Any]:
        results = []
        for split in _pieces(case.input):
            events, finished = cases.run(case, split)
            results.append(check_reply(case.input, case.stop_reason, events, finished=finished))
        assert results[0] == results[1]
        return [(call["call"], call["arguments"]) for call in executable(results[0])], False, results[0]

    return Reply(judge, len(case.input), run)


def _read_conformance(case: ConformanceCase) -> tuple[list[Any], bool, Any]:
    result = read_conformance([case])[0]
    return result.calls, False, result.text


def _mutant(judge: str, sample: Sample) -> Reply:
    def run() -> tuple[list[Any], bool, Any]:
        whole, cut = (read(sample.tools, sample.dialect, sample.mutant, split) for split in _pieces(sample.mutant.text))
        assert whole == cut
        return whole.calls, judge_mutant(whole, sample.mutant, sample.dialect) == "wrong", None

    return Reply(judge, len(sample.mutant.text), run)


def _transcripts(stem: str, row: dict[str, Any]) -> Iterator[Reply]:
    tools = [{"name": name} for name in sorted({call["name"] for call in row["calls"]})] or None
    case = cases.Case(row["id"], "", tools=tools)
    options = {"dialect": stem if stem in DIALECTS else "hermes", "rescue": tools is not None}
    for part in row["raw"]:
        yield _vector("transcripts", replace(case, input=part["text"], options=options))


class Judges:
    """The replies, what they say with every rule, and the rules that decide in them."""

    def __init__(self, chosen: Sequence[Reply]) -> None:
        self.replies = chosen
        self.names = {reply.judge for reply in chosen}
        self.results = [reply.read() for reply in chosen]
        self.fired: dict[int, list[int]] = defaultdict(list)
        for at in sorted(range(len(chosen)), key=lambda at: chosen[at].size):
            FIRED.clear()
            chosen[at].read()  # a rule that decided only the first time builds tables, which are cached
            for rule in FIRED:
                self.fired[rule].append(at)

    def sample(self, rule: int, size: int) -> list[int]:
        """Return replies in which the rule decides, of every judge about as many."""
        by_judge: dict[str, list[int]] = defaultdict(list)
        for at in self.fired[rule]:
            by_judge[self.replies[at].judge].append(at)
        share = size // max(1, len(by_judge))
        return [at for group in by_judge.values() for at in group[:: max(1, len(group) // share)][:share]]

    def change(self, at: int) -> str:
        """Return what becomes of a reply: `wrong`, `lost`, other `events`, or nothing."""
        calls, was_wrong, rest = self.results[at]
        new, is_wrong, new_rest = self.replies[at].read()
        by_verdict = self.replies[at].judge in {"mutants", "snippets"}
        if (is_wrong and not was_wrong) if by_verdict else any(call not in calls for call in new):
            return "wrong"
        return "lost" if any(call not in new for call in calls) else "events" if new_rest != rest else ""
