"""Read strict JSON arguments, and coerce values that the tool's schema does not admit.

Theory of operation. The schema decides by a value's first character whether the value may stream. If it may not (`"5"`
for an integer), the value is collected until it is complete, coerced, and sent whole; the coercion also handles the
values inside it. A null for an absent value is dropped together with its key, which is still buffered.

Rule: a value that the schema admits is sent as the model wrote it; so is a value that is too long to be collected.
"""

import json
from collections.abc import Sequence

from fcshim.events import Coercion
from fcshim.parse.arguments.buffering import LimitError
from fcshim.parse.arguments.strict import StrictJsonReader
from fcshim.parse.end_markers import EndMarkers
from fcshim.parse.limits import Limits
from fcshim.parse.sink import CallSink
from fcshim.schema.coerce import coerce
from fcshim.schema.expect import ANY, Expectation
from fcshim.schema.node import kind_of

_NO_DEPTH = -1


class TypedJsonReader(StrictJsonReader):
    """A strict reader that coerces the value it reads to what a schema expects."""

    def __init__(self, end_markers: EndMarkers, sink: CallSink, limits: Limits) -> None:
        super().__init__(end_markers, limits)
        self._sink = sink
        self._typed = False
        """True inside arguments that have a schema."""
        self._next_expectation = ANY
        self._key_after_string: str | None = None
        """A key read after a collected string: it confirms that the string has ended, and is handled after that."""
        self._expectations: list[Expectation] = []
        self._path: list[str | int] = []
        self._opaque_depth = _NO_DEPTH
        """Depth of a value whose content is not checked incrementally (collected, or of any type), or `_NO_DEPTH`."""
        self._collected: list[str] | None = None
        self._collected_counted = self._collected_size = 0
        self._outer_target: list[str] | None = None
        self._output: list[str] = []
        """Text of the arguments that goes to the sink next."""

    def _flush(self) -> None:
        """Send the text of the arguments that was read. Raises `LimitError`."""
        out = self._output
        if out:
            text = out[0] if len(out) == 1 else "".join(out)
            out.clear()
            if not self._sink.add_chunk(text):
                raise self._too_long_error()

    def _too_long_error(self) -> LimitError:
        return LimitError(f"arguments of more than {self._limits.arguments} characters")

    def _begin_typed(self, expectation: Expectation) -> None:
        """Begin the arguments' object with its expectation; its opening brace follows."""
        if expectation is not ANY:
            self._typed = True
            self._expectations, self._path = [expectation], [""]

    def _end_typed(self) -> None:
        """End the arguments, or abandon them."""
        self._typed = self._unexpected_key = False
        self._next_expectation = ANY
        self._key_after_string = None
        self._path = []
        self._opaque_depth = _NO_DEPTH
        self._collected = None

    # Hooks of the strict reader inside the arguments.

    def _on_typed_key(self, key: str) -> None:
        if self._opaque_depth == _NO_DEPTH:
            self._next_expectation = self._expectations[-1].member(key)
            self._unexpected_key = self._next_expectation.admits_nothing
            self._path[-1] = key
        elif self._opaque_depth == len(self._containers):
            self._key_after_string = key

    def _on_typed_value(self, first: str) -> None:
        """Handle the start of a string or a container."""
        if self._opaque_depth != _NO_DEPTH:
            return
        expectation = self._expectation_of_value()
        if first not in expectation.streaming_starts:
            self._begin_collecting(expectation)
        elif first != '"':
            if not expectation.admits("object" if first == "{" else "array", None):
                self._on_schema_mismatch()
            if expectation is ANY:
                self._opaque_depth = len(self._containers)
            else:
                self._expectations.append(expectation)
                self._path.append("" if first == "{" else -1)

    def _on_typed_atom(self, atom: str) -> None:
        """Handle a number or literal, before it is sent."""
        if self._in_string:
            self._commit_string()
        if self._opaque_depth == _NO_DEPTH:
            expectation = self._expectation_of_value()
            if atom[0] not in expectation.streaming_starts and not (expectation.streams_integers and atom.isdigit()):
                if atom == "null" and self._drop_null():
                    return
                self._coerce_atom(expectation, atom)
            elif atom[0] in "tf" and not expectation.admits("boolean", atom == "true"):
                self._on_schema_mismatch()
        self._commit("after")

    def _on_typed_end(self) -> None:
        """Handle the end of a container inside the arguments."""
        if self._opaque_depth == _NO_DEPTH:
            self._check_required(self._expectations.pop())
            self._path.pop()
        elif len(self._containers) == self._opaque_depth:
            self._on_opaque_end()

    def _on_typed_container_end(self) -> None:
        """Handle the end of a container, including the arguments' object."""
        if self._containers:
            self._on_typed_end()
        else:
            self._check_required(self._expectations[0])

    def _on_typed_string_end(self) -> None:
        if len(self._containers) == self._opaque_depth:
            self._on_opaque_end()

    # Schema violations.

    def _check_required(self, expectation: Expectation) -> None:
        """At the end of an object, before its closing brace is sent, check that it has its required members."""
        if self._sink.can_withhold and self._output[-1] == "}" and expectation.misses_required(self._closed_keys):
            brace = self._output.pop()
            self._on_schema_mismatch()
            self._output.append(brace)

    def _on_schema_mismatch(self) -> None:
        self._unexpected_key = False
        if self._sink.can_withhold and self._typed and self._opaque_depth == _NO_DEPTH:
            self._flush()
            self._sink.withhold_rest()

    # Coercion.

    def _expectation_of_value(self) -> Expectation:
        if self._containers[-1] == "{":
            return self._next_expectation
        index = self._path[-1] = int(self._path[-1]) + 1
        return self._expectations[-1].item(index)

    def _begin_collecting(self, expectation: Expectation) -> None:
        self._next_expectation = expectation
        self._opaque_depth = len(self._containers)
        self._outer_target, self._collected = self._target, []
        self._target = self._collected
        self._collected_counted = self._collected_size = 0

    def _on_opaque_end(self) -> None:
        self._opaque_depth = _NO_DEPTH
        if self._collected is not None:
            raw = "".join(self._collected)
            self._target, self._collected = self._outer_target, None
            if self._target is not None:
                # Also here, so that the result does not depend on how the text was cut into pieces.
                too_long = len(raw) > self._limits.mend
                self._target.append(raw if too_long else self._coerce(self._next_expectation, raw))
        if self._key_after_string is not None:
            key, self._key_after_string = self._key_after_string, None
            self._on_typed_key(key)

    def _coerce(self, expectation: Expectation, raw: str) -> str:
        value = json.loads(raw)
        found = coerce(expectation, value, raw)
        if found is None:
            if not expectation.admits(kind_of(value), value):
                self._on_schema_mismatch()
            return raw
        pointer = json_pointer(self._path)
        self._sink.add_coercions([Coercion(pointer + change.path, change.from_, change.to) for change in found.changes])
        return found.text

    def _coerce_atom(self, expectation: Expectation, atom: str) -> None:
        coerced = self._coerce(expectation, atom)
        if coerced != atom:
            self._buffer[-1] = self._buffer[-1].removesuffix(atom) + coerced

    def _drop_null(self) -> bool:
        """Drop a null and its key if it means an absent value; return whether it did."""
        key = self._path[-1]
        if self._containers[-1] != "{" or not self._expectations[-1].drops_null(str(key)):
            return False
        first = self._commit_point == "opened"
        self._buffer = []
        self._buffer_source = None
        self._buffer_size = 0
        self._commit("opened" if first else "after")
        self._sink.add_coercions([Coercion(json_pointer(self._path), None, None)])
        return True

    def _stop_collecting(self) -> None:
        """Send the collected text unchanged once it exceeds the limit."""
        if self._collected is None:
            return
        self._collected_size += sum(map(len, self._collected[self._collected_counted :]))
        self._collected_counted = len(self._collected)
        if self._collected_size > self._limits.mend:
            if self._outer_target is not None:
                self._outer_target.extend(self._collected)
            self._target, self._collected = self._outer_target, None


def json_pointer(path: Sequence[str | int]) -> str:
    """Return the JSON Pointer (RFC 6901) of a path."""
    return "".join("/" + str(step).replace("~", "~0").replace("/", "~1") for step in path)
