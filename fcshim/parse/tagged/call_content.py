"""Read the content of a call with one tag per parameter.

    state                 position                                     what it expects
    _between_parameters   between parameters                           a parameter, the end of the call or of the body
    _in_value             in a value                                   the value's end, which `value` or `nested` finds
    _in_object            in all arguments, written as a JSON object   the object's end
    _in_stray_text        in unexpected text between parameters        any marker

Rule: a state returns the position that it reached, and raises `MoreNeeded` where it reached none and changed nothing.
Only white space and the table of `markup` may stand between parameters; any other text may be an argument, so
that the call fails. A call without its closing tag ends where another call starts, or with the body.
"""

from abc import abstractmethod
from collections.abc import Callable

from fcshim.parse.arguments.writer import ArgumentWriter
from fcshim.parse.body import BodyProgress, BodyReader
from fcshim.parse.limits import Limits
from fcshim.parse.restart import BEGUN_AGAIN
from fcshim.parse.scanner import MoreNeeded
from fcshim.parse.sink import CallSink
from fcshim.parse.tagged.call import TaggedCall, read_assignments
from fcshim.parse.tagged.tag_reading import CompiledTags, MarkerKind, NamedTag
from fcshim.parse.tagged.untyped import UntypedValue
from fcshim.parse.tagged.value_reader import ValueReader

MAX_STRAY_TEXT = 200
"""Characters of unexpected text after which a call that has not started is text, and a finished call's body ends."""


