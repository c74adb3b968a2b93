"""Read one parameter's value, which is written raw between its tags, up to its end.

Theory of operation. `marker_roles` says which marker ends the value. One that ends the whole body does so at the end of
the reply only, unless the value quotes a call.

Known limit: the value ends too early at a quoted closing tag if another parameter or the call's end is quoted directly
after it, without the opening tag of that call. What is left of the value then stands between parameters, where no text
may stand, so that the call fails. A call without outer marker has ended by then, and what is left becomes text.

Rule: a value that has two readings is an error, and so is a key without a value.
"""

from collections.abc import Set as AbstractSet

from fcshim.parse.arguments.buffering import LimitError, NotStrictError
from fcshim.parse.tagged.damage import has_damaged_close, has_damaged_open
from fcshim.parse.tagged.marker_roles import MarkerRole, MarkerRoles
from fcshim.parse.tagged.markup import CallMarkup
from fcshim.parse.tagged.untyped import AmbiguousValueError, MissingValueError, UntypedValue


class TaggedValue:
    """Finds the end of one value; `value` writes its text, None discards it."""

    def __init__(
        self,
        markup: CallMarkup,
        value: UntypedValue | None,
        key: str,
        seen_keys: AbstractSet[str],
    ) -> None:
        """Read the value of `key`; `markup` is that inside the value, `seen_keys` are the keys so far."""
        self._value = value
        self.error: LimitError | NotStrictError | None = None
        """Why the value is invalid."""
        self.wait = False
        self.ended = False
        self.has_closing_tag = False
        """True where the value ended with its closing tag."""
        self._compiled = compiled = markup.compiled
        self._markup = markup
        self.roles = MarkerRoles(markup, key, seen_keys)
        self.needs_close = True
        """False for text in the place of parameters, which no closing tag follows."""
        self.lacks_opening = False
        """True where the tag that opens the value is missing."""
        self._may_skip_line_break = compiled.tags.lines
        self._may_begin_with_line = compiled.tags.may_have_lines
        self._begins_with_line = self._ends_with_line = False
        """Where line breaks around the value may be markup: whether it begins and ends with one."""
        self._may_open_quote = bool(compiled.tags.quote_open)
        self._in_quote = False
        self._has_markers = False
        """True where a marker is content, but no call is quoted."""
        self.is_unclosed = False
        """True where the value ended without its closing tag."""
        self._is_empty = self._is_blank = True

    @property
    def content(self) -> UntypedValue | None:
        """What further text without a marker may be added to directly."""
        return None if self._is_blank or self.ended else self._value

    @property
    def closing_tag(self) -> str:
        """The tag that ends the value, which an element has for itself."""
        return self._compiled.tags.parameter_close

    def is_damaged(self, content: str) -> bool:
        """Return whether the content of the value, which has ended, contains one of its own tags damaged."""
        if self.lacks_opening and has_damaged_open(content, self._compiled.tags.value_open):
            return True
        lacks_close = self.is_unclosed and self.needs_close
        return self.may_be_damaged and has_damaged_close(content, self._compiled, unclosed=lacks_close)

    @property
    def may_be_damaged(self) -> bool:
        """True where the value ran over a marker that it does not quote with a call, or has no closing tag."""
        runs_over_marker = self._has_markers and not self.roles.quotes_call
        return self.is_unclosed or self.lacks_opening or runs_over_marker

    def end_empty(self) -> None:
        """End a value whose tag closes itself."""
        if self._value is not None:
            try:
                self._value.end_empty()
            except (LimitError, NotStrictError) as error:
                self.error = error
        self.ended = True

    def discard(self) -> None:
        """Stop sending."""
        self._value = None

    def feed(self, text: str, pos: int) -> int:
        """Read up to the end of the value or of the text; return the position."""
        self.wait = False
        if self._may_skip_line_break:
            self._may_skip_line_break = False
            if text[pos] == "\n":
                return pos + 1
        if self._may_begin_with_line:
            self._may_begin_with_line = False
            self._begins_with_line = text[pos] == "\n"
        if self._may_open_quote:
            return self._read_open_quote(text, pos)
        if self._in_quote:
            return self._read_quoted(text, pos)
        found = self._compiled.value_markers.search(text, pos)
        if found is None:
            end = self._compiled.value_markers.partial_start(text, pos)
            self._add_text(text[pos:end])
            self.wait = end < len(text)
            return end
        self._add_text(text[pos : found.start()])
        may_end = None if self._value is None else self._value.may_end()
        role = self.roles.classify(text, found.start(), found[0], empty=self._is_empty, may_end=may_end)
        if role is None:
            self.wait = True
            return found.start()
        return self._apply_role(role, found[0], found.start(), found.end())

    def _read_open_quote(self, text: str, pos: int) -> int:
        quote = self._compiled.tags.quote_open
        self.wait = quote.startswith(text[pos:]) and text[pos:] != quote
        if self.wait:
            return pos
        self._may_open_quote = False
        self._in_quote = text.startswith(quote, pos)
        return pos + len(quote) if self._in_quote else pos

    def _read_quoted(self, text: str, pos: int) -> int:
        """Read quoted content; a closing quote that the value's closing tag does not follow is content."""
        found = self._compiled.quote_markers.search(text, pos)
        end = found.start() if found else self._compiled.quote_markers.partial_start(text, pos)
        self._add_text(text[pos:end])
        if found is None:
            self.wait = end < len(text)
            return end
        closing_tag = self._compiled.tags.parameter_close
        after = self._compiled.skip_space(text, found.end())
        if text.startswith(closing_tag, after):
            self._end_value()
            return after + len(closing_tag)
        self.wait = closing_tag.startswith(text[after:])
        if self.wait:
            return end
        self._add_text(found[0])
        return found.end()

    def close(self, tail: str) -> str | None:
        """End the value at the end of the reply: return the text after its call, or None if the value is not closed."""
        if self._in_quote:
            return None
        found = self._compiled.value_markers.match(tail)
        if found is not None and not self.roles.quoted_depth:
            if self._compiled.kind_after_space(tail, found.end()) == "parameter":
                return None  # its opening is not complete
            next_kind = self._markup.kind_after_space(tail, found.end())
            kind = self._compiled.value_marker_kinds[found[0]]
            unmistakable = kind == "value_close" or (kind in {"call_close", "close"} and not self.roles.quotes_call)
            if next_kind is None and unmistakable:
                self._end_value(unclosed=kind != "value_close")
                return ""
        return None

    def _apply_role(self, role: MarkerRole, marker: str, start: int, end: int) -> int:
        match role:
            case "end":
                self.has_closing_tag = True
                self._end_value()
                return end
            case "before":
                self._end_value(unclosed=True)
                return start + (marker[0] == "\n")
            case "drop":
                return max(end, self.roles.opening_end)
            case "ambiguous":
                self._fail(AmbiguousValueError())
        self._has_markers = True
        self._add_text(marker)
        return end

    # Writing.

    def _add_text(self, text: str) -> None:
        if not text:
            return
        self._is_empty = False
        self._ends_with_line = text[-1] == "\n"
        self._is_blank = self._is_blank and text.isspace()
        self._write(text)

    def _write(self, text: str, *, last: bool = False) -> None:
        if self._value is None:
            return
        try:
            if text:
                self._value.add(text)
            if last:
                self._value.end()
        except (LimitError, NotStrictError) as error:
            self.error = error
            self._value = None

    def _end_value(self, *, unclosed: bool = False) -> None:
        """End the value; `unclosed` says that its closing tag is missing."""
        self.is_unclosed = unclosed
        if unclosed and self.roles.has_closers:
            self._fail(AmbiguousValueError())
        elif unclosed and self._is_blank:
            self._fail(MissingValueError())
        elif self._begins_with_line and self._ends_with_line and self._value is not None and self._value.may_be_text:
            self._fail(AmbiguousValueError())
        self._write("", last=True)
        self.ended = True

    def _fail(self, error: NotStrictError) -> None:
        if self._value is not None:
            self.error = error
            self._value = None
