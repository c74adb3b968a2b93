"""Read the body of a call that is written as JSON: `{"name": ..., "arguments": {...}}`, or an array of such.

Theory of operation. The strict reader walks the whole body; this class knows the envelope: at its depth the value of a
name key is the name, the value of an argument key is what is sent. A body that turns out not to be a call is walked to
its end all the same (`dry`), so that a call inside its strings is not seen.

Rule: the start of a call is sent with its first argument character, so that as much as possible can still be text.
Neighbours: `call` starts and ends calls, `mended` reads the JSON, whatever its spelling, `lead` and `ending` know what
stands around it; `stream` acts on `status`.
"""

import json
from dataclasses import dataclass

from fcshim.events import StopReason
from fcshim.parse.arguments.holding import LimitError
from fcshim.parse.body import READING, BodyReader, Status
from fcshim.parse.dialect import Dialect
from fcshim.parse.json.call import JsonCall
from fcshim.parse.json.lead import begins, fence_end, words_end
from fcshim.parse.limits import Limits
from fcshim.parse.sink import CallSink

NAME_KEYS = ("name", "tool", "tool_name", "function_name", "function")
ARGUMENT_KEYS = ("arguments", "parameters", "args", "input", "params", "inputs", "kwargs")


@dataclass(frozen=True, slots=True)
class JsonShape:
    """How a call body says which tool and which arguments; the first key of each is the one that is asked for."""

    name_keys: tuple[str, ...] = NAME_KEYS
    argument_keys: tuple[str, ...] = ARGUMENT_KEYS
    wrapper_keys: tuple[str, ...] = ("function",)
    """Keys whose object holds the name and the arguments instead."""
    other_keys: tuple[str, ...] = ("type", "id", "index", "tool_call_id", "call_id")
    """Keys that say something else about a call. In a body without markers a key that is in none of these tables shows
    that it is no call."""
    name_is_key: bool = False
    """True where the name is itself the key, and the arguments are its value: `{"f": {...}}`."""
    semicolons: bool = False
    """True where further calls may follow behind a semicolon."""
    keyed: bool = False
    """True where only an object whose first key is a known one begins a body: nothing else tells it from other JSON."""
    grammar: str = "json_call"

    @property
    def known_keys(self) -> frozenset[str]:
        """Give every key that a call may have."""
        return frozenset((*self.name_keys, *self.argument_keys, *self.wrapper_keys, *self.other_keys))

    def begins(self, text: str, pos: int) -> bool | None:
        """Say whether JSON can begin here."""
        return begins(text, pos, self.known_keys if self.keyed else frozenset())

    def reader(self, dialect: Dialect, opener: str, sink: CallSink, limits: Limits) -> BodyReader:
        """Make the reader of one body."""
        return JsonBody(self, dialect, opener, sink, limits)


