"""Read strict JSON arguments, and put right on the way what the tool's schema does not admit.

Theory of operation. For each value the schema says whether it may be streamed, by its first character alone. Where it
may not (`"5"` for an integer), the value is collected until it is complete, coerced, and sent whole; what is inside it
is the coercion's work. A null that stands for an absent value is left out together with its key, which is still held.

Rule: what the schema admits is sent as it was written; a value too long to be kept is sent as it is, too.
Neighbours: `strict` reads, `schema.expect` knows what is admitted, `json.body` and `writer` say where it begins.
"""

import json
from collections.abc import Sequence

from fcshim.events import Coercion
from fcshim.parse.arguments.holding import LimitError
from fcshim.parse.arguments.strict import StrictJson
from fcshim.parse.closers import Closers
from fcshim.parse.limits import Limits
from fcshim.parse.sink import CallSink
from fcshim.schema.expect import ANY, Expectation
from fcshim.schema.node import kind_of

_NO_DEPTH = -1


class TypedJson(StrictJson):
    """A strict reader that can be told what the value it reads is expected to be."""

    def __init__(self, closers: Closers, sink: CallSink, limits: Limits) -> None:
        super().__init__(closers, limits)
        self._sink = sink
        self._typed = False
        """True inside arguments that have a schema."""
        self._next = ANY
        self._next_key: str | None = None
        """A key that was read behind a string that is kept: it is the first sign that the string has ended."""
        self._expected: list[Expectation] = []
        self._path: list[str | int] = []
        self._whole_depth = _NO_DEPTH
        """Depth at which a value stands whose inside is not looked at, or none."""
        self._kept: list[str] | None = None
        self._kept_seen = self._kept_size = 0
        self._sent: list[str] | None = None
        self._out: list[str] = []
        """What was read of the arguments, and goes to the sink next."""

    def _flush(self) -> None:
        """Send what was read of the arguments. Raises `LimitError`."""
        out = self._out
        if out:
            text = out[0] if len(out) == 1 else "".join(out)
            out.clear()
            if not self._sink.chunk(text):
                raise self._too_long()

    def _too_long(self) -> LimitError:
        return LimitError(f"arguments of more than {self._limits.arguments} characters")

    def _expect(self, expectation: Expectation) -> None:
        """Begin the arguments' object, which is expected to be so; its opening brace comes next."""
        if expectation is not ANY:
            self._typed = True
            self._expected, self._path = [expectation], [""]

    def _expect_nothing(self) -> None:
        """End the arguments, or give them up."""
        self._typed = self._unwanted = False
        self._next = ANY
        self._next_key = None
        self._path = []
        self._whole_depth = _NO_DEPTH
        self._kept = None

    # What the strict reader notes inside the arguments.

    def _typed_key(self, key: str) -> None:
        if self._whole_depth == _NO_DEPTH:
            self._next = self._expected[-1].member(key)
            self._unwanted = self._next.fits_none
            self._path[-1] = key
        elif self._whole_depth == len(self._containers):
            self._next_key = key

    def _typed_value(self, first: str) -> None:
        """Note a string or a container."""
        if self._whole_depth != _NO_DEPTH:
            return
        expectation = self._expectation()
        if first not in expectation.streams:
            self._keep(expectation)
        elif first != '"':
            if not expectation.admits("object" if first == "{" else "array", None):
                self._doubt()
            if expectation is ANY:
                self._whole_depth = len(self._containers)
            else:
                self._expected.append(expectation)
                self._path.append("" if first == "{" else -1)

    def _typed_atom(self, atom: str) -> None:
        """Note a number or literal, before it is sent."""
        if self._in_string:
            self._end_string()
        if self._whole_depth == _NO_DEPTH:
            expectation = self._expectation()
            if atom[0] not in expectation.streams and not (expectation.integers and atom.isdigit()):
                if atom == "null" and self._left_out():
                    return
                self._replace(expectation, atom)
            elif atom[0] in "tf" and not expectation.admits("boolean", atom == "true"):
                self._doubt()
        self._stand("after")

    def _typed_end(self) -> None:
        """Note the end of a string or a container."""
        if self._whole_depth == _NO_DEPTH:
            self._members_known(self._expected.pop())
            self._path.pop()
        elif len(self._containers) == self._whole_depth:
            self._whole_ended()

    def _typed_container_end(self) -> None:
        """Note the end of a container, the arguments' object included."""
        if self._containers:
            self._typed_end()
        else:
            self._members_known(self._expected[0])

    def _typed_string_end(self) -> None:
        if len(self._containers) == self._whole_depth:
            self._whole_ended()

    # Doubts.

    def _members_known(self, expectation: Expectation) -> None:
        """Note the end of a container, whose closing bracket is not sent yet: of an object, all members are known."""
        if self._sink.doubts and self._out[-1] == "}" and expectation.lacks(self._closed):
            brace = self._out.pop()
            self._doubt()
            self._out.append(brace)

    def _doubt(self) -> None:
        self._unwanted = False
        if self._sink.doubts and self._typed and self._whole_depth == _NO_DEPTH:
            self._flush()
            self._sink.doubt()

    # Coercion.

    def _expectation(self) -> Expectation:
        if self._containers[-1] == "{":
            return self._next
        index = self._path[-1] = int(self._path[-1]) + 1
        return self._expected[-1].item(index)

    def _keep(self, expectation: Expectation) -> None:
        self._next = expectation
        self._whole_depth = len(self._containers)
        self._sent, self._kept = self._into, []
        self._into = self._kept
        self._kept_seen = self._kept_size = 0

    def _whole_ended(self) -> None:
        self._whole_depth = _NO_DEPTH
        if self._kept is not None:
            raw = "".join(self._kept)
            self._into, self._kept = self._sent, None
            if self._into is not None:
                too_long = len(raw) > self._limits.mend  # it is sent as it is, however the text was cut
                self._into.append(raw if too_long else self._coerced(self._next, raw))
        if self._next_key is not None:
            key, self._next_key = self._next_key, None
            self._typed_key(key)

    def _coerced(self, expectation: Expectation, raw: str) -> str:
        value = json.loads(raw)
        found = expectation.coerce(value, raw)
        if found is None:
            if not expectation.admits(kind_of(value), value):
                self._doubt()
            return raw
        place = pointer(self._path)
        self._sink.note([Coercion(place + change.path, change.from_, change.to) for change in found.changes])
        return found.text

    def _replace(self, expectation: Expectation, atom: str) -> None:
        coerced = self._coerced(expectation, atom)
        if coerced != atom:
            self._held[-1] = self._held[-1].removesuffix(atom) + coerced

    def _left_out(self) -> bool:
        """Leave a null out, with its key, if it stands for a value that is absent."""
        key = self._path[-1]
        if self._containers[-1] != "{" or not self._expected[-1].drops_null(str(key)):
            return False
        first = self._rest == "opened"
        self._held = []
        self._held_source = None
        self._held_size = 0
        self._stand("opened" if first else "after")
        self._sink.note([Coercion(pointer(self._path), None, None)])
        return True

    def _let_go(self) -> None:
        """Send what is kept as it is, once it has become too long."""
        if self._kept is None:
            return
        self._kept_size += sum(map(len, self._kept[self._kept_seen :]))
        self._kept_seen = len(self._kept)
        if self._kept_size > self._limits.mend:
            if self._sent is not None:
                self._sent.extend(self._kept)
            self._into, self._kept = self._sent, None


def pointer(steps: Sequence[str | int]) -> str:
    """Spell a JSON Pointer (RFC 6901)."""
    return "".join("/" + str(step).replace("~", "~0").replace("/", "~1") for step in steps)
