"""Read a body of JSON: `{"name": ..., "arguments": {...}}`, or an array of such objects.

Theory of operation. The strict reader reads the whole body; this class interprets the envelope: at its depth the value
of a name key is the tool's name, and the value of an argument key is sent. A body that turns out not to be a call is
still read to its end (`_discarding`), so that a call inside its strings is not found.

Rule: the start of a call is sent with the first character of its arguments; until then the body can become text.
"""

import json
from dataclasses import dataclass

from fcshim.events import StopReason
from fcshim.parse.arguments.buffering import LimitError
from fcshim.parse.body import READING, BodyReader, BodyStatus
from fcshim.parse.dialect import Dialect
from fcshim.parse.json.call import JsonCallReader
from fcshim.parse.json.prefix import fence_end, intro_line_end, json_begins
from fcshim.parse.limits import Limits
from fcshim.parse.sink import CallSink

NAME_KEYS = ("name", "tool", "tool_name", "function_name", "function")
ARGUMENT_KEYS = ("arguments", "parameters", "args", "input", "params", "inputs", "kwargs")


@dataclass(frozen=True, slots=True)
class JsonShape:
    """The keys of a call's JSON; the first key of each table is the one that the prompt requests."""

    name_keys: tuple[str, ...] = NAME_KEYS
    argument_keys: tuple[str, ...] = ARGUMENT_KEYS
    wrapper_keys: tuple[str, ...] = ("function",)
    """Keys whose object contains the name and the arguments."""
    other_keys: tuple[str, ...] = ("type", "id", "index", "tool_call_id", "call_id")
    """Further keys of a call, which are ignored. In a body without markers, a key in none of these tables shows that
    the body is not a call."""
    name_is_key: bool = False
    """True if the tool's name is the key, and the arguments are its value: `{"f": {...}}`."""
    semicolons: bool = False
    """True if further calls may follow after a semicolon."""
    keyed: bool = False
    """True if a body must begin with a known key: nothing else distinguishes it from other JSON."""
    grammar: str = "json_call"

    @property
    def known_keys(self) -> frozenset[str]:
        """Every key that a call may have."""
        return frozenset((*self.name_keys, *self.argument_keys, *self.wrapper_keys, *self.other_keys))

    def begins(self, text: str, pos: int) -> bool | None:
        """Return whether JSON can begin at `pos`; None if more text is needed to tell."""
        return json_begins(text, pos, self.known_keys if self.keyed else frozenset())

    def reader(self, dialect: Dialect, start_marker: str, sink: CallSink, limits: Limits) -> BodyReader:
        """Create the reader of one body."""
        return JsonBody(self, dialect, start_marker, sink, limits)


