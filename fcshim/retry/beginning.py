"""Where a model's turn begins for it: with a call that is demanded, or with all up to where one can be gone on with.

Theory of operation. A call that was cut off goes on behind what its model wrote, whatever its language. One that could
not be read goes on behind what the client has of it: in dialects whose arguments are JSON that is written anew, in
others it is the model's own text, up to where the last of it was read. White space at the end is left out, since
templates cut it off; it has to come again.

Rule: nothing is begun that was neutralised on its way; a server that does not go on with a turn gets none begun.
Neighbours: `continuation` reads what follows, `constrain.frames` writes calls that have only begun.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from fcshim.constrain.partial_schema import order_by_prefix
from fcshim.constrain.constraint import Constraint, constraint_for_rest, has_client_constraint
from fcshim.constrain.call_template import write_partial_calls, call_template_of
from fcshim.events import JSON, Text, ToolCallChunk, ToolCallEnd, ToolCallStart
from fcshim.messages import ToolChoice
from fcshim.servers import Prefill, Server
from fcshim.shim import Shim

PREFILL = "prefill"
"""What stands for the constraint where the model's turn is begun for it, should the upstream refuse that."""
_FIELDS: dict[Prefill, dict[str, JSON]] = {
    "plain": {},
    "continue_final_message": {"continue_final_message": True, "add_generation_prompt": False},
}


@dataclass(frozen=True, slots=True)
class Broken:
    """The end of a call that is to go on. `begun`: the client has its start, and the arguments that are `given`."""

    end: ToolCallEnd
    begun: bool
    given: str = ""


@dataclass(frozen=True, slots=True)
class Beginning:
    """How the model's turn begins: `text`, and the white space `blank` that was cut off behind it.

    `calls` is all of the text from the first call on, `before` counts whole calls in it. `given` are the arguments of
    the last call that have to come again, in the text or behind it.
    """

    text: str
    blank: str
    calls: str
    before: int
    given: str


def beginning_of(shim: Shim, said: str, taken: Sequence[tuple[str, str]], broken: Broken) -> Beginning | None:
    """Give the beginning with which the call can go on; None where there is none."""
    if shim.neutralise.changed:
        return None
    end, before = broken.end, len(taken)
    assert end.error is not None
    given = broken.given
    read = _read_again(shim, said, before + 1, len(given))
    if end.error.kind == "truncated":
        return _stripped(said, read.first, before, given)
    calls = write_partial_calls(shim.dialect, [*taken, (end.tool_call_name, given)])
    head = write_partial_calls(shim.dialect, [*taken, (end.tool_call_name, "")])
    if calls is not None and head is not None:
        return _stripped(said[: read.first] + calls, read.first, before, calls[len(head) :])
    if end.error.kind == "invalid" and not end.error.raw.startswith("}"):
        return None  # where the value began that does not fit, what was read of it does not tell
    return _stripped(said[: read.known], read.first, before, given)


def demanded_beginning(shim: Shim) -> str:
    """Give how the first call begins where one is demanded, nothing else holds the model to it and the server goes on.

    Empty otherwise: the model begins by itself, and is asked again where that is no call.
    """
    held = shim.request.tool_choice.mode != "required" or shim.constraint or has_client_constraint(shim.request)
    # A model whose prompt ends in its reasoning would only think about what was begun there.
    if held or shim.server.prefill is None or not shim.tools or shim.in_reasoning:
        return ""
    frames = call_template_of(shim.dialect)
    if frames is None:
        return shim.dialect.open.rstrip()
    named = frames.name_to_arguments(0, shim.tools[0].name) if len(shim.tools) == 1 else ""
    return (frames.before_name(0) + named).rstrip()


def constraint_of_rest(shim: Shim, beginning: Beginning, broken: Broken, server: Server) -> Constraint | None:
    """Give what holds the model to a valid end of the call, where the server can be told so."""
    if server.form is None:
        return None
    name, arguments = broken.end.tool_call_name, broken.end.tool_call_arguments_complete
    tools = [
        msgspec.structs.replace(tool, parameters=order_by_prefix(tool.parameters, arguments))
        if tool.name == name
        else tool
        for tool in shim.tools
    ]
    choice = ToolChoice("required", shim.request.tool_choice.names)
    request = msgspec.structs.replace(shim.request, tool_choice=choice, max_tokens=None)  # the call ends with its error
    return constraint_for_rest(server.form, shim.dialect, tools, request, beginning.calls, beginning.blank)


def fields_of(server: Server) -> dict[str, JSON]:
    """Give the fields by which that kind of server is told to go on with the last message."""
    return {} if server.prefill is None else _FIELDS[server.prefill]


def _stripped(text: str, first: int, before: int, given: str) -> Beginning | None:
    bare = text.rstrip()
    return Beginning(bare, text[len(bare) :], bare[first:], before, given) if bare else None


@dataclass(frozen=True, slots=True)
class _Read:
    """Places in what was said: where the `first` call opens, and behind what is `known` of the call that goes on."""

    first: int
    known: int


def _read_again(shim: Shim, said: str, number: int, size: int) -> _Read:
    """Read what was said, character by character (1 us each), until so much is known of call number `number`."""
    stream = shim.stream(arguments="stream")
    begun = 0
    first, known = 0, len(said)
    for at, character in enumerate(said, 1):
        known_before = known if begun >= number else at - 1
        for event in stream.feed(Text(character)):
            match event:
                case ToolCallStart():
                    begun += 1
                    known = at
                    first = first if begun > 1 else _opening(shim, said, at)
                case ToolCallChunk() if begun == number:
                    size -= len(event.tool_call_arguments_chunk)
                    if size < 0:  # the client does not have all that came with this character
                        return _Read(first, known_before)
                    known = at
                case ToolCallEnd() if begun == number:
                    return _Read(first, known_before)
        if begun == number and size <= 0:
            break
    return _Read(first if begun else _opening(shim, said, len(said)), known)


def _opening(shim: Shim, said: str, named: int) -> int:
    """Give where the call opens whose name has been read by then; 0 where nothing opens one in that dialect."""
    return max(said.rfind(shim.dialect.open, 0, named), 0) if shim.dialect.open else 0
