"""Read a parameter's value that is written as nested elements: one per object key or array item, with raw leaves.

Theory of operation. Every tag of the format starts with a reserved token, so tags without it are content. An element
with child elements is an object or an array: the schema decides which, else the first child's name does. Any other
element is a leaf. In a leaf only closing tags count: its own, that of an element around it, or the call's.

Rule: the kind of an element is decided at its first child or its first character that is not white space.
"""

import json
import re
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Literal

from fcshim.parse.arguments.buffering import LimitError, NotStrictError
from fcshim.parse.arguments.writer import ArgumentWriter
from fcshim.parse.limits import Limits
from fcshim.parse.tagged.tags import CompiledTags
from fcshim.parse.tagged.untyped import AmbiguousValueError, MissingValueError, UntypedValue
from fcshim.schema.expect import ANY, Expectation
from fcshim.schema.untyped_text import read_untyped_text

_MAX_LEADING_SPACE = 256
"""White space at the start of an element after which its first child may still follow."""
_MAX_TAG_LENGTH = 300
_TAG = re.compile(r"(/?)([^<>\s/][^<>\n]{0,255})>")
_PARTIAL_TAG = re.compile(r"/?(?:[^<>\s/][^<>\n]{0,255})?\Z")
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
    quoted_names: dict[str, int] = field(default_factory=dict)
    """The open tags in the leaf that could be a sibling's whose predecessor is not closed."""
    may_repeat: bool = False
    """True where its value may be an element of an array whose other elements have the same tag."""
    is_repeated: bool = False
    last_leaf: tuple[str, UntypedValue] | None = None
    """The name and the value of its last child, which is written when it does not come again."""


