"""Write one value that comes as plain text, typed by the tool's schema, as strict JSON.

Theory of operation. What can only be a string is sent while it comes. All else is collected, and read by the schema
when it is whole. A value too long to be collected is sent as JSON if that is what it is so far, else as a string.

Rule: nothing of a value is lost, and nothing that was sent is taken back.
Neighbours: `value` says what the value is, `arguments.writer` takes it, `schema.expect` knows its type.
"""

import json
from collections.abc import Sequence
from typing import Literal

from fcshim.parse.arguments.buffering import LimitError, NotStrictError
from fcshim.parse.arguments.strict import StrictJsonReader
from fcshim.parse.arguments.writer import ArgumentWriter
from fcshim.parse.end_markers import compile_end_markers
from fcshim.parse.limits import Limits
from fcshim.schema.expect import ANY, Expectation

_JSON_STARTS = frozenset("[{-0123456789")
_JSON_WORDS = ("true", "false", "null")
_SPACE = " \t\r\n"
_PREFIX_LENGTH = 8
"""First characters of a value by which JSON of another kind than string is told: more than each of the words has."""
_encode_json = json.JSONEncoder(ensure_ascii=False).encode


class UntypedValue:
    """Takes one value's text in pieces; its key was written before."""

    def __init__(
        self,
        writer: ArgumentWriter,
        expected: Expectation,
        limits: Limits,
        path: Sequence[str | int],
        *,
        is_text: bool = False,
    ) -> None:
        """Take what is expected, and the value's place in the arguments; `is_text` is what the format says of it."""
        self._path = path
        self._writer = writer
        self._expected = expected
        self._limits = limits
        self._mode: Literal["collect", "text", "json"] = "collect"
        self._prefix = ""
        self._parts: list[str] = []
        self._size = 0
        if expected.only_strings or (is_text and '"' in expected.streaming_starts):
            self._begin_text()

    @property
    def is_text(self) -> bool:
        """True where the value is a string that is sent as it comes."""
        return self._mode == "text"

    def add(self, text: str) -> None:
        """Take a further piece. Raises `LimitError`, `NotStrictError`."""
        if self._mode == "text":
            self._writer.write_text(text)
        elif self._mode == "json":
            self._writer.write(text)
        else:
            self._collect(text)

    def end(self) -> None:
        """The value is whole. Raises `LimitError`, `NotStrictError`."""
        if self._mode == "text":
            self._writer.write('"')
        elif self._mode == "collect":
            text = "".join(self._parts)
            self._writer.write_literal(self._expected.text_to_json(text), text, self._path)

    def _begin_text(self) -> None:
        self._mode = "text"
        self._writer.write('"')
        self._writer.write_text("".join(self._parts))

    def _collect(self, text: str) -> None:
        self._parts.append(text)
        self._size += len(text)
        if len(self._prefix) < _PREFIX_LENGTH:
            self._prefix = (self._prefix + text[: _PREFIX_LENGTH + self._size]).lstrip(_SPACE)[:_PREFIX_LENGTH]
            if self._expected is ANY and self._prefix and not _may_be_json(self._prefix):
                self._begin_text()
                return
        if self._size > self._limits.mend:
            self._stop_collecting()

    def _stop_collecting(self) -> None:
        text, first = "".join(self._parts), self._prefix[:1]
        if first in {"[", "{"} and first in self._expected.streaming_starts and _is_json_prefix(text, self._limits):
            self._mode = "json"
            self._writer.write(text)
        elif '"' in self._expected.streaming_starts:
            self._begin_text()
        else:
            raise LimitError(f"a value of more than {self._limits.mend} characters that the schema does not admit")


def _may_be_json(prefix: str) -> bool:
    """Say whether a value with these first characters may be JSON of another kind than string."""
    return prefix[0] in _JSON_STARTS or any(word.startswith(prefix.rstrip(_SPACE)) for word in _JSON_WORDS)


class _JsonPrefix(StrictJsonReader):
    """Reads the beginning of a value, to see whether it is strict JSON."""

    def matches(self, text: str) -> bool:
        pos = 0
        try:
            while pos < len(text) and not self._wait:
                pos = self._state(text, pos)
        except (LimitError, NotStrictError):
            return False
        return True


def _is_json_prefix(text: str, limits: Limits) -> bool:
    return _JsonPrefix(compile_end_markers(()), limits).matches(text)
