"""Internal event: an attempted call was rejected and is emitted as text. The retry logic reads it.

Rule: the event is an empty `Text`, so a consumer that does not know it can treat it as text and loses nothing. The
parser emits it only with `StreamParser(marked=True)`; the rejected call follows it as ordinary text.
"""

from typing import Literal

from fcshim.events import Text

DefectKind = Literal["unoffered", "unreadable"]


class CallDefect(Text, frozen=True, gc=False, kw_only=True):
    """The text that follows was an attempted call: to a tool that is not offered (`name`), or in unreadable syntax."""

    fault: DefectKind
    name: str = ""
