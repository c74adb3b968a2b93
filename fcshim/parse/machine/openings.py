"""Find the call or section that opens at a marker, in any combination of a wrapper and a body.

Theory of operation. A marker selects the dialects that have it, and the text after it decides between them. With
`any_body`, a body of another syntax is read too, and so is a tag that no dialect has, if a body follows it: its calls
stay pending until its own end marker. A tag before the start marker of a call opens a section.

Rule: a body that its dialect does not have must begin with the name of an offered tool, or a known key.
"""

import functools
import re
from dataclasses import replace
from typing import TypeAlias

from fcshim.parse.arguments.entities import escape_marker
from fcshim.parse.body_selection import (
    begins_with_argument,
    has_syntax,
    holds_elements,
    select_arguments,
    select_body,
    select_element,
    select_line,
    select_name_as_key,
    select_named_body,
)
from fcshim.parse.dialect import Body, CallMarkers, Dialect, Markers
from fcshim.parse.machine.invented_results import begins_result
from fcshim.parse.machine.known_markers import Opening, StartMarkers, is_whole_tag
from fcshim.parse.machine.wrapper_tags import FIRST_CHARS, WrapperTag, read_wrapper_tag
from fcshim.parse.markers import named_tool
from fcshim.parse.scanner import MoreNeeded, Scanner, decided
from fcshim.parse.sink import CallSink

FoundOpening: TypeAlias = tuple[Opening, str] | None
"""An opening with its marker; None for none. The methods raise `MoreNeeded` where the text does not decide."""

_MAX_BACKTICKS = 3
_BACKTICKS = re.compile(r"`*+")
_LIST_ITEM = re.compile(r"(?:[-*]|\d{1,3}+(?:[.)]|\Z))(?:[ \t]{1,4}+|\Z)")
"""A list item that may hold a call, or what may become one; `+` rather begins the added line of a diff."""
_MAX_TAGS = 16
"""Different unknown tags in one reply: the end markers of each are compiled."""


