"""The remainder of a JSON body that is not strict: collected up to an end marker, then repaired.

Theory of operation. `read_json` rewrites the collected text as strict JSON, which the same strict reader then reads
from its last commit point on. An end marker that follows an unclosed string may be content of the string: the text is
collected on, up to the next end marker.

Rule: a body is repaired at most `_MAX_ATTEMPTS` times.
"""

import functools

from fcshim.parse.arguments.buffering import LimitError, NotStrictError
from fcshim.parse.arguments.entities import escape_marker, is_escaped_body
from fcshim.parse.arguments.strict import StrictJsonReader
from fcshim.parse.dialect import Dialect
from fcshim.parse.json.call import JsonCalls
from fcshim.parse.json.envelope import JsonEnvelope
from fcshim.parse.limits import Limits
from fcshim.parse.markers import MarkerSet, end_of_turn, marker_set
from fcshim.parse.readings.json import UNESCAPED_AT, read_json
from fcshim.parse.readings.json_writer import JsonReading
from fcshim.parse.readings.steps import NoReadingError

_CLOSING_CHARS = frozenset("}]｝］`")
_MAX_ATTEMPTS = 2
"""Attempts to repair one body: the cost stays under 10 us a character."""


class JsonRepair:
    """Reads the remainder of one body, from its first deviation on."""

    def __init__(
        self,
        source: str,
        dialect: Dialect,
        reader: StrictJsonReader,
        calls: JsonCalls,
        envelope: JsonEnvelope,
        limits: Limits,
    ) -> None:
        """Read on after a deviation; `source` is the text that the reader has rolled back."""
        self.wait = False
        self.ended = False
        """True at the end of the body."""
        self.unread = ""
        self._dialect = dialect
        self._reader = reader
        self._calls = calls
        self._envelope = envelope
        self._limits = limits
        self._openers, self._call_markers = _searched_markers(dialect)
        self._is_escaped: bool | None = None if reader.buffer.commit_point in UNESCAPED_AT else False
        """Whether the body is escaped as a whole, with its markers; None while that was not needed."""
        # The buffered text was not sent, so it can be read again; if it ends a string, that string is open again.
        self._parts = [source]
        self._size = len(source)
        self._end_marker_at = -1
        self._end_marker = ""
        """The end marker at `_end_marker_at`, an offset in the collected text: it may be content of a string."""
        self._attempts = 0
        self._whole: JsonReading | None = None
        """The reading of what is collected, where that is a complete body before a start marker."""

    def feed(self, text: str, pos: int) -> int:
        """Collect text up to an end marker, or to the start marker of the next call. Raises `LimitError`."""
        found = self._call_markers.search(text, pos)
        end = found.start() if found else self._call_markers.partial_start(text, pos)
        self._add(text[pos:end])
        self.wait = found is None and end < len(text)
        if found is None:
            return end
        if found[0][0] == "&":
            if self._is_escaped is None:
                self._is_escaped = is_escaped_body("".join(self._parts))
            if not self._is_escaped:
                self._add(found[0])
                return found.end()
        if found[0] not in self._openers:
            return self._read_end_marker(found[0], found.start(), found.end())
        if self.is_complete() and self._whole is not None:
            self._take(self._whole)
            # An escaped marker counts only at the start of a line.
            at_line_start = found[0][0] == "&" and "".join(self._parts).rstrip(" \t")[-1:] == "\n"
            self.unread = "\n" if at_line_start else ""
            return found.start()
        self._add(found[0])
        return found.end()

    def is_complete(self) -> bool:
        """Return whether the collected text is a complete body. It is tried once: each attempt reads all the text."""
        if not self._attempts and "".join(self._parts).rstrip()[-1:] in _CLOSING_CHARS:
            self._try_whole()
        return self._whole is not None

    def _try_whole(self) -> bool:
        """Read the collected text as a body without an end marker; return whether it is complete."""
        try:
            reading = self._find_reading(closed=False)
        except NoReadingError:
            return False
        self._whole = reading if reading.complete else None
        return reading.complete

    def _add(self, text: str) -> None:
        self._parts.append(text)
        self._size += len(text)
        if self._size > self._limits.search:
            raise LimitError(f"more than {self._limits.search} characters that are not strict JSON")

    def _read_end_marker(self, end_marker: str, start: int, end: int) -> int:
        try:
            self._take(self._find_reading(closed=True))
        except NoReadingError as error:
            # The marker may be content of a string that closes later: collect on, up to the next end marker.
            if error.unclosed and self._attempts < _MAX_ATTEMPTS:
                if self._end_marker_at < 0:
                    self._end_marker_at, self._end_marker = self._size, end_marker
                self._add(end_marker)
                return end
            self._fail(str(error))
            if self._end_marker_at >= 0 and not (error.unclosed or error.whole):
                self._end_at_marker()
                return start
        self.ended = True
        return end

    def _end_at_marker(self) -> None:
        """End the body at the first end marker that was collected."""
        self.unread = "".join(self._parts)[self._end_marker_at + len(self._end_marker) :]
        self.ended = True

    def _find_reading(self, *, closed: bool) -> JsonReading:
        """Return the reading of the collected text. Raises `NoReadingError`."""
        self._attempts += 1
        buffer = self._reader.buffer
        return read_json(
            self._envelope.frame(),
            buffer.commit_point,
            "".join(self._parts),
            self._dialect.call_markers(),
            self._envelope.root(),
            sent=self._calls.sent_arguments(),
            at_string_start=buffer.at_string_start,
            lost_backslash=self._reader.lost_backslash,
            has_end_marker=closed,
        )

    def _take(self, reading: JsonReading) -> None:
        """Read the text of a reading, with which the body ends."""
        self._calls.reading = reading
        self.ended = True
        try:
            self._reader.read_whole(reading.text)
        except NotStrictError:
            self._fail("not JSON")

    def _fail(self, message: str) -> None:
        self._reject_surplus_bracket()
        self._calls.abandon("malformed", message, "".join(self._parts))

    def _reject_surplus_bracket(self) -> None:
        """Reject the call before a bracket too many, which may have ended one of its objects too early."""
        if "".join(self._parts).lstrip()[:1] == "}" and self._calls.has_unlisted_argument():
            self._calls.reject_previous("a bracket too many, beside an argument that the tool does not have")

    def close(self, tail: str, *, natural: bool) -> None:
        """End the reply: the body has `ended`, unless its call is truncated."""
        self._parts.append(tail)
        if self._end_marker_at >= 0:
            self._end_at_marker()
            self._fail("a string is not closed")
            return
        text = "".join(self._parts)
        end = end_of_turn(text)
        self._parts, self.unread = [text[:end]], text[end:]
        if natural and self._try_whole() and self._whole is not None:
            self._take(self._whole)
        elif natural:
            self._reject_surplus_bracket()


@functools.lru_cache(maxsize=256)
def _searched_markers(dialect: Dialect) -> tuple[tuple[str, ...], MarkerSet]:
    """Return the start markers in both spellings, and the set of all markers in both."""
    openers = _in_both_spellings(dialect.body_openers())
    return openers, marker_set((*openers, *_in_both_spellings(dialect.closers())))


def _in_both_spellings(markers: tuple[str, ...]) -> tuple[str, ...]:
    """Return the markers, and as they are written in escaped text."""
    return (*markers, *(escape_marker(marker) for marker in markers if "<" in marker))
