"""The result of one probe of an endpoint.

Rule: `evidence` is what was observed, `means` what follows from it; a probe that cannot decide gives `unclear`.
"""

from typing import Literal

import msgspec

from fcshim.events import JSON

ProbeVerdict = Literal["yes", "no", "unclear"]


class ProbeResult(msgspec.Struct, frozen=True):
    """What a probe returns. `means` is what the evidence means for the settings, or empty.

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
