"""Read a parameter's value that is written as nested elements: one per object key or array item, with raw leaves.

Theory of operation. Every tag of the format starts with a reserved token, so tags without it are content. An element
with child elements is an object or an array: the schema decides which, else the first child's name does. Any other
element is a leaf. In a leaf only closing tags count: its own, that of an element around it, or the call's.

Rule: the kind of an element is decided at its first child or its first character that is not white space.
"""

import json
import re
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Literal

from fcshim.parse.arguments.buffering import NotStrictError
from fcshim.parse.arguments.writer import ArgumentWriter
from fcshim.parse.limits import Limits
from fcshim.parse.scanner import MoreNeeded, Scanner
from fcshim.parse.tagged.tag_reading import CompiledTags
from fcshim.parse.tagged.untyped import AmbiguousValueError, MissingValueError, UntypedValue
from fcshim.parse.tagged.value_reader import ValueReader
from fcshim.schema.expect import ANY, Expectation
from fcshim.schema.untyped_text import read_untyped_text

_MAX_LEADING_SPACE = 256
"""White space at the start of an element after which its first child may still follow."""
_NAME = re.compile(r"[^<>\s/][^<>\n]{0,255}")
_LOST_CHARACTER = "\ufffd"
"""What a decoder writes for bytes that are no text."""
_ITEM = "item"
_encode_json = json.JSONEncoder(ensure_ascii=False).encode


@dataclass(slots=True)
class _Element:
    """An open element; where `kind` is empty it is a leaf or not decided yet."""

    name: str
    expected: Expectation
    path: tuple[str | int, ...]
    kind: Literal["", "object", "array"] = ""
    child_count: int = 0
    child_name: str = ""
    """The name of its first child."""
    leading_space: str = ""
    """White space at its start, while it is not decided."""
    leaf: UntypedValue | None = None
    is_leaf: bool = False
    quotes_tags: bool = False
    """True where tags are content of the leaf: it must end with its own closing tag."""