class JsonBody(JsonCallReader):
    """Reads one body."""

    def __init__(self, shape: JsonShape, dialect: Dialect, start_marker: str, sink: CallSink, limits: Limits) -> None:
        super().__init__(shape.grammar, dialect, start_marker, sink, limits)
        self._shape = shape
        self._state = self._before_body
        self._saw_newline = False
        self._semicolons = shape.semicolons
        self._next_pending = False
        self._refused = False

    def feed(self, text: str, pos: int) -> int:
        """Read `text[pos:]` until the status changes, and return the position reached."""
        if self._next_pending:
            self._next_pending = False
            self.status = BodyStatus.CALL_ENDED
            return pos
        self.status = READING
        self._wait = False
        size = len(text)
        try:
            while pos < size:
                pos = self._state(text, pos)
                if self._wait or self.status is not READING:
                    break
            if self._collected is not None:
                self._stop_collecting()
            if self._output:
                self._flush()
        except LimitError as error:
            self._abandon_call("limit", str(error))
            self._state = self._skip_to_end_marker
            if self.status is READING:
                pos = self._skip_to_end_marker(text, pos)
        return pos

    def close(self, tail: str, stop_reason: StopReason) -> None:
        """End the reply; `tail` is what the last `feed` did not consume. Sets `status` and `unread`."""
        if self._state not in {self._after_end, self._read_trailing_text}:
            super().close(tail, stop_reason)
            return
        self.status = READING
        self._close_complete(tail, natural=stop_reason in {"complete", "stop_sequence", "tool_use"})
        if self.status is READING:
            self.status = BodyStatus.ENDED

    def refuse(self) -> None:
        """Treat the current call and all later calls of this body as text."""
        self._refused = True
        self._discard_call()

    def dispose(self) -> None:
        """Break the reference cycle through the bound state method, so that the memory is freed immediately."""
        self._state = _disposed_state

    def send_string_piece(self, text: str) -> bool:
        """Send `text` and return True if all of it is content of a string in the arguments; else change nothing."""
        if self._target is not self._output or self._plain_run.fullmatch(text) is None:
            return False
        return self._sink.fits(len(text)) and self._sink.add_chunk(text)

    # The envelope.

    def _before_body(self, text: str, pos: int) -> int:
        start, pos = pos, self._skip_space(text, pos)
        self._saw_newline = self._saw_newline or "\n" in text[start:pos]
        if pos == len(text):
            return pos
        if text[pos] == "{":
            self._state = self._read_value
        elif text[pos] == "[":
            self._base_depth = self._call_depth = 2
            self._state = self._read_value
        elif text[pos] == "`":
            return self._skip_prefix(fence_end(text, pos), pos)
        elif self._start_marker and text.startswith(self._start_marker, pos):
            doubled, self._start_marker = self._start_marker, ""
            return pos + len(doubled)
        elif self._start_marker.startswith(text[pos:]):
            self._wait = True
        elif self._saw_newline and self._dialect.closes_bodies:
            return self._skip_prefix(intro_line_end(text, pos), pos)
        else:
            self.status = BodyStatus.NO_BODY
        return pos

    def _skip_prefix(self, end: int | None, pos: int) -> int:
        """Skip a prefix up to `end`: a fence line inside the tag, or an introductory line."""
        if end is None:
            self._wait = True
        elif end == pos:
            self.status = BodyStatus.NO_BODY
        return end or pos

    def _in_envelope(self) -> bool:
        return len(self._containers) == self._call_depth and self._arguments_depth < 0

    def _on_key(self, key: str) -> None:
        if self._typed:
            self._on_typed_key(key)
        elif self._arguments_depth < 0 and len(self._containers) == self._call_depth:
            self._member_key = key
            if self._dialect.bare and self._name is None and key not in self._shape.known_keys:
                self._discard_call()

    def _on_duplicate_key(self, key: str) -> None:
        self._abandon_call("malformed", f"the key {key[:40]!r} comes twice")

    def _on_value_start(self, first: str) -> None:
        if self._discarding or self._arguments_depth >= 0:
            if self._typed:
                self._on_typed_value(first)
            return
        if len(self._containers) == self._base_depth - 1:
            self._on_element_start(first)
        elif self._in_envelope():
            self._on_member_start(first)

    def _on_element_start(self, first: str) -> None:
        """Handle the start of a top-level value: only an object can be a call."""
        if first != "{":
            self._abandon_call("malformed", "expected an object with name and arguments", first)

    def _on_member_start(self, first: str) -> None:
        shape = self._shape
        if shape.name_is_key:
            self._on_named_member_start(first)
        elif self._member_key in shape.name_keys and self._name is None and first == '"':
            self._target = self._name_parts
        elif self._member_key in shape.argument_keys and not self._has_arguments:
            self._has_arguments = True
            self._on_arguments_start(first)
        elif self._member_key in shape.wrapper_keys and self._name is None and first == "{":
            self._call_depth += 1

    def _on_named_member_start(self, first: str) -> None:
        """Handle a member whose key is the tool's name and whose value are the arguments."""
        if self._name is not None:
            self._abandon_call("malformed", "expected one name", self._member_key)
            return
        self._on_name(self._member_key)
        if not self._discarding:
            self._has_arguments = True
            self._on_arguments_start(first)

    def _on_arguments_start(self, first: str) -> None:
        if first == "{":
            self._arguments_depth = len(self._containers)
            self._target = self._early_arguments if self._name is None else self._output
            if self._name is not None:
                self._start_call()
                self._begin_typed(self._sink.expectation)
        elif first == '"':
            self._target = self._encoded_arguments
        elif first == "null":
            self._has_arguments = False
        else:
            self._abandon_call("malformed", "the arguments are not an object", first)

    def _on_string_end(self) -> None:
        if self._typed:
            self._on_typed_string_end()
        elif self._target is self._name_parts:
            self._target = None
            self._on_name(json.loads("".join(self._name_parts)))
        elif self._target is self._encoded_arguments:
            self._target = None

    def _on_name(self, name: str) -> None:
        if self._discarding:
            return
        self._name = self._sink.resolve(name)
        if self._name is None:
            self._discard_call()
        elif self._has_arguments and not self._encoded_arguments and self._early_arguments:
            self._start_call()
            self._output.append(self._coerce(self._sink.expectation, "".join(self._early_arguments)))
            self._early_arguments = []

    def _on_atom(self, atom: str) -> None:
        if self._typed:
            self._on_typed_atom(atom)
        elif self._arguments_depth >= 0:
            self._commit("after")
        else:
            super()._on_atom(atom)

    def _on_container_end(self) -> None:
        depth = len(self._containers)
        if depth == self._arguments_depth:
            self._arguments_depth = -1
            if self._typed:
                self._check_required(self._expectations[0])
            self._end_typed()
            self._flush()
            self._target = None
        elif self._typed:
            self._on_typed_end()
        elif self._arguments_depth < 0 and depth < self._call_depth:
            self._on_object_end(depth)

    def _on_object_end(self, depth: int) -> None:
        if depth == self._base_depth - 1:
            self._on_call_end()
        elif depth >= self._base_depth:
            self._call_depth = depth

    def _on_call_end(self) -> None:
        if not self._discarding:
            if self._name is None:
                self._discard_call()
            else:
                self._complete_call()
        if self.status is BodyStatus.NOT_A_CALL:
            self._next_pending = True
        elif not self._reading_repaired:
            self.status = BodyStatus.CALL_ENDED
        if self._base_depth == 2:
            self._discarding = self._refused
            self._reset_call()

    # The end of the body.

    def _begin_next_call(self) -> None:
        self._discarding = self._refused
        self._reset_call()
        self._state = self._read_value


def _disposed_state(_text: str, _pos: int) -> int:
    raise AssertionError
