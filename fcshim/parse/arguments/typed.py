"""Send the arguments of a call to the sink, and coerce values that the tool's schema does not admit.

Theory of operation. The schema decides by a value's first character whether the value may stream. If it may not (`"5"`
for an integer), the value is collected until it is complete, coerced, and sent whole; the coercion also handles the
values inside it. A null for an absent value is dropped together with its key, which is still buffered.

Rule: a value that the schema admits is sent as the model wrote it; so is a value that is too long to be collected.
"""

import json
from collections.abc import Sequence

from fcshim.events import Coercion
from fcshim.parse.arguments.buffering import NO_HANDLER, CommitBuffer, LimitError, ValueHandler
from fcshim.parse.arguments.scopes import ANYTHING, Members, SchemaMembers
from fcshim.parse.limits import Limits
from fcshim.parse.sink import CallSink
from fcshim.schema.coerce import coerce, is_misgrouped
from fcshim.schema.expect import ANY, Expectation
from fcshim.schema.node import kind_of

_NO_DEPTH = -1


class TypedArguments(ValueHandler):
    """Handles the values of a buffer while they are arguments; `output` is the buffer's target for them."""

    def __init__(self, buffer: CommitBuffer, sink: CallSink, limits: Limits) -> None:
        self.output: list[str] = []
        """Text of the arguments that goes to the sink next."""
        self.collected: list[str] | None = None
        """Text of a value that is being collected, in place of `output`."""
        self._buffer = buffer
        self._containers = buffer.containers
        self._sink = sink
        self._limits = limits
        self._outer = NO_HANDLER
        """The buffer's handler outside the arguments."""
        self.depth = _NO_DEPTH
        """The number of containers around the arguments, or `_NO_DEPTH` outside them."""
        self._expectations: list[Expectation] = []
        self._next_expectation = ANY
        self._path: list[str | int] = []
        self._opaque_depth = _NO_DEPTH
        """Depth of a value whose content is not checked incrementally (collected, or of any type), or `_NO_DEPTH`."""
        self._key_after_string: str | None = None
        """A key read after a collected string: it confirms that the string has ended, and is handled after that."""
        self._collected_counted = self._collected_size = 0
        self.lacks_required = False
        """True where the arguments, which are complete, lack a required one."""

    @property
    def streams(self) -> bool:
        """True if the buffer's text is sent as it arrives."""
        return self._buffer.target is self.output

    def members_at(self, depth: int) -> Members:
        """Return what may stand in the open container at this depth in the arguments."""
        return SchemaMembers(self._expectations[depth]) if depth < len(self._expectations) else ANYTHING

    def key_at(self, depth: int) -> str:
        """Return the key of the current value in the open container at this depth; empty where there is none."""
        return str(self._path[depth]) if depth < len(self._path) else ""

    def restart(self, expectation: Expectation) -> None:
        """Begin the arguments of the next call, in a buffer that holds nothing else."""
        self.end()
        self.output.clear()
        self._buffer.reset()
        self._buffer.target = self.output
        if expectation is not ANY:
            self.begin(expectation)

    def begin(self, expectation: Expectation) -> None:
        """Begin the arguments, whose opening brace comes next."""
        self._outer, self._buffer.handler = self._buffer.handler, self
        self.depth = len(self._containers)
        self.lacks_required = False
        self._next_expectation = expectation
        self._expectations.clear()
        self._path.clear()

    def end(self) -> None:
        """End the arguments, complete or not."""
        if self.depth == _NO_DEPTH:
            return
        self._buffer.handler, self._outer = self._outer, NO_HANDLER
        self._buffer.target = None
        self._buffer.unexpected_key = False
        self.depth = self._opaque_depth = _NO_DEPTH
        self._key_after_string = self.collected = None

    def flush(self) -> None:
        """Send the text that was read. Raises `LimitError`."""
        if self.collected is not None:
            self._stop_collecting()
        out = self.output
        if out:
            text = "".join(out)
            out.clear()
            if not self._sink.add_chunk(text):
                raise self.limit_error()

    def limit_error(self) -> LimitError:
        """Return the error of arguments that are too long."""
        return LimitError(f"arguments of more than {self._limits.arguments} characters")

    def coerce_whole(self, arguments: str) -> str:
        """Return complete arguments, coerced, and record the coercions."""
        found = coerce(self._sink.expectation, json.loads(arguments), arguments, self._sink.tools.schemas.steps)
        if found is None:
            return arguments
        self._sink.coerced.extend(found.changes)
        return found.text

    # The handler of the buffer.

    def on_key(self, key: str) -> None:
        """Take the expectation of the member's value."""
        if self._opaque_depth == _NO_DEPTH:
            self._next_expectation = self._expectations[-1].member(key)
            self._buffer.unexpected_key = self._next_expectation.admits_nothing
            self._path[-1] = key
        elif self._opaque_depth == len(self._containers):
            self._key_after_string = key

    def on_duplicate_key(self, key: str) -> None:
        """Leave a duplicate key to the handler around the arguments."""
        self._outer.on_duplicate_key(key)

    def on_unexpected_key(self) -> None:
        """Stop the sending before a key that the schema does not admit."""
        self._on_schema_mismatch()

    def on_value(self, first: str) -> None:
        """Decide whether a string or container may stream."""
        if self._opaque_depth != _NO_DEPTH:
            return
        if not self._expectations:
            self._enter(self._next_expectation, first)
            return
        expectation = self._expectation_of_value()
        if first not in expectation.streaming_starts:
            self._next_expectation = expectation
            self._opaque_depth = len(self._containers)
            self.collected = self._buffer.target = []
            self._collected_counted = self._collected_size = 0
        elif first != '"':
            if not expectation.admits("object" if first == "{" else "array", None):
                self._on_schema_mismatch()
            self._enter(expectation, first)

    def _enter(self, expectation: Expectation, container: str) -> None:
        """Enter a container that streams."""
        if expectation is ANY:
            self._opaque_depth = len(self._containers)
        else:
            self._expectations.append(expectation)
            self._path.append("" if container == "{" else -1)

    def on_atom(self, atom: str) -> str:
        """Coerce a number or literal, or drop a null of an absent value."""
        if self._opaque_depth != _NO_DEPTH:
            return atom
        expectation = self._expectation_of_value()
        if atom[0] not in expectation.streaming_starts and not (expectation.streams_integers and atom.isdigit()):
            key = self._path[-1]
            if atom == "null" and isinstance(key, str) and self._expectations[-1].drops_null(key):
                self._sink.coerced.append(Coercion(json_pointer(self._path), None, None))
                return ""  # it means that its member is absent
            return self._coerce(expectation, atom)
        if atom[0] in "tf" and not expectation.admits("boolean", atom == "true"):
            self._on_schema_mismatch()
        return atom

    def on_string_end(self) -> None:
        """Coerce a string that was collected."""
        if len(self._containers) == self._opaque_depth:
            self._on_opaque_end()

    def on_container_end(self) -> None:
        """Coerce a container that was collected; with the last one, the arguments end."""
        depth = len(self._containers)
        if self._opaque_depth == _NO_DEPTH:
            expectation = self._expectations.pop()
            self._check_required(expectation)
            self._path.pop()
            if not self._expectations:
                self.lacks_required = expectation.misses_required(self._buffer.closed_keys)
        elif depth == self._opaque_depth:
            self._on_opaque_end()
        if depth == self.depth:
            self.flush()
            outer = self._outer
            self.end()
            outer.on_container_end()

    # Schema violations.

    def _check_required(self, expectation: Expectation) -> None:
        """At the end of an object, before its closing brace is sent, check that it has its required members."""
        missing = self._sink.can_withhold and self.output[-1] == "}"
        if missing and expectation.misses_required(self._buffer.closed_keys):
            brace = self.output.pop()
            self._on_schema_mismatch()
            self.output.append(brace)

    def _on_schema_mismatch(self) -> None:
        self._buffer.unexpected_key = False
        if self._sink.can_withhold and self._opaque_depth == _NO_DEPTH:
            self.flush()
            self._sink.withhold_rest()

    # Coercion.

    def _expectation_of_value(self) -> Expectation:
        if self._containers[-1] == "{":
            return self._next_expectation
        index = self._path[-1] = int(self._path[-1]) + 1
        return self._expectations[-1].item(index)

    def _on_opaque_end(self) -> None:
        self._opaque_depth = _NO_DEPTH
        if self.collected is not None:
            raw = "".join(self.collected)
            self._buffer.target, self.collected = self.output, None
            # Also here, so that the result does not depend on how the text was cut into pieces.
            too_long = len(raw) > self._limits.search
            self.output.append(raw if too_long else self._coerce(self._next_expectation, raw))
        if self._key_after_string is not None:
            key, self._key_after_string = self._key_after_string, None
            self.on_key(key)

    def _coerce(self, expectation: Expectation, raw: str) -> str:
        value = json.loads(raw)
        found = coerce(expectation, value, raw, self._sink.tools.schemas.steps, wrap=self._containers[-1] == "{")
        if found is None:
            if is_misgrouped(expectation, value):
                self._sink.reject(f"{raw[:40]} is no number")
            if not expectation.admits(kind_of(value), value):
                self._on_schema_mismatch()
            return raw
        pointer = json_pointer(self._path)
        self._sink.coerced.extend(Coercion(pointer + each.path, each.from_, each.to) for each in found.changes)
        return found.text

    def _stop_collecting(self) -> None:
        """Send the collected text unchanged once it exceeds the limit."""
        assert self.collected is not None
        self._collected_size += sum(map(len, self.collected[self._collected_counted :]))
        self._collected_counted = len(self.collected)
        if self._collected_size > self._limits.search:
            self.output.extend(self.collected)
            self._buffer.target, self.collected = self.output, None


def json_pointer(path: Sequence[str | int]) -> str:
    """Return the JSON Pointer (RFC 6901) of a path."""
    return "".join("/" + str(step).replace("~", "~0").replace("/", "~1") for step in path)
