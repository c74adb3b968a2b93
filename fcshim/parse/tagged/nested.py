"""One parameter's value that is written as elements in elements: objects by their keys, arrays as items, leaves raw.

Theory of operation. Every tag of the format begins with a word that nothing else has, so tags without it are content.
An element with elements in it is an object or an array: the schema says which, else the first child's name does. Any
other is a leaf. In a leaf only a closing tag counts: its own, one of an element around it, or the call's end.

Rule: what an element means is said as soon as its first child or its first character is seen.
Neighbours: `call` makes it, `untyped` takes the leaves, `value` is the same for values without elements.
"""

import json
import re
from dataclasses import dataclass
from typing import Literal

from fcshim.parse.arguments.buffering import LimitError, NotStrictError
from fcshim.parse.arguments.writer import ArgumentWriter
from fcshim.parse.limits import Limits
from fcshim.parse.tagged.tags import Spelling
from fcshim.parse.tagged.untyped import UntypedValue
from fcshim.schema.expect import Expectation

_LONGEST_LEAD = 256
"""White space at the beginning of an element behind which its first child may follow."""
_LONGEST_TAG = 300
_TAG = re.compile(r"(/?)([^<>\s/]{1,256})>")
_TAG_BEGUN = re.compile(r"/?[^<>\s/]{0,256}\Z")
_ITEM = "item"
_encoded = json.JSONEncoder(ensure_ascii=False).encode


@dataclass(slots=True)
class _Element:
    """An element that is open; it is a leaf or undecided where `kind` is empty."""

    name: str
    expected: Expectation
    place: tuple[str | int, ...]
    kind: Literal["", "object", "array"] = ""
    count: int = 0
    lead: str = ""
    """White space, while it is undecided."""
    leaf: UntypedValue | None = None
    begun: bool = False
    """True where it is a leaf."""


class NestedValue:
    """Reads one parameter's element up to its closing tag, or to the end of the call."""

    def __init__(
        self, spelling: Spelling, writer: ArgumentWriter | None, name: str, expected: Expectation, limits: Limits
    ) -> None:
        """Take the parameter's name, and what the schema expects of it; without a writer the value is dropped."""
        self.wait = False
        self.ended = False
        self.fault: LimitError | NotStrictError | None = None
        """Why the value could not be taken."""
        self._spelling = spelling
        self._head = spelling.tags.parameter.head
        self._writer = writer
        self._limits = limits
        self._open = [_Element(name, expected, (name,))]
        self._quoted = 0
        """Calls, and bodies of calls, that a leaf quotes and that are not closed yet."""

    @property
    def flows(self) -> bool:
        """True where text without a marker is sent as it comes."""
        leaf = None if self.ended else self._open[-1].leaf
        return self._writer is not None and leaf is not None and leaf.is_text

    def drop(self) -> None:
        """Send nothing any more."""
        self._writer = None

    def feed(self, text: str, pos: int) -> int:
        """Read up to the value's end or the text's; gives the place."""
        self.wait = False
        found = self._spelling.value.search(text, pos)
        at = found.start() + (found[0][0] == "\n") if found else self._spelling.value.partial_start(text, pos)
        self._say(text[pos:at])
        if found is None:
            self.wait = at < len(text)
            return at
        end = self._tag(text, at)
        self.wait = end is None
        return at if end is None else end

    def close(self, _tail: str) -> str | None:
        """The reply ended by itself here: an element is never complete without its closing tag."""
        return None

    # Tags.

    def _tag(self, text: str, at: int) -> int | None:
        """Read the tag at `at`: gives where to go on, None where more text must be seen."""
        kind = self._spelling.kind_at(text, at)
        if kind is None:
            return None
        if kind != "parameter":
            return self._outer_tag(kind in {"call", "open"}, text, at)
        behind = at + len(self._head)
        found = _TAG.match(text, behind)
        if found is None and len(text) - behind < _LONGEST_TAG and _TAG_BEGUN.match(text, behind):
            return None
        if found is None or not (self._close_element(found[2]) if found[1] else self._open_element(found[2])):
            self._say(text[at:behind])
            return behind
        return found.end()

    def _outer_tag(self, opens: bool, text: str, at: int) -> int:  # noqa: FBT001  # which of two tags it is
        """A tag of a call, or of the body: the value quotes it, or it is over."""
        leaf = self._open[-1].begun
        if leaf and (opens or self._quoted):
            self._quoted += 1 if opens else -1
            end = self._spelling.behind(text, at)
            self._say(text[at:end])
            return end
        while self._open:
            self._end_element()
        self.ended = True
        return at

    def _open_element(self, name: str) -> bool:
        parent = self._open[-1]
        if parent.begun or self._quoted:
            return False
        if not parent.kind:
            parent.kind = _container(parent.expected, name)
            parent.lead = ""
        step: str | int
        if parent.kind == "array":
            self._write("[" if parent.count == 0 else ", ")
            expected, step = parent.expected.item(parent.count), parent.count
        else:
            self._write(("{" if parent.count == 0 else ", ") + _encoded(name) + ": ")
            expected, step = parent.expected.member(name), name
        parent.count += 1
        self._open.append(_Element(name, expected, (*parent.place, step)))
        return True

    def _close_element(self, name: str) -> bool:
        if self._quoted or all(element.name != name for element in self._open):
            return False
        while self._open[-1].name != name:
            self._end_element()
        self._end_element()
        self.ended = not self._open
        return True

    def _end_element(self) -> None:
        element = self._open.pop()
        if element.kind:
            self._write("}" if element.kind == "object" else "]")
        elif element.begun:
            self._take(element, "", last=True)
        else:
            self._write(_empty(element.expected, element.lead))

    # What is said.

    def _say(self, text: str) -> None:
        element = self._open[-1]
        if not text or (element.kind and not text.strip()):
            return
        if element.kind:
            self._fail(NotStrictError())  # text beside elements has no place in JSON
        elif not element.begun and not text.strip() and len(element.lead) + len(text) <= _LONGEST_LEAD:
            element.lead += text
        else:
            self._begin_leaf(element)
            self._take(element, text)

    def _begin_leaf(self, element: _Element) -> None:
        if not element.begun:
            element.begun = True
            if self._writer is not None:
                self._take(element, element.lead, first=True)

    def _take(self, element: _Element, text: str, *, first: bool = False, last: bool = False) -> None:
        if self._writer is None:
            return
        try:
            if first or element.leaf is None:
                element.leaf = UntypedValue(self._writer, element.expected, self._limits, element.place)
            if text:
                element.leaf.add(text)
            if last:
                element.leaf.end()
        except (LimitError, NotStrictError) as fault:
            self._fail(fault)

    def _write(self, text: str) -> None:
        if self._writer is None:
            return
        try:
            self._writer.write(text)
        except (LimitError, NotStrictError) as fault:
            self._fail(fault)

    def _fail(self, fault: LimitError | NotStrictError) -> None:
        if self._writer is not None:
            self.fault = fault
            self._writer = None


def _container(expected: Expectation, child: str) -> Literal["object", "array"]:
    """Say what an element with such a child in it is."""
    is_object, is_array = expected.admits("object", {}), expected.admits("array", [])
    if is_object != is_array:
        return "object" if is_object else "array"
    return "array" if child == _ITEM else "object"


def _empty(expected: Expectation, text: str) -> str:
    """Give the JSON of an element with nothing in it."""
    if expected.admits("string", text):
        return expected.from_text(text)
    if expected.admits("array", []):
        return "[]"
    return "{}" if expected.admits("object", {}) else expected.from_text(text)
