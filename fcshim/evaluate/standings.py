"""The standings of a race between candidates: scores, ranking, elimination, and the cases that are still to run.

Rule: all candidates run the same cases in the same order, so two of them are compared by the cases that both have run.
The score is the mean of the accuracy where calls are expected and of the accuracy where none is; the suite of the race
has as many cases of one kind as of the other.
"""

import math
from collections.abc import Mapping, Sequence
from statistics import fmean

import msgspec

from fcshim.evaluate.result import Verdict, count_verdicts
from fcshim.events import JSON
from fcshim.upstream.measured import ProbeResult

_SIGNIFICANCE = 0.1
"""Probability below which a candidate is behind by more than chance. It is tested after a few rounds only, and the cost
of an error is a candidate that is nearly as good as the best."""
_MIN_FINALISTS = 2
"""So many candidates go on until they differ significantly, or the cases or the time end."""


class Outcome(msgspec.Struct, frozen=True):
    """One case of a candidate: its verdict, whether it expects a call, and whether one came."""

    verdict: Verdict
    expects_call: bool
    made_call: bool

    @property
    def right(self) -> bool:
        """Whether the case was answered as expected."""
        return self.verdict == "right"


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """What is known about a candidate so far. `name` and `settings` are those of its row."""

    name: str
    settings: dict[str, JSON]
    prompt_tokens: int = 0
    """The tokens of the prompt of the probe, which is the same for all; 0 if unknown."""
    probe: ProbeResult | None = None
    """What the model writes when it is shown the candidate's form: this form, another one, or neither; None if that
    was not probed."""
    outcomes: tuple[Outcome, ...] = ()
    dropped: str = ""
    """Why it runs no further cases, or empty."""

    @property
    def right(self) -> int:
        """The number of right cases."""
        return sum(each.right for each in self.outcomes)

    @property
    def score(self) -> float:
        """The score over all cases."""
        return score(self.outcomes)

    @property
    def made_call(self) -> bool:
        """Whether any call came where one was expected."""
        return any(each.made_call for each in self.outcomes if each.expects_call)

    @property
    def has_right_call(self) -> bool:
        """Whether any case that expects a call was right."""
        return any(each.right for each in self.outcomes if each.expects_call)


class CandidateReport(msgspec.Struct, frozen=True, kw_only=True):
    """A standing in figures. `calls` and `no_calls` are the right cases of each kind, and their number."""

    name: str
    settings: dict[str, JSON]
    cases: int
    right: int
    score: float
    calls: tuple[int, int]
    no_calls: tuple[int, int]
    prompt_tokens: int
    probe: ProbeResult | None
    mistakes: dict[str, int]
    dropped: str


def report_on(standing: Standing) -> CandidateReport:
    """Return the figures of a standing."""
    calls, others = _by_kind(standing.outcomes)
    return CandidateReport(
        name=standing.name,
        settings=standing.settings,
        cases=len(standing.outcomes),
        right=standing.right,
        score=round(standing.score, 3),
        calls=(sum(each.right for each in calls), len(calls)),
        no_calls=(sum(each.right for each in others), len(others)),
        prompt_tokens=standing.prompt_tokens,
        probe=standing.probe,
        mistakes=count_verdicts(each.verdict for each in standing.outcomes if not each.right),
        dropped=standing.dropped,
    )


def describe(report: CandidateReport) -> str:
    """Return the figures in one phrase."""
    if not report.cases:
        return "not tried"
    (right_calls, calls), (right_others, others) = report.calls, report.no_calls
    kinds = [f"calls {right_calls} of {calls}"] * bool(calls) + [f"no call {right_others} of {others}"] * bool(others)
    length = f", {report.prompt_tokens} tokens a prompt" if report.prompt_tokens else ""
    mistakes = ", ".join(f"{count} {kind.replace('_', ' ')}" for kind, count in report.mistakes.items())
    return f"{report.right} of {report.cases} right ({', '.join(kinds)}){length}" + (
        f"; {mistakes}" if mistakes else ""
    )


