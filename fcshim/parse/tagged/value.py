"""Find the end of one parameter's value, which is written raw between its tags.

Theory of operation. A closing tag may be content of the value. It ends the value only if another parameter or the end
of the call follows. Markers inside a complete call that the value quotes never end it. Where the closing tag is
missing, another parameter or the call's end also ends the value, if it is unambiguous. A marker that ends the whole
body pauses the value: if nothing else ends the value later, that marker did, unless the value quotes a call.

Known limit: the value ends too early at a quoted closing tag if another parameter or the call's end is quoted directly
after it, without the opening tag of that call.

Rule: the role of a marker depends only on the text after it, never on how the text was split.
"""

from collections.abc import Set as AbstractSet
from typing import Literal

from fcshim.parse.arguments.buffering import LimitError, NotStrictError
from fcshim.parse.limits import Limits
from fcshim.parse.tagged.tags import CompiledTags, MarkerKind
from fcshim.parse.tagged.untyped import UntypedValue
from fcshim.schema.expect import ANY, Expectation

MarkerRole = Literal["end", "before", "content", "pause"]
"""What a marker does: it closes the value, it follows the value, it is content, or it may end the whole body."""


class TaggedValue:
    """Finds the end of one value; `value` writes its text, None discards it."""

    def __init__(
        self,
        compiled: CompiledTags,
        value: UntypedValue | None,
        arguments: Expectation,
        seen_keys: AbstractSet[str],
        limits: Limits,
    ) -> None:
        """Read one value; `arguments` is the expectation of the call's arguments, `seen_keys` are the keys so far."""
        self._value = value
        self.error: LimitError | NotStrictError | None = None
        """Why the value is invalid."""
        self.wait = False
        self.ended = False
        self._compiled = compiled
        self._arguments = arguments
        self._seen_keys = seen_keys
        self._limits = limits
        self._may_skip_line_break = compiled.tags.lines
        self._may_open_quote = bool(compiled.tags.quote_open)
        self._in_quote = False
        self._is_empty = True
        self._quoted_depth = 0
        """Number of open calls that the value quotes."""
        self._quotes_call = False
        self._pending: list[str] | None = None
        """The text from a marker on that may have ended the body; None while there is no such marker."""
        self._pending_size = 0
        self._may_pause = True

    @property
    def streams(self) -> bool:
        """True where text without a marker is sent as it arrives."""
        return (
            self._value is not None
            and self._value.is_text
            and self._pending is None
            and not (self._is_empty or self.ended)
        )

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
        role = self._classify(text, found.start(), found[0], found.end())
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
        if found is not None and not self._quoted_depth:
            next_kind = self._compiled.kind_after_space(tail, found.end())
            kind = self._compiled.value_marker_kinds[found[0]]
            unmistakable = kind == "value_close" or (kind in {"call_close", "close"} and not self._quotes_call)
            if next_kind is None and unmistakable:
                self._end_value()
                return ""
        if self._pending is None or self._quotes_call:
            return None
        pending, self._pending = self._pending, None
        self._end_value()
        return "".join(pending[1:]) + tail

    def _apply_role(self, role: MarkerRole, marker: str, start: int, end: int) -> int:
        match role:
            case "end":
                self._end_value()
                return end
            case "before":
                self._end_value()
                return start + (marker[0] == "\n")
            case "pause" if self._may_pause and self._pending is None:
                self._pending = []
        self._add_text(marker)
        return end

    # The role of a marker.

    def _classify(self, text: str, start: int, marker: str, end: int) -> MarkerRole | None:
        if self._compiled.value_markers.is_partial(text, start):
            return None
        at = start + (marker[0] == "\n")
        kind = self._compiled.value_marker_kinds[marker]
        if kind in {"call", "open"}:
            return self._classify_opening(text, at if kind == "call" else end)
        if self._quoted_depth:
            return self._classify_in_quoted_call(kind)
        if kind == "parameter":
            return self._classify_parameter(text, at, on_new_line=at > start)
        return self._classify_closing(kind, self._compiled.kind_after_space(text, end))

    def _classify_closing(self, kind: MarkerKind, next_kind: MarkerKind | Literal[False] | None) -> MarkerRole | None:
        if next_kind is None:
            return None
        match kind:
            case "value_close":
                return "end" if next_kind else "content"
            case "call_close":
                return "before" if next_kind in {"close", "call", "open"} else "content"
            case _:
                return "before" if next_kind in {"call", "open"} else "pause"

    def _classify_opening(self, text: str, at: int) -> MarkerRole | None:
        found = self._compiled.read_confirmed_call(text, at)
        if found:
            self._quoted_depth += 1
            self._quotes_call = True
        return None if found is None else "content"

    def _classify_in_quoted_call(self, kind: MarkerKind) -> MarkerRole:
        if kind == ("call_close" if self._compiled.tags.call.head else "close"):
            self._quoted_depth -= 1
        return "content"

    def _classify_parameter(self, text: str, at: int, *, on_new_line: bool) -> MarkerRole | None:
        """Classify another parameter's opening tag where this value's closing tag is missing.

        It ends the value if it starts a line (or the value is empty) and names a parameter of the tool that was not
        given yet.
        """
        found = self._compiled.read_parameter(text, at)
        if found is None:
            return None
        if not found or found.name in self._seen_keys or not (on_new_line or self._is_empty):
            return "content"
        known = self._arguments is ANY or self._arguments.member(found.name) is not ANY
        return "before" if known else "content"

    # Writing.

    def _add_text(self, text: str) -> None:
        if not text:
            return
        self._is_empty = False
        if self._pending is None:
            self._write(text)
            return
        self._pending.append(text)
        self._pending_size += len(text)
        if self._pending_size > self._limits.mend:
            # No marker ended the value for this long, so the pending one is content (of a file, for example).
            self._may_pause = False
            self._flush()

    def _flush(self) -> None:
        if self._pending is not None:
            pending, self._pending = self._pending, None
            self._write("".join(pending))

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

    def _end_value(self) -> None:
        self._flush()
        self._write("", last=True)
        self.ended = True
