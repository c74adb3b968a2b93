"""The results of one case and of one probe: the verdict, what was observed, and their cost in tokens and seconds.

A result contains what is needed to understand its verdict. Of a probe, `evidence` is what was observed, `means`
what follows from it; a probe that cannot decide gives `unclear`.
"""

from collections import Counter
from collections.abc import Iterable
from typing import Final, Literal, TypeAlias

import msgspec

from fcshim.events import JSON

Verdict: TypeAlias = Literal[
    "right",
    "wrong_tool",
    "wrong_arguments",
    "missing_call",
    "extra_call",
    "called_though_none_fits",
    "no_answer",
    "malformed",
    "error",
]
"""`malformed`: a call that cannot be used (truncated, not JSON); `no_answer`: an empty reply where
no call is expected; `error`: the endpoint failed or took too long."""

NATIVE: Final = "native"
"""Takes the place of a dialect: the native tool calling of the endpoint."""


class ActualCall(msgspec.Struct, frozen=True):
    """A call that the model made. With an `error` it is unusable, and `arguments` is the raw text."""

    name: str
    arguments: JSON
    error: str = ""


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one case in one dialect."""

    dialect: str
    id: str
    category: str
    verdict: Verdict
    calls: tuple[ActualCall, ...] = ()
    text: str = ""
    """The text beside the calls, at most 2,000 characters of it."""
    problem: str = ""
    """The error message of the endpoint, if the verdict is `error`."""
    input_tokens: int = 0
    output_tokens: int = 0
    seconds: float = 0.0

    @property
    def right(self) -> bool:
        """Whether the case was answered as expected."""
        return self.verdict == "right"


def count_right(results: Iterable[Result]) -> int:
    """Return the number of right results."""
    return sum(result.right for result in results)


def count_verdicts(verdicts: Iterable[Verdict]) -> dict[str, int]:
    """Return how often each verdict occurs, the most frequent first."""
    return dict(Counter(verdicts).most_common())


ProbeVerdict = Literal["yes", "no", "unclear"]


class ProbeResult(msgspec.Struct, frozen=True):
    """The result of a probe. `means` is what the evidence means for the settings, or empty.

    `value` is a detail for programs; `fatal` means that the model cannot make tool calls.
    """

    verdict: ProbeVerdict
    evidence: str
    means: str = ""
    value: JSON = None
    fatal: bool = False


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """A `ProbeResult` with the name of the probe and a title for the report."""

    probe: str
    title: str
    verdict: ProbeVerdict
    evidence: str
    means: str = ""
    value: JSON = None
    fatal: bool = False