class OpeningFinder:
    """Finds openings; without `any_body` only those of the dialects themselves."""

    def __init__(self, start_markers: StartMarkers, sink: CallSink, *, any_body: bool) -> None:
        self._start_markers = start_markers
        self._sink = sink
        self._any_body = any_body
        self.in_answer = False
        """True in a message that the dialect's header declares to be the answer: a call without tags in it is text."""
        self._unknown_tags: list[str] = []

    def knows(self, marker: str) -> bool:
        """Return whether a dialect has this marker: the prompt escapes those, not an element named like a tool."""
        return marker in self._start_markers.openings

    def tool_of(self, marker: str) -> str:
        """Return the offered tool that a tag around a call names, in an attribute or as an element; else ""."""
        name = named_tool(marker)
        if not name and (marker[:1] != "<" or self.knows(marker)):
            return ""
        return self._sink.tools.find(name or marker.strip("<> ")) or ""

    def find(self, marker: str, text: str, start: int) -> FoundOpening:
        """Return what the known marker at `start` opens."""
        if self._any_body and marker[0] == "<" and marker.endswith("name="):
            named = self._find_unknown_tag(text, start)
            if named:
                return named
        if self._any_body and is_whole_tag(marker):
            opening = self._find_any_body(marker, text, start)
            call = None if opening else self._find_call_after(text, start + len(marker))
            if call:
                opening = _open_section(marker, self._closers(marker), call)
        else:
            opening = self._start_markers.find_opening(marker, text, start)
        return (opening, marker) if opening else None

    def find_at_line_start(self, marker: str, text: str, start: int) -> FoundOpening:
        """Return what the character `marker` at `start` opens: a body without a marker, or an unknown tag."""
        if self.in_answer:
            return None
        found = self.find(marker, text, start) if marker in self._start_markers.openings else None
        if found or not self._any_body:
            return found
        if marker in "{｛":
            body = select_name_as_key(self._sink, text, start)
            return (_line_opening(body, ""), marker) if body else None
        tag = self._find_unknown_tag(text, start) if marker in FIRST_CHARS else None
        return tag or self._find_in_list(text, start)

    def find_next(self, text: str, pos: int) -> FoundOpening:
        """Return what opens at `pos`, where only calls are read."""
        marker = self._start_markers.read(text, pos)
        if marker in self._start_markers.line_start_chars:
            return self.find_at_line_start(text[pos], text, pos)
        if not marker:
            return self.find_line(text, pos)
        if marker not in self._start_markers.line_start_markers:
            return self.find(marker, text, pos)
        opening = self._start_markers.find_opening(f"\n{marker}", text, pos - 1)
        return (opening, marker) if opening else None

    def find_line(self, text: str, pos: int) -> FoundOpening:
        """Return the call that begins at `pos`, the start of a line, without a marker or in a code span."""
        if not self._any_body or self.in_answer:
            return None
        quote = Scanner(text, pos).take(_BACKTICKS)
        if len(quote) > _MAX_BACKTICKS:
            return None
        body = select_line(self._sink, text, pos + len(quote), quoted=bool(quote))
        return (_line_opening(body, quote), quote) if body else None

    def _find_in_list(self, text: str, pos: int) -> FoundOpening:
        """Return the call in an item of a Markdown list; the item's bullet is a part of its marker."""
        item = Scanner(text, pos).take(_LIST_ITEM)
        at = pos + len(item)
        if not item or (text[at].isalpha() and not self._sink.tools.may_begin_call(text[at])):
            return None
        is_tag = text[at] in FIRST_CHARS and text[at] != "["
        found = (self._find_unknown_tag if is_tag else self.find_line)(text, at)
        return found and (replace(found[0], starts_body=False), item + found[1])

    def find_in_section(self, section: Dialect, text: str, pos: int) -> FoundOpening:
        """Return the call of a section that opens at `pos`."""
        marker = Scanner(text, pos).skip(*section.openers())
        if marker:
            return self._find_call_of_section(section, marker, text, pos)
        element = self.find_element(text, pos) if holds_elements(section.body) else None
        return (_in_section(element[0], section), element[1]) if element else None

    def _find_call_of_section(self, section: Dialect, marker: str, text: str, pos: int) -> FoundOpening:
        """Return the call that a start marker of the section opens: in the section's syntax, else in another one."""
        begins = not self._any_body or decided(section.body.begins(text, pos + len(marker)))
        found = None if begins else self.find(marker, text, pos)
        if found and not found[0].section:
            return _in_section(found[0], section), marker
        return Opening(section, primary=False), marker

    def find_element(self, text: str, pos: int) -> FoundOpening:
        """Return the call whose element, named like an offered tool, opens at `pos`."""
        found = self._any_body and not self.in_answer and select_element(self._sink, text, pos)
        if not found:
            return None
        body, marker, close = found
        return _open_wrapper(marker, (close,), body), marker

    def _find_any_body(self, marker: str, text: str, start: int) -> Opening | None:
        """Return what the known marker at `start` opens before any body."""
        pos = start + len(marker)
        try:
            own = self._start_markers.find_opening(marker, text, start)
        except MoreNeeded:
            body = select_named_body(self._sink, text, pos)
            if not body:
                raise
            return _open_wrapper(marker, self._closers(marker), body)
        if own and own.section:
            return own
        # A dialect's own syntax may begin with words too; an offered tool's name and a bracket are more certain.
        body = (select_named_body if own else select_body)(self._sink, text, pos)
        if not body or (own and has_syntax(own.dialect.body, body)):
            return own
        return _open_wrapper(marker, self._closers(marker), body)

    def _closers(self, marker: str) -> tuple[str, ...]:
        opening = self._start_markers.openings[marker][0]
        return opening.dialect.section.closers() if opening.section else opening.dialect.closers()

    def _find_call_after(self, text: str, pos: int) -> Opening | None:
        """Return the call whose start marker follows at `pos`, after a tag, which then opens a section."""
        scan = Scanner(text, pos)
        scan.take()
        marker = self._start_markers.inline_marker_set.read(text, scan.pos)
        if marker:
            opening = self._find_any_body(marker, text, scan.pos)
        else:
            element = self.find_element(text, scan.pos)
            opening = element[0] if element else None
        return None if opening and opening.section else opening

    def _find_unknown_tag(self, text: str, pos: int) -> FoundOpening:
        element = self.find_element(text, pos)
        if element:  # like any XML, it may be shown in text, so that only calls may follow it
            element = replace(element[0], is_word=True), element[1]
        has_attributes = element and element[1][-1] in " \t"
        tag = None if has_attributes else read_wrapper_tag(text, pos)
        if not tag:
            return element
        is_result = self._sink.accepted_count and begins_result(tag.text, follow_call=False)
        if is_result or tag.text.startswith(self._start_markers.result_markers):
            return None
        end = pos + len(tag.text)
        body = select_body(self._sink, text, end)
        if not body or self._sink.tools.takes_text(named_tool(tag.text)):  # its argument may have a key of calls
            body = select_arguments(self._sink, tag.text, text, end)
        if element and (not body or begins_with_argument(self._sink, tag.found["name"], text, end)):
            return element
        if body and tag.text not in self._unknown_tags:
            if len(self._unknown_tags) == _MAX_TAGS:
                return None
            self._unknown_tags.append(tag.text)
        content = body or self._find_call_after(text, end)
        return self._open_unknown_tag(tag, content) if content else None

    def _open_unknown_tag(self, tag: WrapperTag, content: Body | Opening) -> FoundOpening:
        """Return what a tag opens: one body, or a section that begins with a call."""
        closers = self._closers_of_unknown(tag)
        opening = (
            _open_section(tag.text, closers, content)
            if isinstance(content, Opening)
            else _open_wrapper(tag.text, closers, content, without_text=True)
        )
        return replace(opening, end_markers=closers), tag.text

    def _closers_of_unknown(self, tag: WrapperTag) -> tuple[str, ...]:
        """Return the end markers of the tag, and of the known marker that it is in escaped spelling."""
        marker = tag.text.replace("&lt;", "<").replace("&gt;", ">")
        if marker == tag.text or marker not in self._start_markers.openings:
            return tag.closers()
        closers = self._closers(marker)
        return tuple(dict.fromkeys((*tag.closers(), *map(escape_marker, closers), *closers)))


@functools.lru_cache(maxsize=64)
def _line_opening(body: Body, quote: str) -> Opening:
    """Return the opening of a call without a marker, or in a code span."""
    dialect = Dialect("line", "", body, CallMarkers(quote, quote, at_line_start=True, without_text=True))
    return Opening(dialect, primary=False, starts_body=not quote)


def _in_section(opening: Opening, section: Dialect) -> Opening:
    """Return the opening of a call that the section's end marker may end."""
    return replace(opening, dialect=replace(opening.dialect, section=section.section))


def _open_wrapper(marker: str, closers: tuple[str, ...], body: Body, *, without_text: bool = False) -> Opening:
    close, *closes = closers or ("",)
    dialect = Dialect("wrapper", "", body, CallMarkers(marker, close, closes=tuple(closes), without_text=without_text))
    return Opening(dialect, primary=False)


def _open_section(marker: str, closers: tuple[str, ...], call: Opening) -> Opening:
    """Return the section of calls that a tag opens, from its first call."""
    close, *closes = closers or ("",)
    dialect = replace(call.dialect, section=Markers(marker, close, closes=tuple(closes)))
    return Opening(dialect, primary=False, section=True)
