"""Where a reader of another language than JSON writes the arguments it reads: as strict JSON, piece by piece.

Rule: what is written is read by the strict reader, so whatever a body says, what leaves is strict JSON, typed by the
schema, within the limits, and without a key twice.
Neighbours: the readers of tagged parameters and of Python calls write here, `typed` coerces, `sink` makes the events.
"""

import json
from collections.abc import Sequence

from fcshim.events import Coercion
from fcshim.parse.arguments.buffering import NotStrictError
from fcshim.parse.arguments.typed import TypedJsonReader, json_pointer
from fcshim.parse.end_markers import compile_end_markers
from fcshim.parse.limits import Limits
from fcshim.parse.sink import CallSink
from fcshim.schema.expect import Expectation

_NO_END_MARKERS = compile_end_markers(())
_encode_json = json.JSONEncoder(ensure_ascii=False).encode


class ArgumentWriter(TypedJsonReader):
    """Takes the arguments of one call after the other; the calls are started, completed and failed at the sink."""

    def __init__(self, sink: CallSink, limits: Limits) -> None:
        super().__init__(_NO_END_MARKERS, sink, limits)
        self._unread = ""
        """Written, and not read yet: more of it must be seen."""
        self._target = self._output

    @property
    def expectation(self) -> Expectation:
        """What the arguments of the open call are expected to be; its members are asked for parameters' types."""
        return self._sink.expectation

    @property
    def streams_string(self) -> bool:
        """True inside a string that is sent as it is written: its content may go to the sink at once."""
        return self.in_content and self._target is self._output and not self._unread

    def start(self, name: str) -> None:
        """Start a call of the tool `name` (as `CallSink.resolve` gave it); its arguments' opening brace comes next."""
        self._sink.start(name)
        self._reset()
        self._begin_typed(self._sink.expectation)

    def write(self, text: str) -> None:
        """Read a further piece of strict JSON, and send what is sure of it.

        A key or a closing quote is sent with what follows it. Raises `NotStrictError` where it is not strict JSON, or a
        key comes twice, and `LimitError`; what was sent before stands.
        """
        if self._unread:
            text, self._unread = self._unread + text, ""
        self._wait = False
        pos, size = 0, len(text)
        try:
            while pos < size and not self._wait:
                pos = self._state(text, pos)
            self._unread = text[pos:]
        finally:
            self.flush()

    def write_literal(self, strict: str, text: str, path: Sequence[str | int]) -> None:
        """Write the value at `place`, which the plain `text` stands for; what the schema changed of it is noted.

        Raises like `write`.
        """
        if strict not in {text.strip(), _encode_json(text)}:
            self._sink.add_coercions([Coercion(json_pointer(path), text, json.loads(strict))])
        self.write(strict)

    def read_available(self, text: str, pos: int) -> int:
        """Read and send further strict JSON that is part of a longer text. Raises like `write`."""
        try:
            return super().read_available(text, pos)
        finally:
            self.flush()

    def write_text(self, text: str) -> None:
        """Go on inside a JSON string: `text` is its plain content, not escaped. Raises `LimitError`."""
        escaped = _encode_json(text)[1:-1]
        if not (self.in_content and self._target is self._output):
            self.write(escaped)
        elif not self._sink.add_chunk(escaped):
            raise self._too_long_error()

    def flush(self) -> None:
        """Send what is sure. Raises `LimitError`."""
        if self._collected is not None:
            self._stop_collecting()
        if self._output:
            self._flush()

    def complete(self) -> None:
        """The arguments are whole: note that at the sink. Raises `NotStrictError` where they are not."""
        if self._state != self._after_end or self._unread:
            raise NotStrictError
        self._sink.mark_complete()

    def _reset(self) -> None:
        self._state = self._read_value
        self._unread = ""
        self._commit_point = "start"
        self._containers.clear()
        self._keys.clear()
        self._buffer.clear()
        self._buffer_size = 0
        self._token_parts.clear()
        self._in_string = self.in_content = False
        self._pending_key = None
        self._output.clear()
        self._target = self._output
        self._end_typed()

    # What the strict reader notes.

    def _on_key(self, key: str) -> None:
        if self._typed:
            self._on_typed_key(key)

    def _on_value_start(self, first: str) -> None:
        if self._typed and self._containers:
            self._on_typed_value(first)

    def _on_atom(self, atom: str) -> None:
        if self._typed and self._containers:
            self._on_typed_atom(atom)
        else:
            super()._on_atom(atom)

    def _on_string_end(self) -> None:
        if self._typed and self._containers:
            self._on_typed_string_end()

    def _on_container_end(self) -> None:
        if self._typed:
            self._on_typed_container_end()
