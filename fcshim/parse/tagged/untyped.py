"""Write one value, given as plain text without a type, as strict JSON of the type that the tool's schema expects.

Theory of operation. A value that can only be a string is sent as it arrives. Any other is collected, and converted by
the schema when it is complete. A value too long to collect is sent as JSON if it is a valid prefix of JSON, else as a
string.

Rule: no part of a value is lost, and nothing that was sent is revoked.
"""

import json
from collections.abc import Collection, Sequence
from typing import Literal

from fcshim.parse.arguments.buffering import LimitError, NotStrictError
from fcshim.parse.arguments.strict import StrictJsonReader
from fcshim.parse.arguments.writer import ArgumentWriter
from fcshim.parse.limits import Limits
from fcshim.parse.markers import compile_end_markers
from fcshim.schema.expect import ANY, Expectation

_JSON_STARTS = frozenset("[{-0123456789")
_CONTAINER_STARTS = frozenset("[{")
_JSON_WORDS = ("true", "false", "null")
_SPACE = " \t\r\n"
_PREFIX_LENGTH = 8
"""Characters that decide whether a value may be JSON other than a string; longer than any of `_JSON_WORDS`."""
_encode_json = json.JSONEncoder(ensure_ascii=False).encode


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
        repeatable: bool = False,
    ) -> None:
        """Prepare the value at `path` in the arguments.

        `is_text` is True where the format types it as text, `is_json` where it types it as anything else. A
        `repeatable` value that must be an array waits for `flush`, because its parameter may come again. In a leaf of
        nested elements (`is_leaf`) an object or array in JSON is a string, by the format; where the schema admits both,
        nobody can tell.
        """
        must_be_array = expected.admits("array", []) and '"' not in expected.streaming_starts
        self._waits = repeatable and (
            (must_be_array and not expected.admits("object", {})) or (is_leaf and expected is ANY)
        )
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
        self._elements: list[str] = []
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

    def end_empty(self) -> None:
        """Complete a value whose tag closes itself. Raises `NotStrictError` where the schema admits no empty value."""
        if self.is_text or self._expected.admits("string", ""):
            self.end()
        elif not self._expected.admits("array", []) and not self._expected.admits("object", {}):
            raise NotStrictError
        else:
            self._mode = "json"
            self._writer.write("[]" if self._expected.admits("array", []) else "{}")

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
        elif self._mode == "collect" and not self.may_repeat:
            self.flush()

    @property
    def may_repeat(self) -> bool:
        """True where the value may be the first element of an array whose tag is repeated: `flush` writes it."""
        return self._waits and self._mode == "collect"

    def begin_next_element(self) -> None:
        """Take the collected text as an element; the next one follows."""
        self._elements.append("".join(self._parts))
        self._parts.clear()

    def flush(self) -> None:
        """Write the collected value. Raises `LimitError`, `NotStrictError`."""
        text = "".join(self._parts)
        if not self._elements:
            strict = self._json_string(text) or self._writer.read_untyped(self._expected, text)
            is_key = text.strip(_SPACE) == self._path[-1]  # as the name of a variable
            if (self._is_leaf or is_key) and strict[0] in _CONTAINER_STARTS:
                raise AmbiguousValueError
            if self._is_json and strict[0] == '"' and text.strip(_SPACE)[:1] != '"' and not self._expected.only_strings:
                raise NotStrictError
            self._writer.write_literal(strict, text, self._path, self._expected)
            return
        elements = [*self._elements, text]
        if any(element.lstrip(_SPACE).startswith("[") for element in elements):
            raise AmbiguousValueError  # an element, or all of them
        items = (self._writer.read_untyped(self._expected.item(index), each) for index, each in enumerate(elements))
        self._writer.write(f"[{', '.join(items)}]")

    def _json_string(self, text: str) -> str:
        """Return a string that the format types as JSON and that is written so, in quotes; else an empty string."""
        bare = text.strip(_SPACE)
        if not self._is_json or bare[:1] != '"' or not self.may_be_text:
            return ""
        try:
            json.loads(bare)
        except ValueError as error:
            raise NotStrictError from error
        return bare

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
        return self._expected.only_strings or (self._expected is ANY and not self._waits and not _may_be_json(prefix))

    def _stop_collecting(self) -> None:
        text, first = "".join(self._parts), self._prefix[:1]
        if self._is_leaf and first in _CONTAINER_STARTS:
            raise AmbiguousValueError
        if first in {"[", "{"} and first in self._expected.streaming_starts and _is_json_prefix(text, self._limits):
            self._mode = "json"
            self._writer.write(text)
        elif '"' in self._expected.streaming_starts and not (self._is_json and first == '"'):
            self._begin_text()
        else:
            raise LimitError(f"a value of more than {self._limits.search} characters that the schema does not admit")


class WrappedArguments(UntypedValue):
    """Writes the first value of a call, which may hold all arguments as one object; its key is not written yet."""

    def __init__(
        self, writer: ArgumentWriter, key: str, parameters: Collection[str], limits: Limits, *, is_text: bool
    ) -> None:
        """Prepare the value of `key`, which is none of the tool's `parameters`."""
        self.is_whole = False
        """True where the value was all arguments."""
        self._key = key
        self._parameters = parameters
        self._types_text = is_text
        super().__init__(writer, writer.expectation.member(key), limits, (key,))

    def flush(self) -> None:
        """Write the collected object as the arguments, if it has only keys of the tool; else as a member."""
        text = "".join(self._parts)
        arguments = self._writer.expectation
        strict = self._writer.read_untyped(arguments, text)
        members = json.loads(strict)
        if isinstance(members, dict) and members and all(key in self._parameters for key in members):
            self.is_whole = True
            self._writer.write_literal(strict, text, (), arguments)
        elif self._types_text:
            self._begin_text()
            self._writer.write('"')
        else:
            self._write_key()
            super().flush()

    def _begin_text(self) -> None:
        self._write_key()
        super()._begin_text()

    def _stop_collecting(self) -> None:
        self._types_text = True
        self._begin_text()

    def _write_key(self) -> None:
        self._writer.write("{" + _encode_json(self._key) + ": ")


def _may_be_json(prefix: str) -> bool:
    """Return whether a value with these first characters may be JSON other than a string."""
    return prefix[0] in _JSON_STARTS or any(word.startswith(prefix.rstrip(_SPACE)) for word in _JSON_WORDS)


def _is_json_prefix(text: str, limits: Limits) -> bool:
    reader = StrictJsonReader(compile_end_markers(()), limits)
    try:
        return reader.read(text, 0) == len(text) or not reader.is_complete
    except (LimitError, NotStrictError):
        return False
