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

from fcshim.backends import Backend, Prefill
from fcshim.constrain.call_template import call_template_of, write_partial_calls
from fcshim.constrain.constraint import Constraint, constraint_for_rest, has_client_constraint
from fcshim.constrain.partial_schema import order_by_prefix
from fcshim.events import JSON, Text, ToolCallChunk, ToolCallEnd, ToolCallStart
from fcshim.messages import ToolChoice
from fcshim.shim import Shim

PREFILL = "prefill"
"""What stands for the constraint where the model's turn is begun for it, should the upstream refuse that."""
_PREFILL_FIELDS: dict[Prefill, dict[str, JSON]] = {
    "plain": {},
    "continue_final_message": {"continue_final_message": True, "add_generation_prompt": False},
}


@dataclass(frozen=True, slots=True)
class InterruptedCall:
    """The end of a call that is to go on. `begun`: the client has its start, and the arguments that are `given`."""

    end: ToolCallEnd
    started: bool
    sent_arguments: str = ""


@dataclass(frozen=True, slots=True)
class TurnPrefill:
    """How the model's turn begins: `text`, and the white space `blank` that was cut off behind it.

    `calls` is all of the text from the first call on, `before` counts whole calls in it. `given` are the arguments of
    the last call that have to come again, in the text or behind it.
    """

    text: str
    trailing_space: str
    calls_text: str
    calls_before: int
    repeated_arguments: str


def prefill_to_resume(
    shim: Shim, reply_text: str, accepted: Sequence[tuple[str, str]], interrupted: InterruptedCall
) -> TurnPrefill | None:
    """Give the beginning with which the call can go on; None where there is none."""
    if shim.escape.changed:
        return None
    end, before = interrupted.end, len(accepted)
    assert end.error is not None
    given = interrupted.sent_arguments
    read = _replay(shim, reply_text, before + 1, len(given))
    if end.error.kind == "truncated":
        return _strip_prefill(reply_text, read.first_call, before, given)
    calls = write_partial_calls(shim.dialect, [*accepted, (end.tool_call_name, given)])
    head = write_partial_calls(shim.dialect, [*accepted, (end.tool_call_name, "")])
    if calls is not None and head is not None:
        return _strip_prefill(reply_text[: read.first_call] + calls, read.first_call, before, calls[len(head) :])
    if end.error.kind == "invalid" and not end.error.raw.startswith("}"):
        return None  # where the value began that does not fit, what was read of it does not tell
    return _strip_prefill(reply_text[: read.resume_at], read.first_call, before, given)


def prefill_for_required_call(shim: Shim) -> str:
    """Give how the first call begins where one is demanded, nothing else holds the model to it and the server goes on.

    Empty otherwise: the model begins by itself, and is asked again where that is no call.
    """
    held = shim.request.tool_choice.mode != "required" or shim.constraint_key or has_client_constraint(shim.request)
    # A model whose prompt ends in its reasoning would only think about what was begun there.
    if held or shim.backend.prefill is None or not shim.tools or shim.in_reasoning:
        return ""
    frames = call_template_of(shim.dialect)
    if frames is None:
        return shim.dialect.open.rstrip()
    named = frames.name_to_arguments(0, shim.tools[0].name) if len(shim.tools) == 1 else ""
    return (frames.before_name(0) + named).rstrip()


def constraint_for_remainder(
    shim: Shim, prefill: TurnPrefill, interrupted: InterruptedCall, backend: Backend
) -> Constraint | None:
    """Give what holds the model to a valid end of the call, where the server can be told so."""
    if backend.form is None:
        return None
    name, arguments = interrupted.end.tool_call_name, interrupted.end.tool_call_arguments_complete
    tools = [
        msgspec.structs.replace(tool, parameters=order_by_prefix(tool.parameters, arguments))
        if tool.name == name
        else tool
        for tool in shim.tools
    ]
    choice = ToolChoice("required", shim.request.tool_choice.names)
    request = msgspec.structs.replace(shim.request, tool_choice=choice, max_tokens=None)  # the call ends with its error
    return constraint_for_rest(backend.form, shim.dialect, tools, request, prefill.calls_text, prefill.trailing_space)


def prefill_fields(backend: Backend) -> dict[str, JSON]:
    """Give the fields by which that kind of server is told to go on with the last message."""
    return {} if backend.prefill is None else _PREFILL_FIELDS[backend.prefill]


def _strip_prefill(text: str, first_call: int, calls_before: int, repeated_arguments: str) -> TurnPrefill | None:
    bare = text.rstrip()
    return TurnPrefill(bare, text[len(bare) :], bare[first_call:], calls_before, repeated_arguments) if bare else None


@dataclass(frozen=True, slots=True)
class _ReplayPositions:
    """Places in what was said: where the `first` call opens, and behind what is `known` of the call that goes on."""

    first_call: int
    resume_at: int


def _replay(shim: Shim, reply_text: str, number: int, sent_size: int) -> _ReplayPositions:
    """Read what was said, character by character (1 us each), until so much is known of call number `number`."""
    stream = shim.stream(arguments="stream")
    begun = 0
    first, known = 0, len(reply_text)
    for at, character in enumerate(reply_text, 1):
        known_before = known if begun >= number else at - 1
        for event in stream.feed(Text(character)):
            match event:
                case ToolCallStart():
                    begun += 1
                    known = at
                    first = first if begun > 1 else _call_start(shim, reply_text, at)
                case ToolCallChunk() if begun == number:
                    sent_size -= len(event.tool_call_arguments_chunk)
                    if sent_size < 0:  # the client does not have all that came with this character
                        return _ReplayPositions(first, known_before)
                    known = at
                case ToolCallEnd() if begun == number:
                    return _ReplayPositions(first, known_before)
        if begun == number and sent_size <= 0:
            break
    return _ReplayPositions(first if begun else _call_start(shim, reply_text, len(reply_text)), known)


def _call_start(shim: Shim, reply_text: str, name_end: int) -> int:
    """Give where the call opens whose name has been read by then; 0 where nothing opens one in that dialect."""
    return max(reply_text.rfind(shim.dialect.open, 0, name_end), 0) if shim.dialect.open else 0
