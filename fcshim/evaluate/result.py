"""What came of one case: the verdict, the calls that were made, and what they cost.

Rule: a result holds what is needed to see why the verdict is what it is.
Neighbours: `scoring` finds the verdict, `runner` makes results, `record` keeps them, `summary` counts them.
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
"""`malformed`: a call that cannot be used (cut off, not JSON); `no_answer`: nothing was said where no call fits;
`error`: the endpoint failed, or took too long."""

NATIVE: Final = "native"
"""In the place of a dialect: none at all, but the endpoint's own tool calling."""


class ActualCall(msgspec.Struct, frozen=True):
    """A call as it was made; with an `error` it could not have been used, and `arguments` are the text that came."""

    name: str
    arguments: JSON
    error: str = ""


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """What came of one case in one dialect."""

    dialect: str
    id: str
    category: str
    verdict: Verdict
    calls: tuple[ActualCall, ...] = ()
    text: str = ""
    """What was said beside the calls; its beginning, where that is long."""
    problem: str = ""
    """What the endpoint said where the verdict is `error`."""
    input_tokens: int = 0
    output_tokens: int = 0
    seconds: float = 0.0

    @property
    def right(self) -> bool:
        """Whether the case was answered as expected."""
        return self.verdict == "right"


def count_right(results: Iterable[Result]) -> int:
    """Count the right ones."""
    return sum(result.right for result in results)


def count_verdicts(results: Iterable[Result]) -> dict[str, int]:
    """Count the verdicts, the most frequent first."""
    return dict(Counter(result.verdict for result in results).most_common())
