"""Write arguments as strict JSON text, piece by piece, for readers of syntaxes other than JSON.

Rule: the written text passes through the strict reader, so the result is always strict JSON, coerced by the schema,
within the limits, and without duplicate keys.
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
    """Writes the arguments of one call after the other; starts and completes the calls at the sink."""

    def __init__(self, sink: CallSink, limits: Limits) -> None:
        super().__init__(_NO_END_MARKERS, sink, limits)
        self._unread = ""
        """Written text that the strict reader can only read together with more text."""
        self._target = self._output

    @property
    def expectation(self) -> Expectation:
        """What the schema expects of the arguments of the open call; its members give the types of parameters."""
        return self._sink.expectation

    @property
    def streams_string(self) -> bool:
        """True inside a string that is sent as it is written: its content may go to the sink directly."""
        return self.in_content and self._target is self._output and not self._unread

    def start(self, name: str) -> None:
        """Start a call of the tool `name` (as `CallSink.resolve` returned it); the arguments' `{` must come next."""
        self._sink.start(name)
        self._reset()
        self._begin_typed(self._sink.expectation)

    def write(self, text: str) -> None:
        """Write a further piece of strict JSON, and send the part that is certain.

        A key or a closing quote is sent with what follows it. Raises `NotStrictError` for text that is not strict JSON
        or has a duplicate key, and `LimitError`; text that was already sent stays sent.
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
        """Write `strict`, the JSON of the untyped `text` at `path`; record the coercion if the schema changed it.

        Raises like `write`.
        """
        if strict not in {text.strip(), _encode_json(text)}:
            self._sink.add_coercions([Coercion(json_pointer(path), text, json.loads(strict))])
        self.write(strict)

    def read_available(self, text: str, pos: int) -> int:
        """Read and send strict JSON from a longer text; return the position reached. Raises like `write`."""
        try:
            return super().read_available(text, pos)
        finally:
            self.flush()

    def write_text(self, text: str) -> None:
        """Write content of a JSON string; `text` is not escaped yet. Raises `LimitError`."""
        escaped = _encode_json(text)[1:-1]
        if not (self.in_content and self._target is self._output):
            self.write(escaped)
        elif not self._sink.add_chunk(escaped):
            raise self._too_long_error()

    def flush(self) -> None:
        """Send the text that is certain. Raises `LimitError`."""
        if self._collected is not None:
            self._stop_collecting()
        if self._output:
            self._flush()

    def complete(self) -> None:
        """Mark the call as complete at the sink. Raises `NotStrictError` if the arguments are incomplete."""
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

    # Hooks of the strict reader.

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