class JsonBody(JsonCall):
    """Reads one body."""

    def __init__(self, shape: JsonShape, dialect: Dialect, opener: str, sink: CallSink, limits: Limits) -> None:
        super().__init__(shape.grammar, dialect, opener, sink, limits)
        self._shape = shape
        self._state = self._begin
        self._new_line = False
        self._semicolons = shape.semicolons
        self._next_due = False
        self._refused = False

    def feed(self, text: str, pos: int) -> int:
        """Read `text[pos:]` up to the next status; what is not consumed must come again, with more behind it."""
        if self._next_due:
            self._next_due = False
            self.status = Status.NEXT
            return pos
        self.status = READING
        self._wait = False
        size = len(text)
        try:
            while pos < size:
                pos = self._state(text, pos)
                if self._wait or self.status is not READING:
                    break
            if self._kept is not None:
                self._let_go()
            if self._out:
                self._flush()
        except LimitError as error:
            self._give_up("limit", str(error))
            self._state = self._skip
            if self.status is READING:
                pos = self._skip(text, pos)
        return pos

    def close(self, tail: str, stop_reason: StopReason) -> None:
        """End the reply here; `tail` is what the last `feed` left. Sets `status`, and `rest`."""
        if self._state not in {self._done, self._pass_remark}:
            super().close(tail, stop_reason)
            return
        self.status = READING
        self._close_complete(tail, natural=stop_reason in {"complete", "stop_sequence", "tool_use"})
        if self.status is READING:
            self.status = Status.ENDED

    def refuse(self) -> None:
        """Take the call that is being read for text, and all that follow it in this body: none of them counts."""
        self._refused = True
        self._go_dry()

    def dispose(self) -> None:
        """Break the reference to itself, so that a body's memory is free at once."""
        self._state = _over

    def string_piece(self, text: str) -> bool:
        """Send `text` at once if it lies wholly inside a string of the arguments; else do nothing. The quick way."""
        if self._into is not self._out or self._piece.fullmatch(text) is None:
            return False
        return self._sink.has_room(len(text)) and self._sink.chunk(text)

    # The envelope.

    def _begin(self, text: str, pos: int) -> int:
        start, pos = pos, self._skip_space(text, pos)
        self._new_line = self._new_line or "\n" in text[start:pos]
        if pos == len(text):
            return pos
        if text[pos] == "{":
            self._state = self._value
        elif text[pos] == "[":
            self._base_depth = self._depth = 2
            self._state = self._value
        elif text[pos] == "`":
            return self._lead(fence_end(text, pos), pos)
        elif self._opener and text.startswith(self._opener, pos):
            doubled, self._opener = self._opener, ""
            return pos + len(doubled)
        elif self._opener.startswith(text[pos:]):
            self._wait = True
        elif self._new_line and self._dialect.closes_bodies:
            return self._lead(words_end(text, pos), pos)
        else:
            self.status = Status.REJECTED
        return pos

    def _lead(self, end: int | None, pos: int) -> int:
        """A fence inside the tag, or a line of words, up to `end`."""
        if end is None:
            self._wait = True
        elif end == pos:
            self.status = Status.REJECTED
        return end or pos

    def _in_envelope(self) -> bool:
        return len(self._containers) == self._depth and self._arguments_depth < 0

    def _key_read(self, key: str) -> None:
        if self._typed:
            self._typed_key(key)
        elif self._arguments_depth < 0 and len(self._containers) == self._depth:
            self._member = key
            if self._dialect.bare and self._name is None and key not in self._shape.known_keys:
                self._go_dry()

    def _key_twice(self, key: str) -> None:
        self._give_up("malformed", f"the key {key[:40]!r} comes twice")

    def _value_begins(self, first: str) -> None:
        if self._dry or self._arguments_depth >= 0:
            if self._typed:
                self._typed_value(first)
            return
        if len(self._containers) == self._base_depth - 1:
            self._element_begins(first)
        elif self._in_envelope():
            self._member_begins(first)

    def _element_begins(self, first: str) -> None:
        """A value at the top: only an object can be a call."""
        if first != "{":
            self._give_up("malformed", "expected an object with name and arguments", first)

    def _member_begins(self, first: str) -> None:
        shape = self._shape
        if shape.name_is_key:
            self._named_begins(first)
        elif self._member in shape.name_keys and self._name is None and first == '"':
            self._into = self._name_parts
        elif self._member in shape.argument_keys and not self._has_arguments:
            self._has_arguments = True
            self._arguments_begin(first)
        elif self._member in shape.wrapper_keys and self._name is None and first == "{":
            self._depth += 1

    def _named_begins(self, first: str) -> None:
        """The member's key is the name of a tool, its value the arguments."""
        if self._name is not None:
            self._give_up("malformed", "expected one name", self._member)
            return
        self._name_read(self._member)
        if not self._dry:
            self._has_arguments = True
            self._arguments_begin(first)

    def _arguments_begin(self, first: str) -> None:
        if first == "{":
            self._arguments_depth = len(self._containers)
            self._into = self._early if self._name is None else self._out
            if self._name is not None:
                self._start()
                self._expect(self._sink.expectation)
        elif first == '"':
            self._into = self._encoded
        elif first == "null":
            self._has_arguments = False
        else:
            self._give_up("malformed", "the arguments are not an object", first)

    def _string_ended(self) -> None:
        if self._typed:
            self._typed_string_end()
        elif self._into is self._name_parts:
            self._into = None
            self._name_read(json.loads("".join(self._name_parts)))
        elif self._into is self._encoded:
            self._into = None

    def _name_read(self, name: str) -> None:
        if self._dry:
            return
        self._name = self._sink.resolve(name)
        if self._name is None:
            self._go_dry()
        elif self._has_arguments and not self._encoded and self._early:
            self._start()
            self._out.append(self._coerced(self._sink.expectation, "".join(self._early)))
            self._early = []

    def _atom_ended(self, atom: str) -> None:
        if self._typed:
            self._typed_atom(atom)
        elif self._arguments_depth >= 0:
            self._stand("after")
        else:
            super()._atom_ended(atom)

    def _container_ended(self) -> None:
        depth = len(self._containers)
        if depth == self._arguments_depth:
            self._arguments_depth = -1
            if self._typed:
                self._members_known(self._expected[0])
            self._expect_nothing()
            self._flush()
            self._into = None
        elif self._typed:
            self._typed_end()
        elif self._arguments_depth < 0 and depth < self._depth:
            self._object_ended(depth)

    def _object_ended(self, depth: int) -> None:
        if depth == self._base_depth - 1:
            self._call_ended()
        elif depth >= self._base_depth:
            self._depth = depth

    def _call_ended(self) -> None:
        if not self._dry:
            if self._name is None:
                self._go_dry()
            else:
                self._complete()
        if self.status is Status.UNKNOWN:
            self._next_due = True
        elif not self._mending:
            self.status = Status.NEXT
        if self._base_depth == 2:
            self._dry = self._refused
            self._new_call()

    # The end of the body.

    def _another_call(self) -> None:
        self._dry = self._refused
        self._new_call()
        self._state = self._value


def _over(_text: str, _pos: int) -> int:
    raise AssertionError