class CallContentReader(BodyReader):
    """Reads one call after the other, each from after its opening tag."""

    _state: Callable[[str, int], int]

    def __init__(self, compiled: CompiledTags, start_marker: str, sink: CallSink, limits: Limits) -> None:
        self._compiled = compiled
        self._tags = tags = compiled.tags
        self._start_marker = start_marker
        self._has_outer_marker = not (tags.call.head and start_marker.startswith(tags.call.head))
        """False where the start marker is a call's own opening tag."""
        self._sink = sink
        self._limits = limits
        self._writer = ArgumentWriter(sink, limits)
        self._progress = BodyProgress(sink)
        self._takes_text = False
        """True while the text of a custom tool may stand in the place of the parameters."""
        self._quote = ""
        """The quotation mark with which the last value before the end marker ends."""
        self._call = self._new_call(None)
        self._value: ValueReader | None = None
        self._content: UntypedValue | None = None
        """What a piece without a marker may be added to directly, while `in_content`."""
        self._plain_text = compiled.plain_text
        """Matches text of the current value without any character that may start a marker."""

    @abstractmethod
    def _between_calls(self, text: str, pos: int) -> int:
        """Read the text between calls."""

    @abstractmethod
    def _after_call(self, text: str, pos: int) -> int:
        """Read the text after a call without outer marker."""

    # In a call.

    def _between_parameters(self, text: str, pos: int) -> int:
        at = self._compiled.skip_space(text, pos)
        if at > pos and not self._takes_text:
            return at
        kind = self._call.markup.kind_at(text, at)
        takes_text, self._takes_text = self._takes_text, False  # markup may belong to the text
        match kind:
            case "markup":
                return self._call.markup.pass_markup(text, at)
            case "parameter" | "call" | "open":
                return self._read_opening(kind, text, at)
            case "call_close" | "close":
                self._check_stray_text()
                self._close_call()
                if kind == "close":
                    self._end_at_marker()
                return self._compiled.end_of_marker(text, at)
        if text[at] == "{" and not (self._call.has_arguments or self._stray_size):
            self._state = self._in_object
            return at
        return self._begin_text(text, pos) if takes_text else self._begin_stray_text(at)

    def _end_at_marker(self) -> None:
        """End the body at an end marker, or after the next character if the last value may quote the marker."""
        self._quote = self._call.last_quote() if self._has_outer_marker and not self._progress.discarding else ""
        if self._quote:
            self._state = self._after_end_marker
        else:
            self._progress.end_body()

    def _after_end_marker(self, text: str, pos: int) -> int:
        """Read the character after an end marker: a closing quote shows that the marker is content."""
        if text[pos] == self._quote:
            self._sink.fail("malformed", "the end of the call may be quoted")
        self._progress.end_body()
        return pos

    def _begin_text(self, text: str, pos: int) -> int:
        """Begin the text of a custom tool, which stands in the place of the parameters, up to the end of the call."""
        assert self._call.name is not None
        parameter = self._sink.tools.parameter_names(self._call.name)[0]
        pos += text[pos] == "\n" and not self._tags.lines
        self._begin_value(NamedTag(parameter, "", pos, is_unclosed=True, is_call=True))
        return pos

    def _read_opening(self, kind: MarkerKind, text: str, pos: int) -> int:
        if kind == "parameter":
            tag = self._call.markup.read_parameter(text, pos)
            if tag is None or tag.is_empty:  # a tag that closes itself has no value
                return self._begin_stray_text(pos)
            self._begin_value(tag)
            return tag.end
        if self._call.has_arguments or (self._progress.discarding and kind == "call"):
            return self._close_before_opening(kind, text, pos)
        if kind == "open":
            self._progress.end_body()  # another body starts after the name
            return pos
        tag = self._compiled.read_call(text, pos)  # the opening is doubled
        return self._begin_stray_text(pos) if tag is None else self._begin_call(tag)

    def _close_before_opening(self, kind: MarkerKind, text: str, pos: int) -> int:
        """Close a call whose closing tag is missing; one of the same tool after it may be the same call again."""
        tag = self._compiled.read_call(text, self._compiled.end_of_marker(text, pos) if kind == "open" else pos)
        self._check_stray_text()
        if tag and self._resolve(tag.name) == self._call.name:
            self._call.fail("malformed", BEGUN_AGAIN)
        self._close_call()
        return pos

    def _begin_value(self, tag: NamedTag) -> None:
        self._check_stray_text()
        self._value = self._call.begin_parameter(tag, self._limits)
        self._plain_text = self._value.compiled.plain_text
        self._state = self._in_value

    def _begin_call(self, found: NamedTag) -> int:
        """Begin the call of an opening tag; return the tag's end."""
        name = self._resolve(found.name)
        self._call = self._new_call(name)
        self._state = self._between_parameters
        if name is None and not self._begin_assigned(found.name):
            self._discard_call()
        if name is not None and not self._call.markup.keys.isdisjoint(found.attributes):
            self._call.fail("malformed", "an argument stands in the tag of the call")
        if found.is_empty:
            self._close_call()
        return found.end

    def _begin_assigned(self, line: str) -> bool:
        """Begin a call whose arguments stand behind the name in its line, if all of them are parameters of the tool."""
        if self._tags.call.head not in {"", "<", "["}:
            return False
        word, assignments = read_assignments(line)
        name = self._resolve(word) if assignments else None
        keys = [key for key, *_ in assignments]
        if name is None or len(set(keys)) < len(keys) or not set(keys).issubset(self._sink.tools.parameter_names(name)):
            return False
        self._call = self._new_call(name)
        for each in assignments:
            self._call.add_argument(each, self._limits)
        return True

    def _begin_stray_text(self, pos: int) -> int:
        """Skip the first character of unexpected text between parameters, which fails the call."""
        self._stray_size += 1
        if self._progress.started:
            self._check_stray_text()
        self._state = self._in_stray_text
        return pos + 1

    def _check_stray_text(self) -> None:
        """Fail a call with unexpected text in it: the text may be an argument."""
        if self._stray_size:
            self._call.fail("malformed", "unexpected text between parameters")

    def _in_stray_text(self, text: str, pos: int) -> int:
        """Skip unexpected text between parameters, up to a marker; too much of it fails or discards the call."""
        found = self._compiled.markers.search(text, pos)
        end = found.start() if found else self._compiled.markers.partial_start(text, pos)
        if found is not None:
            self._state = self._between_parameters
        elif end == pos:
            raise MoreNeeded
        self._stray_size += end - pos
        if self._stray_size > MAX_STRAY_TEXT and not self._progress.discarding:
            self._discard_call()
        return end

    def _in_object(self, text: str, pos: int) -> int:
        """In arguments that are written as one JSON object."""
        end = self._call.read_object(text, pos, self._limits)
        if self._call.object_ended:
            self._state = self._between_parameters
        elif end == pos:
            raise MoreNeeded
        return end

    def _in_value(self, text: str, pos: int) -> int:
        value = self._value
        assert value is not None
        pos = value.feed(text, pos)
        self._content = value.content
        self.in_content = self._content is not None
        if value.ended or value.error is not None:
            self._finish_value(value)
        return pos

    def _finish_value(self, value: ValueReader) -> None:
        if value.error is not None:
            self._call.fail_with(value.error)
            value.error = None
        if value.ended:
            self._call.end_value(value)
            self._value = None
            self._state = self._between_parameters

    # The state of the call.

    def _new_call(self, name: str | None) -> TaggedCall:
        self._stray_size = 0
        self._takes_text = name is not None and not self._tags.nested and self._sink.tools.takes_text(name)
        self._progress.begin_call()
        return TaggedCall(name, self._compiled, self._writer, self._sink, self._progress)

    def _resolve(self, name: str) -> str | None:
        if self._progress.discarding == "body":
            return None
        half = name[: len(name) // 2]
        once = half if self._tags.call.twice and name == f"{half}.{half}" else ""
        return self._sink.resolve(name) or (self._sink.resolve(once) if once else None)

    def _close_call(self) -> None:
        """Complete the call. It is accepted when the body ends, or at once where it has no outer marker."""
        self._call.close()
        if self._has_outer_marker:
            self._progress.end_call()
            self._state = self._between_calls
        else:
            if not self._tags.call.name:
                self._sink.finish()
            self._state = self._after_call

    def _discard_call(self) -> None:
        """Not a call: read to its end without sending."""
        self._progress.discard()
        self._discard_value()

    def _discard_value(self) -> None:
        """Read the value to its end without sending."""
        self.in_content = False
        if self._value is not None:
            self._value.is_written = False
