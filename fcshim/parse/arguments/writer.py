"""Write arguments as strict JSON text, piece by piece, for readers of syntaxes other than JSON.

Rule: the written text passes through the strict reader, so the result is always strict JSON, coerced by the schema,
within the limits, and without duplicate keys.
"""

import json
from collections.abc import Sequence

from fcshim.events import Coercion
from fcshim.parse.arguments.buffering import NotStrictError
from fcshim.parse.arguments.strict import StrictJsonReader
from fcshim.parse.arguments.typed import TypedArguments, json_pointer
from fcshim.parse.limits import Limits
from fcshim.parse.markers import compile_end_markers
from fcshim.parse.sink import CallSink
from fcshim.schema.coerce import is_misgrouped
from fcshim.schema.expect import Expectation
from fcshim.schema.untyped_text import read_untyped_text

_encode_json = json.JSONEncoder(ensure_ascii=False).encode


class ArgumentWriter:
    """Writes the arguments of one call after the other; starts and completes the calls at the sink."""

    def __init__(self, sink: CallSink, limits: Limits) -> None:
        self._sink = sink
        self._reader = StrictJsonReader(compile_end_markers(()), limits)
        self._buffer = self._reader.buffer
        self._arguments = TypedArguments(self._buffer, sink, limits)
        self._unread = ""
        """Written text that the strict reader can only read together with more text."""

    @property
    def expectation(self) -> Expectation:
        """What the schema expects of the arguments of the open call; its members give the types of parameters."""
        return self._sink.expectation

    @property
    def is_complete(self) -> bool:
        """True after the end of the arguments."""
        return self._reader.is_complete

    @property
    def position(self) -> int:
        """The position of an error that `read` raised."""
        return self._reader.position

    def start(self, name: str) -> None:
        """Start a call of the tool `name` (as `CallSink.resolve` returned it); the arguments' `{` must come next."""
        self._sink.start(name)
        self._reader.reset()
        self._arguments.restart(self._sink.expectation)
        self._unread = ""

    def write(self, text: str) -> None:
        """Write a further piece of strict JSON, and send the part that is certain.

        A key or a closing quote is sent with what follows it. Raises `NotStrictError` for text that is not strict JSON
        or has a duplicate key, and `LimitError`; text that was already sent stays sent.
        """
        if self._unread:
            text, self._unread = self._unread + text, ""
        self._unread = text[self.read(text, 0) :]

    def read_untyped(self, expectation: Expectation, text: str) -> str:
        """Return strict JSON for an untyped text, by what the schema expects of it."""
        return read_untyped_text(expectation, text, self._sink.tools.schemas.steps)

    def write_literal(self, strict: str, text: str, path: Sequence[str | int], expectation: Expectation) -> None:
        """Write `strict`, the JSON of the untyped `text` at `path`; record the coercion if the schema changed it.

        Raises like `write`.
        """
        if "," in text and is_misgrouped(expectation, json.loads(strict)):
            self._sink.reject(f"{text[:40]!r} is no number")
        if strict[0] == '"':
            is_written = text.lstrip()[:1] in {"[", "{"} or text.rstrip()[-1:] in {"]", "}"}
            admits_container = expectation.admits("array", []) or expectation.admits("object", {})
            if is_written and admits_container and not expectation.admits("string", text):
                self._sink.reject(f"{text[:40]!r} is no array and no object")
        if strict not in {text.strip(), _encode_json(text)}:
            self._sink.coerced.append(Coercion(json_pointer(path), text, json.loads(strict)))
        self.write(strict)

    def read(self, text: str, pos: int) -> int:
        """Read and send strict JSON from a longer text; return the position reached. Raises like `write`."""
        try:
            return self._reader.read(text, pos)
        finally:
            self._arguments.flush()

    def write_text(self, text: str) -> None:
        """Write content of a JSON string; `text` is not escaped yet. Raises `LimitError`."""
        escaped = _encode_json(text)[1:-1]
        arguments = self._arguments
        if not (self._reader.in_content and self._buffer.target is arguments.output):
            self.write(escaped)
        elif not self._sink.add_chunk(escaped):
            raise arguments.limit_error()

    def complete(self) -> None:
        """Mark the call as complete at the sink. Raises `NotStrictError` if the arguments are incomplete."""
        if not self.is_complete or self._unread:
            raise NotStrictError
        if self._reader.has_backslash:
            self._sink.escapes_doubtful = True
        self._sink.mark_complete()
