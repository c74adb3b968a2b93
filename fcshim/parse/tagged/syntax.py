"""The body syntax with one tag per parameter, as a row of the dialect table gives it.

Rule: data and a bounded look-ahead only; `body` reads the calls.
"""

import functools
import re
from dataclasses import dataclass

from fcshim.parse.body import BodyReader
from fcshim.parse.dialect import Dialect
from fcshim.parse.limits import Limits
from fcshim.parse.sink import CallSink
from fcshim.parse.tagged.body import TaggedBody
from fcshim.parse.tagged.tags import BodyHeader, CompiledTags, Tag, Tags, compile_tags

_NAME_AND_SPACE = re.compile(r"[^<>\n]{0,256}>?[ \t\r\n]{0,64}")


@dataclass(frozen=True, slots=True)
class TaggedCalls:
    """Calls and parameters in tags; `header` follows those start markers that end with its `marker_end`."""

    tags: Tags
    header: BodyHeader | None = None
    grammar: str = "tagged_call"

    def begins(self, text: str, pos: int) -> bool | None:
        """Say whether a call with tagged parameters can start at `pos`; None while more text is needed."""
        if self.header is not None and text.startswith(self.header.marker_end, pos - len(self.header.marker_end)):
            end = self.header.find_end(text, pos)
            return None if end is None else end > 0
        head = self.tags.call.head
        found = compile_tags(self.tags, (), ())
        if not head:
            call = found.read_confirmed_call(text, pos)
            return None if call is None else bool(call)
        at = found.skip_space(text, pos)
        if text.startswith(head, at):
            return True
        if head.startswith(text[at:]):
            return None
        return text.startswith(head, max(0, pos - len(head))) and _marker_begins_call(text, pos)

    def reader(self, dialect: Dialect, start_marker: str, sink: CallSink, limits: Limits) -> BodyReader:
        """Make the reader of one body."""
        compiled = compile_tags(self.tags, dialect.openers(), dialect.closers())
        return TaggedBody(compiled, self.header, start_marker, sink, limits)


@dataclass(frozen=True, slots=True)
class ElementCalls:
    """Calls that are elements with the tool's name, and children with the names of its parameters.

    The start marker is the opening tag: `<read_file>`. Only a tool whose parameters are known has children.
    """

    grammar: str = "tagged_call"

    def begins(self, _text: str, _pos: int) -> bool | None:
        """Return True: the reader checks that a child or the end of the element follows."""
        return True

    def reader(self, _dialect: Dialect, start_marker: str, sink: CallSink, limits: Limits) -> BodyReader:
        """Make the reader of the element that `start_marker` opens; the tool's name is in the marker."""
        name = start_marker.strip("</ >")
        tool = sink.resolve(name)
        return TaggedBody(
            _compile_element(name, sink.parameter_names(tool) if tool else ()), None, start_marker, sink, limits
        )


@functools.lru_cache(maxsize=256)
def _compile_element(name: str, keys: tuple[str, ...]) -> CompiledTags:
    """Return the tags of the calls of one tool; `keys` are its parameters."""
    openings = tuple(f"<{key}{end}" for key in keys for end in (">", "/>", " />"))
    return CompiledTags(element_tags(name), (), (), openings)


def element_tags(name: str) -> Tags:
    """Return the tags of an element with the name of a tool; its parameters may be written as children only."""
    return Tags(
        call=Tag(f"<{name}", name=name),
        call_close=f"</{name}>",
        parameter=Tag("<parameter", attribute="name"),
        parameter_close="</parameter>",
        lines=True,
    )


def _marker_begins_call(text: str, pos: int) -> bool | None:
    """Say whether a start marker that is itself the call's tag starts such a call, by the text after the name.

    Functionary's start marker looks the same (`<function=`), but JSON follows the name.
    """
    name = _NAME_AND_SPACE.match(text, pos)
    assert name is not None
    return text[name.end()] != "{" if name.end() < len(text) else None
