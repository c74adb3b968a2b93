"""The body syntax with one tag per parameter, as a row of the dialect table gives it.

Rule: data and a bounded look-ahead only; `body` reads the calls.
"""

import functools
import re
from dataclasses import dataclass, replace

from fcshim.parse.body import READING, BodyReader, BodyStatus, DelegatingReader
from fcshim.parse.dialect import Dialect
from fcshim.parse.limits import Limits
from fcshim.parse.markers import named_tool
from fcshim.parse.scanner import MoreNeeded, Scanner, none_if_more_needed
from fcshim.parse.sink import CallSink
from fcshim.parse.tagged.body import TaggedBody
from fcshim.parse.tagged.tag_reading import MAX_NAME_LENGTH, CompiledTags, compile_tags
from fcshim.parse.tagged.tags import BodyHeader, Tag, Tags

_SUFFIX = re.compile(r"[^\s<>:]{1,64}")
_NAME_AND_SPACE = re.compile(r"[^<>\n]{0,256}>?[ \t\r\n]{0,64}")


@dataclass(frozen=True, slots=True)
class TaggedCalls:
    """Calls and parameters in tags; `header` follows those start markers that end with its `marker_end`."""

    tags: Tags
    header: BodyHeader | None = None
    grammar: str = "tagged_call"
    needs_parameter: bool = False
    """True where a name alone in the tags is not a call."""

    @none_if_more_needed
    def begins(self, text: str, pos: int) -> bool:
        """Return whether a call with tagged parameters can start at `pos`; None while more text is needed."""
        if self.header is not None and text.startswith(self.header.marker_end, pos - len(self.header.marker_end)):
            return self.header.find_end(text, pos) > 0
        call, compiled = self.tags.call, compile_tags(self.tags, (), ())
        if not call.head:
            found = compiled.read_confirmed_call(text, pos)
            return found is not None and (
                not self.needs_parameter or compiled.kind_after_space(text, found.end) == "parameter"
            )
        if Scanner(text, compiled.skip_space(text, pos)).skip(call.head):
            return True
        if call.attribute:
            return text.endswith(f"{call.head} {call.attribute}=", 0, pos)
        if not text.startswith(call.head, max(0, pos - len(call.head))):
            return False
        # The start marker is the call's tag. Functionary's looks the same (`<function=`), but JSON follows the name.
        scan = Scanner(text, pos)
        scan.take(_NAME_AND_SPACE)
        return scan.peek() != "{"

    def reader(self, dialect: Dialect, start_marker: str, sink: CallSink, limits: Limits) -> BodyReader:
        """Make the reader of one body."""
        compiled = compile_tags(self.tags, dialect.openers(), dialect.closers())
        return TaggedBody(compiled, self.header, start_marker, sink, limits, dialect)


@dataclass(frozen=True, slots=True)
class SuffixedCalls:
    """Calls whose tags all have one suffix, which the text after the start marker shows (`<tool_calls:6124c78e>`).

    `tags` are those without suffix, and `section_close` is the end marker of a start marker that is not a call's tag.
    """

    tags: Tags
    section_close: str
    grammar: str = "tagged_call"

    @none_if_more_needed
    def begins(self, text: str, pos: int) -> bool:
        """Return whether a suffix follows at `pos`, after the colon of the start marker if that is in the text."""
        return (not pos or text[pos - 1] == ":") and bool(_read_suffix(text, pos))

    def reader(self, dialect: Dialect, start_marker: str, sink: CallSink, limits: Limits) -> BodyReader:
        """Make the reader of one body."""

        def choose(text: str, pos: int) -> tuple[BodyReader, int] | BodyStatus:
            try:
                suffix = _read_suffix(text, pos) if start_marker.endswith(":") else ""
            except MoreNeeded:
                return READING
            if not suffix:
                return BodyStatus.NO_BODY
            marker, end_marker = start_marker + suffix, f"{self.section_close[:-1]}:{suffix}"
            compiled = compile_tags(self.tags.with_suffix(f":{suffix[:-1]}"), (marker,), (end_marker,))
            call = replace(dialect.call, open=marker, close=end_marker, opens=())
            own = replace(dialect, call=call, section=replace(dialect.section, open=""))
            return TaggedBody(compiled, None, marker, sink, limits, own), pos + len(suffix)

        return DelegatingReader(choose)


def _read_suffix(text: str, pos: int) -> str:
    """Return the suffix at `pos` with the end of its tag, or an empty string."""
    scan = Scanner(text, pos)
    return scan.take(_SUFFIX) and scan.skip(">") and text[pos : scan.pos]


@dataclass(frozen=True, slots=True)
class ElementCalls:
    """Calls that are elements with the tool's name, and children with the names of its parameters.

    The start marker is the opening tag: `<read_file>`, or its beginning if the arguments are `attributes` of the tag
    (`<set_timer minutes="5"/>`, `[set_timer minutes=5]`). Only a tool whose parameters are known has children.
    """

    attributes: bool = False
    grammar: str = "tagged_call"

    def begins(self, _text: str, _pos: int) -> bool | None:
        """Return True: the reader checks that a child or the end of the element follows."""
        return True

    def reader(self, dialect: Dialect, start_marker: str, sink: CallSink, limits: Limits) -> BodyReader:
        """Make the reader of the element that `start_marker` opens; the tool's name is in the marker."""
        name = start_marker.strip("</ >[")
        tool = sink.resolve(name)
        bracket = start_marker[0] if self.attributes else ""
        compiled = _compile_element(name, sink.tools.parameter_names(tool) if tool else (), bracket)
        dialect = replace(
            dialect, call=replace(dialect.call, open=start_marker, opens=()), section=replace(dialect.section, open="")
        )
        return TaggedBody(compiled, None, start_marker, sink, limits, dialect)


@dataclass(frozen=True, slots=True)
class TextCalls:
    """Calls of a custom tool: its text stands after a line with its name, or after a start marker that holds it."""

    in_marker: bool = False
    grammar: str = "tagged_call"

    def begins(self, _text: str, _pos: int) -> bool | None:
        """Return True: what selects this syntax has read the name."""
        return True

    def reader(self, dialect: Dialect, start_marker: str, sink: CallSink, limits: Limits) -> BodyReader:
        """Make the reader of one body."""
        call = Tag(start_marker[:-1], name=named_tool(start_marker)) if self.in_marker else Tag("", end="")
        tags = replace(element_tags(""), call=call, call_close=dialect.call.close)
        markers = ((), ()) if self.in_marker else (dialect.openers(), dialect.closers())
        return TaggedBody(compile_tags(tags, *markers), None, start_marker, sink, limits, dialect)


@functools.lru_cache(maxsize=256)
def _compile_element(name: str, keys: tuple[str, ...], bracket: str) -> CompiledTags:
    """Return the tags of the calls of one tool; `keys` are its parameters, attributes follow a `bracket`."""
    # The prefixes of a marker are kept, which take the square of its length: 250 KB would take gigabytes.
    openings = tuple(f"<{key}{end}" for key in keys if len(key) <= MAX_NAME_LENGTH for end in (">", "/>", " />"))
    tags = element_tags(name)
    if bracket:
        tags = replace(tags, call=Tag(bracket, "]" if bracket == "[" else ">"))
    return CompiledTags(tags, (), (), openings)


def element_tags(name: str) -> Tags:
    """Return the tags of an element with the name of a tool; its parameters may be written as children only."""
    return Tags(
        call=Tag(f"<{name}", name=name),
        call_close=f"</{name}>",
        parameter=Tag("<parameter", attribute="name"),
        parameter_close="</parameter>",
        lines=True,
    )
