"""Where a reader of another language than JSON writes the arguments it reads: as strict JSON, piece by piece.

Rule: what is written is read by the strict reader, so whatever a body says, what leaves is strict JSON, typed by the
schema, within the limits, and without a key twice.
Neighbours: the readers of tagged parameters and of Python calls write here, `typed` coerces, `sink` makes the events.
"""

import json
from collections.abc import Sequence

from fcshim.events import Coercion
from fcshim.parse.arguments.holding import NotStrictError
from fcshim.parse.arguments.typed import TypedJson, pointer
from fcshim.parse.closers import closers
from fcshim.parse.limits import Limits
from fcshim.parse.sink import CallSink
from fcshim.schema.expect import Expectation

_NO_CLOSERS = closers(())
_encoded = json.JSONEncoder(ensure_ascii=False).encode


class ArgumentWriter(TypedJson):
    """Takes the arguments of one call after the other; the calls are started, completed and failed at the sink."""

    def __init__(self, sink: CallSink, limits: Limits) -> None:
        super().__init__(_NO_CLOSERS, sink, limits)
        self._left = ""
        """Written, and not read yet: more of it must be seen."""
        self._into = self._out

    @property
    def expectation(self) -> Expectation:
        """What the arguments of the open call are expected to be; its members are asked for parameters' types."""
        return self._sink.expectation

    @property
    def streams(self) -> bool:
        """True inside a string that is sent as it is written: its content may go to the sink at once."""
        return self.in_content and self._into is self._out and not self._left

    def start(self, name: str) -> None:
        """Start a call of the tool `name` (as `CallSink.resolve` gave it); its arguments' opening brace comes next."""
        self._sink.start(name)
        self._reset()
        self._expect(self._sink.expectation)

    def write(self, text: str) -> None:
        """Read a further piece of strict JSON, and send what is sure of it.

        A key or a closing quote is sent with what follows it. Raises `NotStrictError` where it is not strict JSON, or a
        key comes twice, and `LimitError`; what was sent before stands.
        """
        if self._left:
            text, self._left = self._left + text, ""
        self._wait = False
        pos, size = 0, len(text)
        try:
            while pos < size and not self._wait:
                pos = self._state(text, pos)
            self._left = text[pos:]
        finally:
            self.flush()

    def write_literal(self, strict: str, text: str, place: Sequence[str | int]) -> None:
        """Write the value at `place`, which the plain `text` stands for; what the schema changed of it is noted.

        Raises like `write`.
        """
        if strict not in {text.strip(), _encoded(text)}:
            self._sink.note([Coercion(pointer(place), text, json.loads(strict))])
        self.write(strict)

    def read_on(self, text: str, pos: int) -> int:
        """Read and send further strict JSON that is part of a longer text. Raises like `write`."""
        try:
            return super().read_on(text, pos)
        finally:
            self.flush()

    def write_text(self, text: str) -> None:
        """Go on inside a JSON string: `text` is its plain content, not escaped. Raises `LimitError`."""
        escaped = _encoded(text)[1:-1]
        if not (self.in_content and self._into is self._out):
            self.write(escaped)
        elif not self._sink.chunk(escaped):
            raise self._too_long()

    def flush(self) -> None:
        """Send what is sure. Raises `LimitError`."""
        if self._kept is not None:
            self._let_go()
        if self._out:
            self._flush()

    def complete(self) -> None:
        """The arguments are whole: note that at the sink. Raises `NotStrictError` where they are not."""
        if self._state != self._done or self._left:
            raise NotStrictError
        self._sink.complete()

    def _reset(self) -> None:
        self._state = self._value
        self._left = ""
        self._rest = "start"
        self._containers.clear()
        self._keys.clear()
        self._held.clear()
        self._held_size = 0
        self._token.clear()
        self._in_string = self.in_content = False
        self._new_key = None
        self._out.clear()
        self._into = self._out
        self._expect_nothing()

    # What the strict reader notes.

    def _key_read(self, key: str) -> None:
        if self._typed:
            self._typed_key(key)

    def _value_begins(self, first: str) -> None:
        if self._typed and self._containers:
            self._typed_value(first)

    def _atom_ended(self, atom: str) -> None:
        if self._typed and self._containers:
            self._typed_atom(atom)
        else:
            super()._atom_ended(atom)

    def _string_ended(self) -> None:
        if self._typed and self._containers:
            self._typed_string_end()

    def _container_ended(self) -> None:
        if self._typed:
            self._typed_container_end()
