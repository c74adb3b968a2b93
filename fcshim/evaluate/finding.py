"""What one probe found out about an endpoint.

Rule: a finding says what was seen before it says what that means; who cannot tell says `unclear`.
Neighbours: the probes make findings, the doctor reports them and draws settings from them.
"""

from typing import Literal

import msgspec

from fcshim.events import JSON

ProbeVerdict = Literal["yes", "no", "unclear"]


class ProbeResult(msgspec.Struct, frozen=True):
    """The answer to a question. `evidence` is what was seen, `means` what follows from it for settings, if anything.

    `value` is what else was found out, for programs; `fatal` where no tool call can come of it.
    """

    verdict: ProbeVerdict
    evidence: str
    means: str = ""
    value: JSON = None
    fatal: bool = False


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """The same with the question: the probe's name, and a title for people."""

    probe: str
    title: str
    verdict: ProbeVerdict
    evidence: str
    means: str = ""
    value: JSON = None
    fatal: bool = False
