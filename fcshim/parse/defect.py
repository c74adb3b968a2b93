"""What was meant as a call and is none: a mark among the events, for who can ask the model once more.

Rule: it is an empty text, so whoever does not look for it loses nothing; what the call was follows as text.
Neighbours: `calls` makes it where `StreamParser(marked=True)`; `retry` looks for it.
"""

from typing import Literal

from fcshim.events import Text

DefectKind = Literal["unoffered", "unreadable"]


class CallDefect(Text, frozen=True, gc=False, kw_only=True):
    """The text that follows was to be a call: of a tool that is not offered (`name`), or one that cannot be read."""

    fault: DefectKind
    name: str = ""