class NestedValue:
    """Reads one parameter's element up to its closing tag, or to the end of the call."""

    def __init__(
        self,
        compiled: CompiledTags,
        writer: ArgumentWriter | None,
        name: str,
        expected: Expectation,
        limits: Limits,
        siblings: AbstractSet[str] = frozenset(),
        leaf: UntypedValue | None = None,
    ) -> None:
        """Read the value of the parameter `name`, with the schema's expectation; without a writer it is discarded.

        `siblings` are the parameters that may still follow; `leaf` has the elements before, if the parameter is
        repeated.
        """
        self._siblings = siblings
        self.closing_tag = compiled.tags.parameter_close
        self.wait = False
        self.ended = False
        self.error: LimitError | NotStrictError | None = None
        """Why the value is invalid."""
        self._compiled = compiled
        self._head = compiled.tags.parameter.head
        self._writer = writer
        self._limits = limits
        is_repeated = leaf is not None
        may_repeat = expected is not ANY
        self._open_elements = [
            _Element(
                name, expected, (name,), leaf=leaf, is_leaf=is_repeated, may_repeat=may_repeat, is_repeated=is_repeated
            )
        ]
        self.last: UntypedValue | None = None
        """The value, if it may be the first element of an array: it is not written yet."""
        self._quoted_depth = 0
        """Number of open calls and call bodies that a leaf quotes."""

    @property
    def content(self) -> UntypedValue | None:
        """What further text without a marker may be added to directly."""
        return None if self._writer is None or self.ended else self._open_elements[-1].leaf

    def end_empty(self) -> None:
        """End a value whose tag closes itself."""
        self._end_element()
        self.ended = True

    def discard(self) -> None:
        """Stop sending."""
        self._writer = None

    def feed(self, text: str, pos: int) -> int:
        """Read up to the end of the value or of the text; return the position."""
        self.wait = False
        found = self._compiled.value_markers.search(text, pos)
        at = found.start() + (found[0][0] == "\n") if found else self._compiled.value_markers.partial_start(text, pos)
        self._add_text(text[pos:at])
        if found is None:
            self.wait = at < len(text)
            return at
        end = self._read_tag(text, at)
        self.wait = end is None
        return at if end is None else end

    def close(self, _tail: str) -> str | None:
        """Return None at the end of the reply: an element is never complete without its closing tag."""
        return None

    # Tags.

    def _read_tag(self, text: str, at: int) -> int | None:
        """Read the tag at `at`; return the position after it, None where more text is needed."""
        kind = self._compiled.kind_at(text, at)
        if kind is None:
            return None
        if kind == "call_close" and self._open_elements[-1].is_leaf and not self._quoted_depth:
            return self._read_call_close(text, at)
        if kind != "parameter":
            return self._read_outer_tag(kind in {"call", "open"}, text, at)
        after = at + len(self._head)
        found = _TAG.match(text, after)
        if found is None and len(text) - after < _MAX_TAG_LENGTH and _PARTIAL_TAG.match(text, after):
            return None
        if found is None or not (self._close_element(found[2]) if found[1] else self._open_element(found[2])):
            self._open_elements[-1].quotes_tags |= found is None
            self._add_text(text[at:after])
            return after
        return found.end()

    def _read_call_close(self, text: str, at: int) -> int | None:
        """Read the call's closing tag in a leaf: it is content unless another call or the end of the body follows."""
        end = self._compiled.end_of_marker(text, at)
        following = self._compiled.kind_after_space(text, end)
        if following is None:
            return None
        if following in {"close", "call", "open"}:
            return self._read_outer_tag(False, text, at)  # noqa: FBT003
        self._open_elements[-1].quotes_tags = True
        self._add_text(text[at:end])
        return end

    def _read_outer_tag(self, opens: bool, text: str, at: int) -> int:  # noqa: FBT001  # which of two tags it is
        """Read a tag of a call or of the body: a leaf quotes it, or it ends the value."""
        leaf = self._open_elements[-1].is_leaf
        if leaf and (opens or self._quoted_depth):
            self._quoted_depth += 1 if opens else -1
            end = self._compiled.end_of_marker(text, at)
            self._add_text(text[at:end])
            return end
        self._check_unclosed_leaf()
        while self._open_elements:
            self._end_element()
        self.ended = True
        return at

    def _check_unclosed_leaf(self) -> None:
        """Fail where an element without closing tag has tags in it, which may be its siblings, or nothing at all."""
        leaf, names = self._open_elements[-1], [element.name for element in self._open_elements]
        is_doubled = any(name != _ITEM and names.count(name) > 1 for name in names)  # rather its closing tag
        if leaf.quotes_tags or is_doubled:
            self._fail(AmbiguousValueError())
        elif not (leaf.kind or leaf.is_leaf):
            self._fail(MissingValueError())

    def _open_element(self, name: str) -> bool:
        parent = self._open_elements[-1]
        if not (parent.kind or parent.is_leaf) and _is_scalar(parent.expected):
            self._begin_leaf(parent)
        if parent.is_leaf or self._quoted_depth:
            self._count_quoted(parent, name, 1)
            return False
        if _LOST_CHARACTER in name:
            self._fail(AmbiguousValueError())  # rather a closing tag
        if not parent.kind:
            parent.kind, parent.child_name = _container_kind(parent.expected, name), name
            parent.leading_space = ""
        if self._repeats_last(parent, name):
            return True
        step: str | int
        if parent.kind == "array":
            self._write("[" if parent.child_count == 0 else ", ")
            expected, step = parent.expected.item(parent.child_count), parent.child_count
            if name != parent.child_name or (name != _ITEM and expected.lists_member(name)):
                self._fail(AmbiguousValueError())  # the name is a part of the value
        else:
            self._write(("{" if parent.child_count == 0 else ", ") + _encode_json(name) + ": ")
            expected, step = parent.expected.member(name), name
        parent.child_count += 1
        self._open_elements.append(_Element(name, expected, (*parent.path, step), may_repeat=parent.kind == "object"))
        return True

    def _repeats_last(self, parent: _Element, name: str) -> bool:
        """Begin the next element of the array that the last child began, if it has the same name; else write that."""
        last, parent.last_leaf = parent.last_leaf, None
        if last is None or self._writer is None:
            return False
        if last[0] != name:
            self._flush(last[1])
            return False
        last[1].begin_next_element()
        path = (*parent.path, name)
        self._open_elements.append(
            _Element(name, ANY, path, leaf=last[1], is_leaf=True, may_repeat=True, is_repeated=True)
        )
        return True

    def _flush(self, value: UntypedValue) -> None:
        try:
            value.flush()
        except (LimitError, NotStrictError) as error:
            self._fail(error)

    def _close_element(self, name: str) -> bool:
        leaf = self._open_elements[-1]
        is_quoted = leaf.quoted_names.get(name, 0) > 0
        if self._quoted_depth or is_quoted or all(element.name != name for element in self._open_elements):
            self._count_quoted(leaf, name, -1 if is_quoted else 0)
            return False
        if leaf.name != name or any(leaf.quoted_names.values()):
            self._check_unclosed_leaf()
        while self._open_elements[-1].name != name:
            self._end_element()
        self._end_element()
        self.ended = not self._open_elements
        return True

    def _count_quoted(self, leaf: _Element, name: str, change: int) -> None:
        """Count a tag that is content, unless a quoted call has it."""
        if self._quoted_depth:
            return
        leaf.quotes_tags = True
        if name in self._siblings or any(element.name == name for element in self._open_elements):
            leaf.quoted_names[name] = leaf.quoted_names.get(name, 0) + change

    def _end_element(self) -> None:
        element = self._open_elements.pop()
        if element.kind:
            if element.last_leaf is not None and self._writer is not None:
                self._flush(element.last_leaf[1])
            self._write("}" if element.kind == "object" else "]")
        elif element.is_leaf:
            if element.quotes_tags and (element.is_repeated or not element.expected.only_strings):
                self._fail(AmbiguousValueError())
            self._write_leaf(element, "", last=True)
            self._keep_leaf(element)
        elif element.expected is ANY and self._writer is not None:
            self._fail(AmbiguousValueError())  # an empty string, object or array
        else:
            self._write(_empty_element_to_json(element.expected, element.leading_space))

    def _keep_leaf(self, element: _Element) -> None:
        """Keep a value that may be the first element of an array."""
        if element.leaf is None or not element.leaf.may_repeat or self._writer is None:
            return
        if self._open_elements:
            self._open_elements[-1].last_leaf = element.name, element.leaf
        else:
            self.last = element.leaf

    # Writing.

    def _add_text(self, text: str) -> None:
        element = self._open_elements[-1]
        if not text or (element.kind and not text.strip()):
            return
        if element.kind:
            self._fail(NotStrictError())  # text beside elements has no place in JSON
        elif not element.is_leaf and not text.strip() and len(element.leading_space) + len(text) <= _MAX_LEADING_SPACE:
            element.leading_space += text
        else:
            self._begin_leaf(element)
            self._write_leaf(element, text)

    def _begin_leaf(self, element: _Element) -> None:
        if not element.is_leaf:
            element.is_leaf = True
            if self._writer is not None:
                self._write_leaf(element, element.leading_space, first=True)

    def _write_leaf(self, element: _Element, text: str, *, first: bool = False, last: bool = False) -> None:
        if self._writer is None:
            return
        try:
            if first or element.leaf is None:
                element.leaf = UntypedValue(
                    self._writer,
                    element.expected,
                    self._limits,
                    element.path,
                    is_leaf=True,
                    repeatable=element.may_repeat,
                )
            if text:
                element.leaf.add(text)
            if last:
                element.leaf.end()
        except (LimitError, NotStrictError) as error:
            self._fail(error)

    def _write(self, text: str) -> None:
        if self._writer is None:
            return
        try:
            self._writer.write(text)
        except (LimitError, NotStrictError) as error:
            self._fail(error)

    def _fail(self, error: LimitError | NotStrictError) -> None:
        if self._writer is not None:
            self.error = error
            self._writer = None


def _is_scalar(expected: Expectation) -> bool:
    """Return whether neither an object nor an array is admitted, so that an element can only be a leaf."""
    return not expected.admits("object", {}) and not expected.admits("array", [])


def _container_kind(expected: Expectation, child: str) -> Literal["object", "array"]:
    """Return the kind of an element whose first child has this name."""
    is_object, is_array = expected.admits("object", {}), expected.admits("array", [])
    if is_object != is_array:
        return "object" if is_object else "array"
    return "array" if child == _ITEM else "object"


def _empty_element_to_json(expected: Expectation, text: str) -> str:
    """Return the JSON of an element without content; `text` is its white space."""
    if expected.admits("string", text):
        return read_untyped_text(expected, text)
    if expected.admits("array", []):
        return "[]"
    return "{}" if expected.admits("object", {}) else read_untyped_text(expected, text)
