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

from fcshim.parse.arguments.buffering import LimitError, NotStrictError
from fcshim.parse.scanner import MoreNeeded, Scanner
from fcshim.parse.tagged.damage import has_damaged_close, has_damaged_open
from fcshim.parse.tagged.marker_roles import MarkerRole, MarkerRoles
from fcshim.parse.tagged.markup import CallMarkup
from fcshim.parse.tagged.tag_reading import NamedTag
from fcshim.parse.tagged.untyped import AmbiguousValueError, MissingValueError, UntypedValue


class TaggedValue:
    """Finds the end of one value; `value` writes its text, None discards it."""

    def __init__(
        self, markup: CallMarkup, value: UntypedValue | None, tag: NamedTag, seen_keys: AbstractSet[str]
    ) -> None:
        """Read the value that `tag` opens; `markup` is that of the call, `seen_keys` are the keys so far."""
        self._value = value
        self._tag = tag
        self._markup = markup.for_value(tag)
        self.compiled = compiled = self._markup.compiled
        self.roles = MarkerRoles(self._markup, tag.name, seen_keys)
        self.error: LimitError | NotStrictError | None = None
        """Why the value is invalid."""
        self.ending: Literal["", "closed", "unclosed"] = ""
        """How the value ended: with or without its closing tag. Empty before that."""
        self._position: Literal["start", "quote", "quoted", "raw"] = (
            "start" if compiled.tags.lines or compiled.tags.may_have_lines else "quote"
        )
        self._first = self._last = ""
        """The line break at the start that may be markup or content, and the last character."""
        self._is_blank = True
        self._has_markers = False
        """True where a marker is content, but no call is quoted."""

    @property
    def ended(self) -> bool:
        """True after the end of the value."""
        return bool(self.ending)

    @property
    def content(self) -> UntypedValue | None:
        """What further text without a marker may be added to directly."""
        return None if self._is_blank or self.ending else self._value

    @property
    def closing_tag(self) -> str:
        """The tag that ends the value, which an element has for itself."""
        return self.compiled.tags.parameter_close

    def is_damaged(self, content: str) -> bool:
        """Return whether the content of the value, which has ended, contains one of its own tags damaged."""
        if self._tag.lacks_value_open and has_damaged_open(content, self.compiled.tags.value_open):
            return True
        lacks_close = self.ending == "unclosed" and not self._tag.is_unclosed
        return self.may_be_damaged and has_damaged_close(content, self.compiled, unclosed=lacks_close)

    @property
    def may_be_damaged(self) -> bool:
        """True where the value ran over a marker that it does not quote with a call, or has no closing tag."""
        runs_over_marker = self._has_markers and not self.roles.quotes_call
        return self.ending == "unclosed" or self._tag.lacks_value_open or runs_over_marker

    def end_empty(self) -> None:
        """End a value whose tag closes itself."""
        self.ending = "closed"
        if self._value is not None:
            try:
                self._value.end_empty()
            except (LimitError, NotStrictError) as error:
                self._fail(error)

    def discard(self) -> None:
        """Stop sending."""
        self._value = None

    def feed(self, text: str, pos: int) -> int:
        """Read up to a marker, over it or to the end of the text; return the position. Raises `MoreNeeded`."""
        tags = self.compiled.tags
        if self._position == "start":
            self._position = "quote"
            self._first = text[pos]
            if tags.lines and self._first == "\n":
                return pos + 1
        if self._position == "quote":
            scan = Scanner(text, pos)
            is_quoted = bool(tags.quote_open) and bool(scan.skip(tags.quote_open))
            self._position = "quoted" if is_quoted else "raw"
            if is_quoted:
                return scan.pos
        markers = self.compiled.quote_markers if self._position == "quoted" else self.compiled.value_markers
        found = markers.search(text, pos)
        end = found.start() if found else markers.partial_start(text, pos)
        if end > pos:
            self._add_text(text[pos:end])
            return end
        if found is None:
            raise MoreNeeded
        return self._read_marker(text, pos, found[0])

    def _read_marker(self, text: str, pos: int, marker: str) -> int:
        if self._position == "quoted":
            scan = Scanner(text, self.compiled.skip_space(text, pos + len(marker)))
            if scan.skip(self.closing_tag):
                self._end_value("closed")
                return scan.pos
            role: MarkerRole = "content"  # a closing quote that the value's closing tag does not follow
        else:
            may_end = None if self._value is None else self._value.may_end()
            role = self.roles.classify(text, pos, marker, empty=not self._last, may_end=may_end)
            self._has_markers |= role in {"content", "ambiguous"}
        match role:
            case "end":
                self._end_value("closed")
            case "before":
                self._end_value("unclosed")
                return pos + (marker[0] == "\n")
            case "drop":
                return max(pos + len(marker), self.roles.opening_end)
            case "content" | "ambiguous":
                if role == "ambiguous":
                    self._fail(AmbiguousValueError())
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
        self._end_value("closed" if kind == "value_close" else "unclosed")
        return ""

    # Writing.

    def _add_text(self, text: str) -> None:
        self._last = text[-1]
        self._is_blank = self._is_blank and text.isspace()
        if self._value is not None:
            try:
                self._value.add(text)
            except (LimitError, NotStrictError) as error:
                self._fail(error)

    def _end_value(self, ending: Literal["closed", "unclosed"]) -> None:
        self.ending = ending
        may_have_lines = self.compiled.tags.may_have_lines and self._first == self._last == "\n"
        if ending == "unclosed" and self.roles.has_closers:
            self._fail(AmbiguousValueError())
        elif ending == "unclosed" and self._is_blank:
            self._fail(MissingValueError())
        elif may_have_lines and self._value is not None and self._value.may_be_text:
            self._fail(AmbiguousValueError())
        elif self._value is not None:
            try:
                self._value.end()
            except (LimitError, NotStrictError) as error:
                self._fail(error)

    def _fail(self, error: LimitError | NotStrictError) -> None:
        if self._value is not None:
            self.error = error
            self._value = None
