"""Where one parameter's value ends, which is written raw between its tags.

Theory of operation. What looks like the closing tag may be content: the value ends where something follows that can
only follow a value, that is another parameter or the call's end. What stands inside a whole call that the value quotes
never ends it. A parameter or a call's end may also follow without the closing tag, where that is unmistakable. A marker
that ends the whole body pauses the value: if nothing else ends it, that marker did, unless the value quotes a call.

What cannot be told: a quoted closing tag behind which, but for white space, another parameter or the call's end is
quoted, too, without the opening tag of that call.

Rule: what a marker means depends on the text behind it alone, never on how the text was cut.
Neighbours: `body` reads what is between values, `tags` finds the markers, `untyped` takes the value.
"""

from collections.abc import Set as AbstractSet
from typing import Literal

from fcshim.parse.arguments.buffering import LimitError, NotStrictError
from fcshim.parse.limits import Limits
from fcshim.parse.tagged.tags import Kind, Spelling
from fcshim.parse.tagged.untyped import UntypedValue
from fcshim.schema.expect import ANY, Expectation

Verdict = Literal["end", "before", "content", "pause"]
"""What a marker does: it closes the value, it stands behind the value, it is content, it may end the whole body."""


class TaggedValue:
    """Finds the end of one value; `value` takes its text, None drops it."""

    def __init__(
        self,
        spelling: Spelling,
        value: UntypedValue | None,
        arguments: Expectation,
        given: AbstractSet[str],
        limits: Limits,
    ) -> None:
        """Take what is expected of the call's arguments, and the keys of those that were given."""
        self._value = value
        self.fault: LimitError | NotStrictError | None = None
        """Why the value could not be taken."""
        self.wait = False
        self.ended = False
        self._spelling = spelling
        self._arguments = arguments
        self._given = given
        self._limits = limits
        self._line_due = spelling.tags.lines
        self._quote_due = bool(spelling.tags.quote_open)
        self._in_quote = False
        self._empty = True
        self._depth = 0
        """Whole calls that are quoted and not closed yet."""
        self._quotes = False
        self._held: list[str] | None = None
        """What follows a marker that may have ended the body, beginning with the marker."""
        self._held_size = 0
        self._pauses = True

    @property
    def flows(self) -> bool:
        """True where text without a marker is sent as it comes."""
        return (
            self._value is not None and self._value.is_text and self._held is None and not (self._empty or self.ended)
        )

    def drop(self) -> None:
        """Send nothing any more."""
        self._value = None

    def feed(self, text: str, pos: int) -> int:
        """Read up to the value's end or the text's; gives the place."""
        self.wait = False
        if self._line_due:
            self._line_due = False
            if text[pos] == "\n":
                return pos + 1
        if self._quote_due:
            return self._quote(text, pos)
        if self._in_quote:
            return self._feed_quoted(text, pos)
        found = self._spelling.value.search(text, pos)
        if found is None:
            end = self._spelling.value.partial_start(text, pos)
            self._say(text[pos:end])
            self.wait = end < len(text)
            return end
        self._say(text[pos : found.start()])
        verdict = self._verdict(text, found.start(), found[0], found.end())
        if verdict is None:
            self.wait = True
            return found.start()
        return self._act(verdict, found[0], found.start(), found.end())

    def _quote(self, text: str, pos: int) -> int:
        quote = self._spelling.tags.quote_open
        self.wait = quote.startswith(text[pos:]) and text[pos:] != quote
        if self.wait:
            return pos
        self._quote_due = False
        self._in_quote = text.startswith(quote, pos)
        return pos + len(quote) if self._in_quote else pos

    def _feed_quoted(self, text: str, pos: int) -> int:
        """The value's closing tag must follow the closing quote, or the quote is content."""
        found = self._spelling.quote.search(text, pos)
        end = found.start() if found else self._spelling.quote.partial_start(text, pos)
        self._say(text[pos:end])
        if found is None:
            self.wait = end < len(text)
            return end
        closer = self._spelling.tags.parameter_close
        behind = self._spelling.skip(text, found.end())
        if text.startswith(closer, behind):
            self._end()
            return behind + len(closer)
        self.wait = closer.startswith(text[behind:])
        if self.wait:
            return end
        self._say(found[0])
        return found.end()

    def close(self, tail: str) -> str | None:
        """The reply ended by itself here: give what is to be read as text, or None if the value is not closed."""
        if self._in_quote:
            return None
        found = self._spelling.value.match(tail)
        if found is not None and not self._depth:
            behind = self._spelling.kind_behind(tail, found.end())
            kind = self._spelling.value_kinds[found[0].lstrip("\n")]
            unmistakable = kind == "value_close" or (kind in {"call_close", "close"} and not self._quotes)
            if behind is None and unmistakable:
                self._end()
                return ""
        if self._held is None or self._quotes:
            return None
        held, self._held = self._held, None
        self._end()
        return "".join(held[1:]) + tail

    def _act(self, verdict: Verdict, marker: str, start: int, end: int) -> int:
        match verdict:
            case "end":
                self._end()
                return end
            case "before":
                self._end()
                return start + (marker[0] == "\n")
            case "pause" if self._pauses and self._held is None:
                self._held = []
        self._say(marker)
        return end

    # What a marker means.

    def _verdict(self, text: str, start: int, marker: str, end: int) -> Verdict | None:
        if self._spelling.value.is_partial(text, start):
            return None
        at = start + (marker[0] == "\n")
        kind = self._spelling.value_kinds[marker[at - start :]]
        if kind in {"call", "open"}:
            return self._quoted_call(text, at if kind == "call" else end)
        if self._depth:
            return self._inside_quoted_call(kind)
        if kind == "parameter":
            return self._next_parameter(text, at, broken=at > start)
        return self._closing(kind, self._spelling.kind_behind(text, end))

    def _closing(self, kind: Kind, behind: Kind | Literal[False] | None) -> Verdict | None:
        if behind is None:
            return None
        match kind:
            case "value_close":
                return "end" if behind else "content"
            case "call_close":
                return "before" if behind in {"close", "call", "open"} else "content"
            case _:
                return "before" if behind in {"call", "open"} else "pause"

    def _quoted_call(self, text: str, at: int) -> Verdict | None:
        found = self._spelling.whole_call(text, at)
        if found:
            self._depth += 1
            self._quotes = True
        return None if found is None else "content"

    def _inside_quoted_call(self, kind: Kind) -> Verdict:
        if kind == ("call_close" if self._spelling.tags.call.head else "close"):
            self._depth -= 1
        return "content"

    def _next_parameter(self, text: str, at: int, *, broken: bool) -> Verdict | None:
        """Another parameter begins where this one was not closed: on a line of its own, one that the tool knows."""
        found = self._spelling.parameter(text, at)
        if found is None:
            return None
        if not found or found.name in self._given or not (broken or self._empty):
            return "content"
        known = self._arguments is ANY or self._arguments.member(found.name) is not ANY
        return "before" if known else "content"

    # What is said.

    def _say(self, text: str) -> None:
        if not text:
            return
        self._empty = False
        if self._held is None:
            self._put(text)
            return
        self._held.append(text)
        self._held_size += len(text)
        if self._held_size > self._limits.mend:
            # Nothing ended the value for so long: the marker is content, as in a file that is being written.
            self._pauses = False
            self._flush()

    def _flush(self) -> None:
        if self._held is not None:
            held, self._held = self._held, None
            self._put("".join(held))

    def _put(self, text: str, *, last: bool = False) -> None:
        if self._value is None:
            return
        try:
            if text:
                self._value.add(text)
            if last:
                self._value.end()
        except (LimitError, NotStrictError) as fault:
            self.fault = fault
            self._value = None

    def _end(self) -> None:
        self._flush()
        self._put("", last=True)
        self.ended = True
