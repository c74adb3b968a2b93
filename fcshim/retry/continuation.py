"""A call that has only begun, ended by another reply that goes on from there.

Theory of operation. The model's turn is begun for it (prefill). A new parser reads that beginning, too, and then what
follows; of the call's arguments, what the client has is passed over, character by character. Where something else
comes instead, the call stays as it was.

Rule: the client's call keeps its id, and its chunks add up; what goes on belongs to it alone until it ends.
Neighbours: `beginning` says where a call goes on, `tries` asks for it.
"""

from collections.abc import Callable, Iterable

import msgspec

from fcshim.events import Event, Text, ToolCallChunk, ToolCallEnd, ToolCallStart
from fcshim.parse.sink import InvalidCallEnd
from fcshim.retry.beginning import Beginning, Broken
from fcshim.shim import ShimStream


class BegunStream:
    """The way back of a reply that was begun: its beginning is read before it.

    Some servers take a new turn instead of going on, which shows where the reply begins with `opener`. It is read by a
    stream of its own then (`anew`), or not at all: what was begun would otherwise be mixed with it.
    """

    def __init__(
        self, stream: ShimStream, beginning: str, *, opener: str, anew: Callable[[], ShimStream] | None
    ) -> None:
        self._stream = stream
        self._first = stream.read(beginning)
        self._opener = opener
        self._anew = anew
        self._waiting = ""
        self._dropped = False

    @property
    def finished(self) -> bool:
        """Whether the reply ended before the upstream did."""
        return self._dropped or self._stream.finished

    def feed(self, event: Event) -> list[Event]:
        """Take the upstream's next event; give the client's."""
        if isinstance(event, Text):
            return self.read(event.text)
        waited = self._waited()
        return waited if self._dropped else waited + self._behind(self._stream.feed(event))

    def read(self, text: str) -> list[Event]:
        """Take the upstream's next piece of text."""
        if self._dropped:
            return []
        if not self._opener:
            return self._behind(self._stream.read(text))
        self._waiting += text
        said = self._waiting.lstrip()
        undecided = len(said) < len(self._opener) and self._opener.startswith(said)
        return [] if undecided else self._waited()

    def close(self) -> list[Event]:
        """The upstream has ended; give what is held back."""
        waited = self._waited()
        if self._dropped:
            return self._stream.close("error")
        return waited + self._behind(self._stream.close())

    def _waited(self) -> list[Event]:
        """Read what waited until it was known whether the reply goes on."""
        text, self._waiting = self._waiting, ""
        is_new = bool(self._opener) and text.lstrip().startswith(self._opener)
        self._opener = ""
        if is_new:
            self._first = []
            self._dropped = self._anew is None
            if self._anew is not None:
                self._stream = self._anew()
        return self._behind(self._stream.read(text)) if text and not self._dropped else []

    def _behind(self, events: list[Event]) -> list[Event]:
        first, self._first = self._first, []
        return first + events


class Resumption:
    """Makes one call of its two parts; `over` when it has ended, and what follows passes as it is.

    `lost` when what the client has of it did not come again, or nothing more: then nothing of this reply belongs to it.
    """

    def __init__(self, broken: Broken, beginning: Beginning) -> None:
        self.over = False
        self.lost = False
        self.good = False
        """Whether it ended without error."""
        self.begun = broken.begun
        """Whether the client has its start."""
        self._end = broken.end
        self._before = beginning.before
        self._given = beginning.given
        self._known = 0
        self._number = 0
        self._passed = False
        self._arguments = [broken.given]

    def take(self, events: Iterable[Event]) -> list[Event]:
        """Give what of the events is new to the client."""
        return [new for event in events for new in ([event] if self.over else self._new(event))]

    def as_it_was(self, held: list[Event]) -> list[Event]:
        """Give what was held when the call broke off; what the client has of it by now belongs to it."""
        if not self._passed:
            return held
        (at,) = (at for at, event in enumerate(held) if isinstance(event, ToolCallEnd) and self._is_same(event))
        end = msgspec.structs.replace(self._end, tool_call_arguments_complete="".join(self._arguments))
        return [end, *held[at + 1 :]]

    def good_behind(self, held: list[Event]) -> list[Event]:
        """Give the good calls that were held behind the call when it broke off."""
        ends = [event for event in held if isinstance(event, ToolCallEnd) and not self._is_same(event)]
        good = {end.tool_call_id for end in ends if end.error is None}
        calls = (ToolCallStart, ToolCallChunk, ToolCallEnd)
        return [event for event in held if isinstance(event, calls) and event.tool_call_id in good]

    def _new(self, event: Event) -> list[Event]:
        if isinstance(event, ToolCallStart):
            self._number += 1
        if self.lost or self._number <= self._before:
            return []
        match event:
            case ToolCallStart() if not self.begun:
                self.begun = self._passed = True
                self._end = msgspec.structs.replace(self._end, tool_call_name=event.tool_call_name)
                return [msgspec.structs.replace(event, tool_call_id=self._end.tool_call_id, index=self._end.index)]
            case ToolCallChunk():
                return self._chunk(event.tool_call_arguments_chunk)
            case ToolCallEnd():
                return self._ended(event)
        return []

    def _chunk(self, text: str) -> list[Event]:
        again = self._given[self._known : self._known + len(text)]
        if not text.startswith(again):
            self.lost = True
            return []
        self._known += len(again)
        if len(again) == len(text):
            return []
        self._passed = True
        self._arguments.append(text[len(again) :])
        return [ToolCallChunk(self._end.tool_call_id, text[len(again) :], self._end.index)]

    def _is_same(self, end: ToolCallEnd) -> bool:
        return end.tool_call_id == self._end.tool_call_id

    def _ended(self, event: ToolCallEnd) -> list[Event]:
        if self._known < len(self._given) or (event.error is not None and not self._passed):
            self.lost = True
            return []
        self.over, self.good = True, event.error is None
        same = {"tool_call_id": self._end.tool_call_id, "index": self._end.index}
        arguments = "".join(self._arguments) + (event.unsent if isinstance(event, InvalidCallEnd) else "")
        return [msgspec.structs.replace(event, **same, tool_call_arguments_complete=arguments)]
