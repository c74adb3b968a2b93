"""Read the text of a custom tool that stands between its name, in a line or in the start marker, and the end marker.

Rule: the text ends at the first end marker. Where it may not end there, because of a start marker in it or because of
text after it, the call is malformed, like one without a text, or with one as a whole in a fence, in CDATA or in a tag
for arguments, which may be markup. A text without an end marker is truncated.
"""

import re
from dataclasses import dataclass

from fcshim.events import CallErrorKind, StopReason
from fcshim.parse.body import READING, BodyReader, BodyStatus
from fcshim.parse.dialect import Dialect, compiled_closers
from fcshim.parse.limits import Limits
from fcshim.parse.markers import compile_end_markers, named_tool
from fcshim.parse.sink import CallSink

NAME_LINE = re.compile(r"[ \t\r\n]{0,64}+(?P<name>[^\W\d][\w.:-]{0,127}+)[ \t]{0,4}+\r?\n")

_LINE_BREAK = re.compile(r"(?:[ \t]{0,4}+\r?\n)?")
"""The end of the start marker's line."""
_ARGUMENT_TAGS = ("input", "arguments", "parameters", "args", "params", "tool_input", "kwargs")
_WRAPPERS = (("```", "```"), ("<![CDATA[", "]]>"), *((f"<{tag}>", f"</{tag}>") for tag in _ARGUMENT_TAGS))
"""What may stand around a whole text without being a part of it."""


@dataclass(frozen=True, slots=True)
class CustomText:
    """The line with the name, and the text after it; `in_marker`: the start marker is a tag with the name."""

    grammar: str = ""
    in_marker: bool = False

    def begins(self, text: str, pos: int) -> bool | None:
        """Return whether a line with a name begins at `pos`, or any text."""
        return self.in_marker or NAME_LINE.match(text, pos) is not None

    def reader(self, dialect: Dialect, start_marker: str, sink: CallSink, _limits: Limits) -> BodyReader:
        """Create the reader of one body."""
        return CustomTextReader(dialect, sink, named_tool(start_marker) if self.in_marker else "")


class CustomTextReader(BodyReader):
    """Reads one body: the name, the text, and what follows the end marker."""

    def __init__(self, dialect: Dialect, sink: CallSink, named: str = "") -> None:
        self._named = named
        self._end_markers = compiled_closers(dialect)
        self._start_markers = compile_end_markers(dialect.openers())
        self._sink = sink
        self._name: str | None = None
        self._parts: list[str] = []
        self._size = 0
        self._discarding = False
        self._has_ended = False

    def feed(self, text: str, pos: int) -> int:
        """Read `text[pos:]` until the status changes, and return the position reached."""
        self.status = READING
        if self._name is None:
            return self._read_name(text, pos)
        if not self._has_ended:
            pos = self._read_text(text, pos)
        return self._read_after(text, pos) if self._has_ended else pos

    def close(self, tail: str, stop_reason: StopReason) -> None:  # noqa: ARG002  # a cut after the end marker is none
        """End the reply. Sets `status` and `unread`."""
        if not self._has_ended:
            self._sink.fail_truncated("the reply ended inside the call")
        self._sink.finish()
        self.status = BodyStatus.ENDED

    def refuse(self) -> None:
        """Treat the call as text."""
        self._discarding = True

    def dispose(self) -> None:
        """Do nothing: there is no reference cycle."""

    def _read_name(self, text: str, pos: int) -> int:
        found = (_LINE_BREAK if self._named else NAME_LINE).match(text, pos)
        name = None if found is None else self._sink.resolve(self._named or found["name"])
        if found is None or name is None:
            self.status = BodyStatus.NO_BODY
            return pos
        self._name = name
        self._sink.start(name)
        self.status = BodyStatus.STARTED
        return found.end()

    def _read_text(self, text: str, pos: int) -> int:
        found = self._end_markers.search(text, pos)
        end = found.start() if found else self._end_markers.partial_start(text, pos)
        if found is None and text[pos:end].endswith("\n"):
            end -= 1  # it belongs to the end marker if that comes next
        self._add(text[pos:end])
        if found is not None:
            self._end_text()
        return found.end() if found else end

    def _add(self, text: str) -> None:
        self._size += len(text)
        if self._discarding:
            return
        if self._sink.fits(self._size):
            self._parts.append(text)
        else:
            self._fail("limit", "the arguments are too long")

    def _end_text(self) -> None:
        self._has_ended = True
        text = "".join(self._parts).removesuffix("\n")
        if self._discarding or self._name is None:
            return
        if not text.strip() or self._start_markers.search(text, 0) is not None:
            self._fail("malformed", "it is not certain where the text ends")
        elif _is_wrapped(text.strip()):
            self._fail("malformed", "it is not certain whether the first and the last line belong to the text")
        elif self._sink.add_chunk(self._sink.text_arguments(self._name, text)):
            self._sink.mark_complete()
        else:
            self._fail("limit", "the arguments are too long")

    def _read_after(self, text: str, pos: int) -> int:
        """Read what follows the end marker: the start of another call or nothing, if the text has really ended."""
        at = len(text) - len(text[pos:].lstrip())
        if at == len(text) or self._start_markers.is_partial(text, at):
            return at
        if self._start_markers.match(text, at) is None and not self._discarding:
            self._fail("malformed", "text follows the end of the call")
        self._sink.finish()
        self.status = BodyStatus.ENDED
        return at

    def _fail(self, kind: CallErrorKind, message: str) -> None:
        self._sink.fail(kind, message)
        self._discarding = True


def _is_wrapped(text: str) -> bool:
    return any(text.startswith(start) and text.endswith(end) and text.count(end) < 3 for start, end in _WRAPPERS)
