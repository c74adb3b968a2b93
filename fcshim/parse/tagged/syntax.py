"""The language of tagged parameters, as a row of the dialect table says it.

Rule: data, and what begins here; nothing is read.
Neighbours: `tags` are its words, `body` is its reader, `dialects.tagged` has the rows.
"""

import re
from dataclasses import dataclass

from fcshim.parse.body import BodyReader
from fcshim.parse.dialect import Dialect
from fcshim.parse.limits import Limits
from fcshim.parse.sink import CallSink
from fcshim.parse.tagged.body import TaggedBody
from fcshim.parse.tagged.tags import BodyHeader, Tags, compile_tags

_NAME_AND_SPACE = re.compile(r"[^<>\n]{0,256}>?[ \t\r\n]{0,64}")


@dataclass(frozen=True, slots=True)
class TaggedCalls:
    """Calls and parameters in tags; `header` is what some of the dialect's opening markers begin."""

    tags: Tags
    header: BodyHeader | None = None
    grammar: str = "tagged_call"

    def begins(self, text: str, pos: int) -> bool | None:
        """Say whether a call with tagged parameters can begin here."""
        if self.header is not None and text.startswith(self.header.marker_end, pos - len(self.header.marker_end)):
            end = self.header.find_end(text, pos)
            return None if end is None else end > 0
        head = self.tags.call.head
        found = compile_tags(self.tags, (), ())
        if not head:
            whole = found.read_confirmed_call(text, pos)
            return None if whole is None else bool(whole)
        at = found.skip_space(text, pos)
        if text.startswith(head, at):
            return True
        if head.startswith(text[at:]):
            return None
        return text.startswith(head, max(0, pos - len(head))) and _marker_begins_call(text, pos)

    def reader(self, dialect: Dialect, opener: str, sink: CallSink, limits: Limits) -> BodyReader:
        """Make the reader of one body."""
        return TaggedBody(self.tags, self.header, dialect, opener, sink, limits)


def _marker_begins_call(text: str, pos: int) -> bool | None:
    """The opening marker is itself the call's tag: Functionary's looks the same, but JSON follows it."""
    named = _NAME_AND_SPACE.match(text, pos)
    assert named is not None
    return text[named.end()] != "{" if named.end() < len(text) else None