def score(outcomes: Sequence[Outcome]) -> float:
    """Return the mean of both accuracies, from 0 to 1; of one kind of cases alone its accuracy."""
    kinds = [fmean(each.right for each in kind) for kind in _by_kind(outcomes) if kind]
    return fmean(kinds) if kinds else 0.0


def _by_kind(outcomes: Sequence[Outcome]) -> tuple[list[Outcome], list[Outcome]]:
    """Return the outcomes of cases that expect calls, and those of the others."""
    return [each for each in outcomes if each.expects_call], [each for each in outcomes if not each.expects_call]


def rank(standings: Sequence[Standing]) -> list[Standing]:
    """Return the standings, best first, by the cases that all of them have run. Of equal ones, the shorter prompt wins.

    One without a right call is behind all others: a model that never calls is right wherever no call is expected.
    """
    common = min((len(each.outcomes) for each in standings), default=0)

    def key(standing: Standing) -> tuple[bool, float, float]:
        points = score(standing.outcomes[:common])
        return not standing.has_right_call, -points, standing.prompt_tokens or math.inf

    return sorted(standings, key=key)


def find_winner(standings: Sequence[Standing], first_round: int) -> Standing | None:
    """Return the best candidate so far, or None if none has a right call.

    Candidates that were dropped cannot win, and those that have not finished the first round only if none has.
    """
    running = [each for each in standings if each.outcomes and not each.dropped]
    ready = [each for each in running if len(each.outcomes) >= first_round] or running
    return next((each for each in rank(ready) if each.has_right_call), None)


def eliminate(running: Sequence[Standing]) -> dict[str, str]:
    """Return the names of the candidates that run no further cases after a round, each with the reason.

    The leader always goes on, then those that are not behind it for a reason, but at most the better half of the
    candidates (successive halving).
    """
    if not running:
        return {}
    leader, *others = rank(running)
    reasons = {each.name: reason for each in others if (reason := _reason_to_drop(each, leader))}
    rest = [each for each in others if each.name not in reasons]
    kept = max(_MIN_FINALISTS, math.ceil((len(rest) + 1) / 2)) - 1
    return reasons | {each.name: "the better half went on" for each in rest[kept:]}


def _reason_to_drop(other: Standing, leader: Standing) -> str:
    if leader.made_call and not other.made_call:
        return "it made no call"
    if leader.probe == "written" and other.probe not in (None, "written"):
        return "the model does not write this form when it is shown it"
    better, worse = _differences(leader, other)
    if sign_test(better, worse) < _SIGNIFICANCE:
        return f"{leader.name} was better in {better} of the {better + worse} cases in which they differ"
    return ""


def _differences(leader: Standing, other: Standing) -> tuple[int, int]:
    """Return in how many of their common cases only the leader was right, and in how many only the other."""
    pairs = [(one.right, two.right) for one, two in zip(leader.outcomes, other.outcomes, strict=False)]
    return pairs.count((True, False)), pairs.count((False, True))


def sign_test(better: int, worse: int) -> float:
    """Return the probability of at least `better` of all differences if each direction is equally likely."""
    differences = better + worse
    return float(sum(math.comb(differences, count) for count in range(better, differences + 1)) / 2**differences)


def round_sizes(first_round: int, total: int) -> list[int]:
    """Return after how many cases each round ends: the number doubles from round to round, up to all cases."""
    sizes = [min(first_round, total)]
    while sizes[-1] < total:
        sizes.append(min(2 * sizes[-1], total))
    return sizes


def count_cases_left(running: Sequence[Standing], sizes: Sequence[int]) -> int:
    """Return how many cases are still to run if each round halves the candidates; `sizes` are the rounds that are left.

    One candidate alone runs no further round.
    """
    done: Mapping[str, int] = {each.name: len(each.outcomes) for each in running}
    left, candidates, earlier = 0, len(running), 0
    for number, size in enumerate(sizes):
        if number == 0:
            left += sum(max(0, size - count) for count in done.values())
        elif candidates > 1:
            candidates = max(_MIN_FINALISTS, math.ceil(candidates / 2))
            left += candidates * (size - earlier)
        earlier = size
    return left
