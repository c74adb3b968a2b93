"""Read one parameter's value, which is written raw between its tags, up to its end.

Theory of operation. `marker_roles` says which marker ends the value. One that ends the whole body does so at the end of
the reply only, unless the value quotes a call.

Known limit: the value ends too early at a quoted closing tag if another parameter or the call's end is quoted directly
after it, without the opening tag of that call. What is left of the value then stands between parameters, where no text
may stand, so that the call fails. A call without outer marker has ended by then, and what is left becomes text.

Rule: a value that has two readings is an error, and so is a key without a value.
"""

from collections.abc import Set as AbstractSet
from contextlib import suppress
from typing import Literal

from fcshim.parse.scanner import MoreNeeded, Scanner
from fcshim.parse.tagged.damage import has_damaged_close, has_damaged_open, is_wrapped
from fcshim.parse.tagged.marker_roles import MarkerRole, MarkerRoles
from fcshim.parse.tagged.markup import CallMarkup
from fcshim.parse.tagged.tag_reading import NamedTag
from fcshim.parse.tagged.untyped import AmbiguousValueError, MissingValueError, UntypedValue
from fcshim.parse.tagged.value_reader import ValueReader


class TaggedValue(ValueReader):
    """Finds the end of one value; `value` writes its text, None discards it."""

    def __init__(
        self, markup: CallMarkup, value: UntypedValue | None, tag: NamedTag, seen_keys: AbstractSet[str]
    ) -> None:
        """Read the value that `tag` opens; `markup` is that of the call, `seen_keys` are the keys so far."""
        self._markup = markup.for_value(tag)
        super().__init__(self._markup.compiled, is_written=value is not None)
        self._value = value
        self._tag = tag
        self.roles = MarkerRoles(self._markup, tag.name, seen_keys)
        self.is_unclosed = False
        """True where the value ended without its closing tag."""
        tags = self.compiled.tags
        self._position: Literal["start", "quote", "quoted", "raw"] = (
            "start" if tags.lines or tags.may_have_lines else "quote"
        )
        self._first = self._last = ""
        """The line break at the start that may be markup or content, and the last character."""
        self._is_blank = True
        self._has_markers = False
        """True where a marker is content, but no call is quoted."""

    @property
    def content(self) -> UntypedValue | None:
        """What further text without a marker may be added to directly."""
        return self._value if self.is_written and not (self._is_blank or self.ended) else None

    def is_damaged(self, content: str) -> bool:
        """Return whether the content of the value, which has ended, contains one of its own tags damaged."""
        if self._tag.is_call and (self._has_markers or not self.is_unclosed or is_wrapped(content.strip())):
            return True  # it is not certain where the text begins or ends
        if self._tag.lacks_value_open and has_damaged_open(content, self.compiled.tags.value_open):
            return True
        lacks_close = self.is_unclosed and not self._tag.is_unclosed
        return self.may_be_damaged and has_damaged_close(content, self.compiled, unclosed=lacks_close)

    @property
    def may_be_damaged(self) -> bool:
        """True where the value ran over a marker that it does not quote with a call, or has no closing tag."""
        runs_over_marker = self._has_markers and not self.roles.quotes_call
        return self.is_unclosed or self._tag.lacks_value_open or self._tag.is_call or runs_over_marker

    def feed(self, text: str, pos: int) -> int:
        """Read up to a marker, over it or to the end of the text; return the position. Raises `MoreNeeded`."""
        if self._position in {"start", "quote"} and (start := self._read_start(text, pos)) > pos:
            return start
        markers = self.compiled.quote_markers if self._position == "quoted" else self.compiled.value_markers
        found = markers.search(text, pos)
        end = found.start() if found else markers.partial_start(text, pos)
        if end > pos:
            self._add_text(text[pos:end])
            return end
        if found is None:
            raise MoreNeeded
        return self._read_marker(text, pos, found[0])

    def _read_start(self, text: str, pos: int) -> int:
        """Read the line break or the quote that may stand before the value; return the position after it."""
        tags = self.compiled.tags
        if self._position == "start":
            self._position = "quote"
            self._first = text[pos]
            if tags.lines and self._first == "\n":
                return pos + 1
        scan = Scanner(text, pos)
        is_quoted = bool(tags.quote_open) and bool(scan.skip(tags.quote_open))
        self._position = "quoted" if is_quoted else "raw"
        return scan.pos

    def _read_marker(self, text: str, pos: int, marker: str) -> int:
        if self._position == "quoted":
            scan = Scanner(text, self.compiled.skip_space(text, pos + len(marker)))
            if scan.skip(self.closing_tag):
                self._end_value()
                return scan.pos
            role: MarkerRole = "content"  # a closing quote that the value's closing tag does not follow
        else:
            may_end = self._value.may_end() if self._value is not None and self.is_written else None
            role = self.roles.classify(text, pos, marker, empty=not self._last, may_end=may_end)
            self._has_markers |= role in {"content", "ambiguous"}
        match role:
            case "end":
                self._end_value()
            case "before":
                self._end_value(unclosed=True)
                return pos + (marker[0] == "\n")
            case "drop":
                return max(pos + len(marker), self.roles.opening_end)
            case "content" | "ambiguous":
                if role == "ambiguous":
                    self.fail(AmbiguousValueError())
                self._add_text(marker)
        return pos + len(marker)

    def close(self, tail: str) -> str | None:
        """End the value at the end of the reply: return the text after its call, or None if the value is not closed."""
        found = self.compiled.value_markers.match(tail)
        if self._position == "quoted" or found is None or self.roles.quoted_depth:
            return None
        kind = self.compiled.value_marker_kinds[found[0]]
        if kind != "value_close" and (kind not in {"call_close", "close"} or self.roles.quotes_call):
            return None
        with suppress(MoreNeeded):
            if self.compiled.kind_after_space(tail, found.end()) != "parameter":
                self._markup.kind_after_space(tail, found.end())
            return None  # what follows is known, or the opening of a parameter that is not complete
        self._end_value(unclosed=kind != "value_close")
        return ""

    # Writing.

    def _add_text(self, text: str) -> None:
        self._last = text[-1]
        self._is_blank = self._is_blank and text.isspace()
        if self._value is not None:
            self.attempt(self._value.add, text)

    def _end_value(self, *, unclosed: bool = False) -> None:
        self.ended, self.is_unclosed = True, unclosed
        may_have_lines = self.compiled.tags.may_have_lines and self._first == self._last == "\n"
        if unclosed and self.roles.has_closers:
            self.fail(AmbiguousValueError())
        elif unclosed and self._is_blank:
            self.fail(MissingValueError())
        elif self._value is not None:
            if may_have_lines and self._value.may_be_text:
                self.fail(AmbiguousValueError())
            self.attempt(self._value.end)
