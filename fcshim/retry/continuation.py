"""A call of which the client has the beginning, ended by another reply that goes on from there.

Theory of operation. The model's turn is begun for it (prefill) with what it said; where its call could not be read,
with the strict JSON that the client has instead. A new parser reads that beginning, too; what the client has of it is
passed over, to the character.

Rule: the client's call keeps its id, and its chunks add up; what goes on belongs to it alone until it ends.
Neighbours: `tries` asks for it, `constrain.frames` writes calls that have only begun, `servers` says who goes on.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import msgspec

from fcshim.constrain.begun import in_begun_order
from fcshim.constrain.constraint import Constraint, constraint_for_rest, has_its_own
from fcshim.constrain.frames import beginning_of_calls, frames_of
from fcshim.events import JSON, Event, Text, ToolCallChunk, ToolCallEnd, ToolCallStart
from fcshim.messages import ToolChoice
from fcshim.servers import Prefill, Server
from fcshim.shim import Shim, ShimStream

PREFILL = "prefill"
"""What stands for the constraint where the model's turn is begun for it, should the upstream refuse that."""
_FIELDS: dict[Prefill, dict[str, JSON]] = {
    "plain": {},
    "continue_final_message": {"continue_final_message": True, "add_generation_prompt": False},
}


@dataclass(frozen=True, slots=True)
class Beginning:
    """How the model's turn begins: `text`, of which `calls` is all from the first call on.

    `before`: whole calls in it. `known`: characters of the last call's arguments in it.
    """

    text: str
    calls: str
    before: int
    known: int


def beginning_of(shim: Shim, said: str, taken: Sequence[tuple[str, str]], end: ToolCallEnd) -> Beginning | None:
    """Give the beginning with which the call that ended with an error can go on; None where there is none.

    What was neutralised on its way is not, nor what ends with white space: templates cut that off.
    """
    assert end.error is not None
    if shim.neutralise.touched:
        return None
    at = max(said.find(shim.dialect.open), 0) if shim.dialect.open else 0
    arguments = end.tool_call_arguments_complete
    if end.error.kind == "truncated":
        found = Beginning(said, said[at:], len(taken), len(arguments))
    else:
        calls = beginning_of_calls(shim.dialect, [*taken, (end.tool_call_name, arguments)])
        head = beginning_of_calls(shim.dialect, [*taken, (end.tool_call_name, "")])
        if calls is None or head is None:
            return None
        found = Beginning(said[:at] + calls, calls, len(taken), len(calls) - len(head))
    return found if found.text and not found.text[-1].isspace() else None


def demanded_beginning(shim: Shim) -> str:
    """Give how the first call begins where one is demanded, nothing else holds the model to it and the server goes on.

    Empty otherwise: the model begins by itself, and is asked again where that is no call.
    """
    held = shim.request.tool_choice.mode != "required" or shim.constraint or has_its_own(shim.request)
    # A model whose prompt ends in its reasoning would only think about what was begun there.
    if held or shim.server.prefill is None or not shim.tools or shim.in_reasoning:
        return ""
    frames = frames_of(shim.dialect)
    if frames is None:
        return shim.dialect.open.rstrip()
    named = frames.behind(0, shim.tools[0].name) if len(shim.tools) == 1 else ""
    return (frames.head(0) + named).rstrip()


def constraint_of_rest(shim: Shim, beginning: Beginning, end: ToolCallEnd, server: Server) -> Constraint | None:
    """Give what holds the model to a valid end of the call that ended so, where the server can be told so."""
    if server.form is None:
        return None
    tools = [
        msgspec.structs.replace(tool, parameters=in_begun_order(tool.parameters, end.tool_call_arguments_complete))
        if tool.name == end.tool_call_name
        else tool
        for tool in shim.tools
    ]
    choice = ToolChoice("required", shim.request.tool_choice.names)
    request = msgspec.structs.replace(shim.request, tool_choice=choice, max_tokens=None)  # the call ends with its error
    return constraint_for_rest(server.form, shim.dialect, tools, request, beginning.calls)


def fields_of(server: Server) -> dict[str, JSON]:
    """Give the fields by which that kind of server is told to go on with the last message."""
    return {} if server.prefill is None else _FIELDS[server.prefill]


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
    """Makes one call of its two parts; `over` when it has ended, and what follows passes as it is."""

    def __init__(self, end: ToolCallEnd, beginning: Beginning) -> None:
        self.over = False
        self._end = end
        self._before = beginning.before
        self._known = beginning.known
        self._begun = 0
        self._arguments = [end.tool_call_arguments_complete]

    def take(self, events: Iterable[Event]) -> list[Event]:
        """Give what of the events is new to the client."""
        return [new for event in events for new in ([event] if self.over else self._new(event))]

    @property
    def end(self) -> ToolCallEnd:
        """The end of the call as it was, with all the arguments that the client has by now."""
        return msgspec.structs.replace(self._end, tool_call_arguments_complete="".join(self._arguments))

    def _new(self, event: Event) -> list[Event]:
        match event:
            case ToolCallStart():
                self._begun += 1
            case ToolCallChunk() if self._begun > self._before:
                return self._chunk(event.tool_call_arguments_chunk)
            case ToolCallEnd() if self._begun > self._before:
                self.over = True
                same = {"tool_call_id": self._end.tool_call_id, "index": self._end.index}
                return [msgspec.structs.replace(event, **same, tool_call_arguments_complete="".join(self._arguments))]
        return []

    def _chunk(self, text: str) -> list[Event]:
        known = min(self._known, len(text))
        self._known -= known
        if known == len(text):
            return []
        self._arguments.append(text[known:])
        return [ToolCallChunk(self._end.tool_call_id, text[known:], self._end.index)]
