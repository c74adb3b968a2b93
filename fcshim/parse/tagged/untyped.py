"""Write one value, given as plain text without a type, as strict JSON of the type that the tool's schema expects.

Theory of operation. A value that can only be a string is sent as it arrives. Any other is collected, and converted by
the schema when it is complete. A value too long to collect is sent as JSON if it begins with a bracket, else as a
string.

Rule: no part of a value is lost, and nothing that was sent is revoked.
"""

import json
from collections.abc import Collection, Sequence
from typing import Literal

from fcshim.parse.arguments.buffering import LimitError, NotStrictError
from fcshim.parse.arguments.writer import ArgumentWriter
from fcshim.parse.limits import Limits
from fcshim.schema.expect import ANY, Expectation

_JSON_STARTS = frozenset("[{-0123456789")
_CONTAINER_STARTS = frozenset("[{")
_JSON_WORDS = ("true", "false", "null")
_SPACE = " \t\r\n"
_PREFIX_LENGTH = 8
"""Characters that decide whether a value may be JSON other than a string; longer than any of `_JSON_WORDS`."""


class UnreadableValueError(NotStrictError):
    """The value cannot be read."""

    reason = ""


class AmbiguousValueError(UnreadableValueError):
    """The value has two readings that differ."""

    reason = "a parameter's value has two readings"


class MissingValueError(UnreadableValueError):
    """The key of a parameter has no value: neither text nor a closing tag follows it."""

    reason = "a parameter has no value"


class UntypedValue:
    """Writes one value from pieces of its text; the key is already written."""

    def __init__(
        self,
        writer: ArgumentWriter,
        expected: Expectation,
        limits: Limits,
        path: Sequence[str | int],
        *,
        is_text: bool = False,
        is_json: bool = False,
        is_leaf: bool = False,
    ) -> None:
        """Prepare the value at `path` in the arguments.

        `is_text` is True where the format types it as text, `is_json` where it types it as anything else. In a leaf of
        nested elements (`is_leaf`) an object or array in JSON is a string, by the format; where the schema admits both,
        nobody can tell.
        """
        self._is_leaf = is_leaf and '"' in expected.streaming_starts
        self._is_json = is_json
        self._path = path
        self._writer = writer
        self._expected = expected
        self._limits = limits
        self._mode: Literal["collect", "text", "json"] = "collect"
        self._prefix = ""
        self._parts: list[str] = []
        self._size = 0
        if (expected.only_strings and not is_json) or (is_text and '"' in expected.streaming_starts):
            self._begin_text()

    @property
    def is_text(self) -> bool:
        """True where the value is a string that is sent as it arrives."""
        return self._mode == "text"

    @property
    def may_be_text(self) -> bool:
        """True where the schema admits a string."""
        return '"' in self._expected.streaming_starts

    def may_end(self) -> bool | None:
        """Return whether the value may end here: a scalar, or a container that is closed; None for a string."""
        if self._prefix[:1] not in _CONTAINER_STARTS or self.is_text:
            return None if '"' in self._expected.streaming_starts else True
        last = next((part for part in reversed(self._parts) if not part.isspace()), "")
        return last.rstrip(_SPACE)[-1:] in {"}", "]"}

    def add(self, text: str) -> None:
        """Add a piece. Raises `LimitError`, `NotStrictError`."""
        if self._mode == "text":
            self._writer.write_text(text)
        elif self._mode == "json":
            self._writer.write(text)
        else:
            self._collect(text)

    def end(self) -> None:
        """Complete the value. Raises `LimitError`, `NotStrictError`."""
        if self._mode == "text":
            self._writer.write('"')
        elif self._mode == "collect":
            self.write_collected("".join(self._parts))

    def write_collected(self, text: str) -> None:
        """Write a whole value, by the schema. Raises `LimitError`, `NotStrictError`."""
        bare = text.strip(_SPACE)
        if self._is_json and bare[:1] == '"' and self.may_be_text:
            self._writer.write(bare)  # the format types it as JSON
            return
        strict = self._writer.read_untyped(self._expected, text)
        is_key = bare == self._path[-1]  # as the name of a variable
        if (self._is_leaf or is_key) and strict[0] in _CONTAINER_STARTS:
            raise AmbiguousValueError
        if self._is_json and strict[0] == '"' and bare[:1] != '"' and not self._expected.only_strings:
            raise NotStrictError
        self._writer.write_literal(strict, text, self._path, self._expected)

    def _begin_text(self) -> None:
        self._mode = "text"
        self._writer.write('"')
        self._writer.write_text("".join(self._parts))

    def _collect(self, text: str) -> None:
        self._parts.append(text)
        self._size += len(text)
        if len(self._prefix) < _PREFIX_LENGTH:
            self._prefix = (self._prefix + text[: _PREFIX_LENGTH + self._size]).lstrip(_SPACE)[:_PREFIX_LENGTH]
            if self._prefix and self._is_certain_text(self._prefix):
                self._begin_text()
                return
        if self._size > self._limits.search:
            self._stop_collecting()

    def _is_certain_text(self, prefix: str) -> bool:
        """Return whether a value with these first characters can only be text."""
        if self._is_json and prefix[0] == '"':
            return False
        if self._expected is not ANY:
            return self._expected.only_strings
        return prefix[0] not in _JSON_STARTS and not any(word.startswith(prefix.rstrip(_SPACE)) for word in _JSON_WORDS)

    def _stop_collecting(self) -> None:
        first = self._prefix[:1]
        if self._is_leaf and first in _CONTAINER_STARTS:
            raise AmbiguousValueError
        if first in _CONTAINER_STARTS and first in self._expected.streaming_starts:
            self._mode = "json"
            self._writer.write("".join(self._parts))
        elif self.may_be_text and not (self._is_json and first == '"'):
            self._begin_text()
        else:
            raise LimitError(f"a value of more than {self._limits.search} characters that the schema does not admit")


class WrappedArguments(UntypedValue):
    """Writes the first value of a call, which may hold all arguments as one object; its key is not written yet."""

    def __init__(
        self, writer: ArgumentWriter, key: str, parameters: Collection[str], limits: Limits, *, is_text: bool
    ) -> None:
        """Prepare the value of `key`, which is none of the tool's `parameters`; `is_text` as in the base class."""
        super().__init__(writer, ANY, limits, (key,))
        self.is_whole = False
        """True where the value was all arguments."""
        self._parameters = parameters
        self._types_text = is_text

    def write_collected(self, text: str) -> None:
        """Write an object as the arguments, if it has only keys of the tool; else as a member."""
        arguments = self._writer.expectation
        strict = self._writer.read_untyped(arguments, text)
        members = json.loads(strict)
        self.is_whole = isinstance(members, dict) and bool(members) and members.keys() <= set(self._parameters)
        if self.is_whole:
            self._writer.write_literal(strict, text, (), arguments)
            return
        self._writer.write("{" + json.dumps(self._path[0]) + ": ")
        if self._types_text:
            self._writer.write(json.dumps(text, ensure_ascii=False))
        else:
            super().write_collected(text)

    def _is_certain_text(self, _prefix: str) -> bool:
        return False

    def _stop_collecting(self) -> None:
        raise LimitError(f"arguments of more than {self._limits.search} characters in one parameter")
