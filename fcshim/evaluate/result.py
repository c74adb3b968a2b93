"""What came of one case: the verdict, the calls that were made, and what they cost.

Rule: a result holds what is needed to see why the verdict is what it is.
Neighbours: `scoring` finds the verdict, `runner` makes results, `record` keeps them, `summary` counts them.
"""

from typing import Literal, TypeAlias

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


class Call(msgspec.Struct, frozen=True):
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
    calls: tuple[Call, ...] = ()
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