class NestedValue(ValueReader):
    """Reads one parameter's element up to its closing tag, or to the end of the call."""

    def __init__(
        self,
        compiled: CompiledTags,
        writer: ArgumentWriter | None,
        name: str,
        expected: Expectation,
        limits: Limits,
        siblings: AbstractSet[str],
    ) -> None:
        """Read the value of the parameter `name`, with the schema's expectation; without a writer it is discarded.

        `siblings` are the parameters that may still follow.
        """
        super().__init__(compiled, is_written=writer is not None)
        self._siblings = siblings
        self._head = compiled.tags.parameter.head
        self._writer = writer
        self._limits = limits
        self._open_elements = [_Element(name, expected, (name,))]
        self._quoted_depth = 0
        """Number of open calls and call bodies that a leaf quotes."""

    @property
    def content(self) -> UntypedValue | None:
        """What further text without a marker may be added to directly."""
        return self._open_elements[-1].leaf if self.is_written and not self.ended else None

    def feed(self, text: str, pos: int) -> int:
        """Read up to a tag, over it or to the end of the text; return the position. Raises `MoreNeeded`."""
        markers = self.compiled.value_markers
        found = markers.search(text, pos)
        at = found.start() + (found[0][0] == "\n") if found else markers.partial_start(text, pos)
        if at > pos:
            self._add_text(text[pos:at])
            return at
        if found is None:
            raise MoreNeeded
        return self._read_tag(text, at)

    # Tags.

    def _read_tag(self, text: str, at: int) -> int:
        """Read the tag at `at`; return the position after it."""
        kind = self.compiled.kind_at(text, at)
        leaf = self._open_elements[-1]
        if kind == "call_close" and leaf.is_leaf and not self._quoted_depth:
            end = self.compiled.end_of_marker(text, at)
            if self.compiled.kind_after_space(text, end) in {"close", "call", "open"}:
                return self._read_outer_tag(False, text, at)  # noqa: FBT003
            return self._quote_tag(text, at, end)
        if kind != "parameter":
            return self._read_outer_tag(kind in {"call", "open"}, text, at)
        scan = Scanner(text, at + len(self._head))
        is_closing = bool(scan.skip("/"))
        name = scan.take(_NAME)
        if not name or not scan.skip(">"):
            return self._quote_tag(text, at, at + len(self._head))
        if self._close_element(name) if is_closing else self._open_element(name):
            return scan.pos
        self._add_text(self._head)
        return at + len(self._head)

    def _quote_tag(self, text: str, at: int, end: int) -> int:
        """Read a tag that is content."""
        self._open_elements[-1].quotes_tags = True
        self._add_text(text[at:end])
        return end

    def _read_outer_tag(self, opens: bool, text: str, at: int) -> int:  # noqa: FBT001  # which of two tags it is
        """Read a tag of a call or of the body: a leaf quotes it, or it ends the value."""
        leaf = self._open_elements[-1].is_leaf
        if leaf and (opens or self._quoted_depth):
            self._quoted_depth += 1 if opens else -1
            end = self.compiled.end_of_marker(text, at)
            self._add_text(text[at:end])
            return end
        self._check_unclosed_leaf()
        while self._open_elements:
            self._end_element()
        return at

    def _check_unclosed_leaf(self) -> None:
        """Fail where an element without closing tag has tags in it, which may be its siblings, or nothing at all."""
        leaf, names = self._open_elements[-1], [element.name for element in self._open_elements]
        is_doubled = any(name != _ITEM and names.count(name) > 1 for name in names)  # rather its closing tag
        if leaf.quotes_tags or is_doubled:
            self.fail(AmbiguousValueError())
        elif not (leaf.kind or leaf.is_leaf):
            self.fail(MissingValueError())

    def _open_element(self, name: str) -> bool:
        parent = self._open_elements[-1]
        if not (parent.kind or parent.is_leaf) and _is_scalar(parent.expected):
            self._begin_leaf(parent)
        if parent.is_leaf or self._quoted_depth:
            self._quote_name(parent, name)
            return False
        if _LOST_CHARACTER in name:
            self.fail(AmbiguousValueError())  # rather a closing tag
        if not parent.kind:
            _begin_container(parent, name)
        step: str | int
        if parent.kind == "array":
            self._write("[" if parent.child_count == 0 else ", ")
            expected, step = parent.expected.item(parent.child_count), parent.child_count
            if name != parent.child_name or (name != _ITEM and expected.lists_member(name)):
                self.fail(AmbiguousValueError())  # the name is a part of the value
        else:
            self._write(("{" if parent.child_count == 0 else ", ") + _encode_json(name) + ": ")
            expected, step = parent.expected.member(name), name
        parent.child_count += 1
        self._open_elements.append(_Element(name, expected, (*parent.path, step)))
        return True

    def _close_element(self, name: str) -> bool:
        leaf = self._open_elements[-1]
        if self._quoted_depth or all(element.name != name for element in self._open_elements):
            self._quote_name(leaf, name)
            return False
        if leaf.name != name:
            self._check_unclosed_leaf()
        while self._open_elements[-1].name != name:
            self._end_element()
        self._end_element()
        return True

    def _quote_name(self, leaf: _Element, name: str) -> None:
        """Take a tag for content; one that may be a sibling's, of a leaf that is not closed, has two readings."""
        if not self._quoted_depth:
            leaf.quotes_tags = True
            if name in self._siblings or any(element.name == name for element in self._open_elements):
                self.fail(AmbiguousValueError())

    def _end_element(self) -> None:
        element = self._open_elements.pop()
        self.ended = not self._open_elements
        if element.kind:
            self._write("}" if element.kind == "object" else "]")
        elif element.is_leaf:
            if element.quotes_tags and not element.expected.only_strings:
                self.fail(AmbiguousValueError())
            if element.leaf is not None:
                self.attempt(element.leaf.end)
        elif element.expected is ANY:
            self.fail(AmbiguousValueError())  # an empty string, object or array
        else:
            self._write(_empty_element_to_json(element.expected, element.leading_space))

    # Writing.

    def _add_text(self, text: str) -> None:
        element = self._open_elements[-1]
        if not text or (element.kind and not text.strip()):
            return
        if element.kind:
            self.fail(NotStrictError())  # text beside elements has no place in JSON
        elif not element.is_leaf and not text.strip() and len(element.leading_space) + len(text) <= _MAX_LEADING_SPACE:
            element.leading_space += text
        else:
            self._begin_leaf(element)
            if element.leaf is not None:
                self.attempt(element.leaf.add, text)

    def _begin_leaf(self, element: _Element) -> None:
        if not element.is_leaf:
            element.is_leaf = True
            self.attempt(self._make_leaf, element)

    def _make_leaf(self, element: _Element) -> None:
        assert self._writer is not None
        element.leaf = UntypedValue(self._writer, element.expected, self._limits, element.path, is_leaf=True)
        if element.leading_space:
            element.leaf.add(element.leading_space)

    def _write(self, text: str) -> None:
        if self._writer is not None:
            self.attempt(self._writer.write, text)


def _is_scalar(expected: Expectation) -> bool:
    """Return whether neither an object nor an array is admitted, so that an element can only be a leaf."""
    return not expected.admits("object", {}) and not expected.admits("array", [])


def _begin_container(element: _Element, child: str) -> None:
    """Begin an object or array; where the schema does not decide, the name of the first child does."""
    is_object, is_array = element.expected.admits("object", {}), element.expected.admits("array", [])
    if is_object == is_array:
        is_array = child == _ITEM
    element.kind = "array" if is_array else "object"
    element.child_name, element.leading_space = child, ""


def _empty_element_to_json(expected: Expectation, text: str) -> str:
    """Return the JSON of an element without content; `text` is its white space."""
    if expected.admits("string", text):
        return read_untyped_text(expected, text)
    if expected.admits("array", []):
        return "[]"
    return "{}" if expected.admits("object", {}) else read_untyped_text(expected, text)
