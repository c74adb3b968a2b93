"""Writing events of the Responses API with their sequence numbers.

Rule: numbers count from 0 without a gap. Deltas are spliced from constant bytes, because nearly all events are deltas.
"""

from fcshim.codecs.json_text import write_json
from fcshim.events import JSON, Error


class Emitter:
    """Writes the events of one response to `out`, in order."""

    def __init__(self) -> None:
        self.out: list[bytes] = []
        self._number = 0

    def emit(self, kind: str, fields: dict[str, JSON]) -> None:
        """Write one event."""
        data = write_json({"type": kind, "sequence_number": self._number, **fields})
        self._number += 1
        self.out.append(b"event: " + kind.encode() + b"\ndata: " + data + b"\n\n")

    def emit_delta(self, template: "DeltaTemplate", text: str) -> None:
        """Write one delta event."""
        self.out.append(template.head + b"%d" % self._number + template.middle + write_json(text) + template.tail)
        self._number += 1

    def take_bytes(self) -> bytes:
        """Return the bytes written since the last call."""
        written = b"".join(self.out)
        self.out.clear()
        return written


class DeltaTemplate:
    """The constant bytes around the sequence number and the text of a delta event."""

    __slots__ = ("head", "middle", "tail")

    def __init__(self, kind: str, fields: dict[str, JSON], after: bytes = b"") -> None:
        """Take the event type, the fields before `delta`, and the JSON `after` it inside the object."""
        name = kind.encode()
        self.head = b"event: " + name + b'\ndata: {"type":"' + name + b'","sequence_number":'
        self.middle = b"," + write_json(fields)[1:-1] + b',"delta":'
        self.tail = after + b"}\n\n"


def error_event_fields(error: Error) -> dict[str, JSON]:
    """Return the fields of the `error` event."""
    return {"code": "server_error", "message": error.message, "param": None}
