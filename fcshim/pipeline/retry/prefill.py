"""Prefills: text with which the model's turn already starts, to continue an interrupted call or begin a required one.

Theory of operation. A call that the token limit cut off continues after the model's text, in every dialect. A call with
a defect continues after the arguments that the client has: in dialects with JSON arguments these are written anew, in
others the model's own text is repeated up to where the last of them was read. White space at the end of a prefill is
stripped, since chat templates strip it, too; the model has to write it again.

Rule: no call is continued if the escaper changed the request, since the client's arguments may then differ from the
model's text. A backend that does not continue a last assistant message gets no prefill.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from fcshim.constrain.call_template import call_template_of, write_partial_calls
from fcshim.constrain.constraint import Constraint, constraint_for_rest, has_client_constraint
from fcshim.constrain.partial_schema import order_by_prefix
from fcshim.events import JSON, Text, ToolCallChunk, ToolCallEnd, ToolCallStart
from fcshim.messages import ToolChoice
from fcshim.pipeline.backends import Backend, Prefill
from fcshim.pipeline.shim import Shim

PREFILL = "prefill"
"""The constraint key of a request with a prefill and no constraint, to remember whether the upstream refuses that."""
_PREFILL_FIELDS: dict[Prefill, dict[str, JSON]] = {
    "plain": {},
    "continue_final_message": {"continue_final_message": True, "add_generation_prompt": False},
}


@dataclass(frozen=True, slots=True)
class InterruptedCall:
    """A call to continue: its failed end; whether the client has its start, and which arguments the client has."""

    end: ToolCallEnd
    started: bool
    sent_arguments: str = ""


@dataclass(frozen=True, slots=True)
class TurnPrefill:
    """A prefill that ends inside a call: `text`, and the `trailing_space` that was stripped from it.

    `calls_text` is `text` from its first call on; `calls_before` counts the complete calls in it. `repeated_arguments`:
    the arguments of the interrupted call that the client has, and that the parser reads again in the prefill or after.
    """

    text: str
    trailing_space: str
    calls_text: str
    calls_before: int
    repeated_arguments: str


def prefill_to_resume(
    shim: Shim, reply_text: str, accepted: Sequence[tuple[str, str]], interrupted: InterruptedCall
) -> TurnPrefill | None:
    """Return the prefill with which the model can continue the call; None if there is none."""
    if shim.escape.changed:
        return None
    end, before = interrupted.end, len(accepted)
    assert end.error is not None
    sent = interrupted.sent_arguments
    positions = _replay(shim, reply_text, before + 1, len(sent))
    if end.error.kind == "truncated":
        return _strip_prefill(reply_text, positions.first_call, before, sent)
    calls = write_partial_calls(shim.dialect, [*accepted, (end.tool_call_name, sent)])
    head = write_partial_calls(shim.dialect, [*accepted, (end.tool_call_name, "")])
    if calls is not None and head is not None:
        return _strip_prefill(
            reply_text[: positions.first_call] + calls, positions.first_call, before, calls[len(head) :]
        )
    # The parser's events do not tell where in the text an invalid value began; they do if a member is missing at "}".
    if end.error.kind == "invalid" and not end.error.raw.startswith("}"):
        return None
    return _strip_prefill(reply_text[: positions.resume_at], positions.first_call, before, sent)


def prefill_for_required_call(shim: Shim) -> str:
    """Return the start of a call if one is required, no constraint enforces it, and the backend continues prefills.

    Empty otherwise: the model starts by itself, and a retry follows if it does not call.
    """
    not_needed = (
        shim.request.tool_choice.mode != "required" or shim.constraint_key or has_client_constraint(shim.request)
    )
    # If the prompt ends inside reasoning, the model would take the prefill for a part of its reasoning.
    if not_needed or shim.backend.prefill is None or not shim.tools or shim.options.in_reasoning:
        return ""
    template = call_template_of(shim.dialect)
    if template is None:
        return shim.dialect.open.rstrip()
    name = template.name_to_arguments(0, shim.tools[0].name) if len(shim.tools) == 1 else ""
    return (template.before_name(0) + name).rstrip()


def constraint_for_remainder(
    shim: Shim, prefill: TurnPrefill, interrupted: InterruptedCall, backend: Backend
) -> Constraint | None:
    """Return the constraint under which the remainder completes a valid call; None if the backend accepts none."""
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
    # Without the token limit: if the remainder is cut off, the call keeps its error, so nothing is shortened to fit.
    request = msgspec.structs.replace(shim.request, tool_choice=choice, max_tokens=None)
    return constraint_for_rest(backend.form, shim.dialect, tools, request, prefill.calls_text, prefill.trailing_space)


def prefill_fields(backend: Backend) -> dict[str, JSON]:
    """Return the request fields that make the backend continue the last message."""
    return {} if backend.prefill is None else _PREFILL_FIELDS[backend.prefill]


def _strip_prefill(text: str, first_call: int, calls_before: int, repeated_arguments: str) -> TurnPrefill | None:
    stripped = text.rstrip()
    trailing_space = text[len(stripped) :]
    if not stripped:
        return None
    return TurnPrefill(stripped, trailing_space, stripped[first_call:], calls_before, repeated_arguments)


@dataclass(frozen=True, slots=True)
class _ReplayPositions:
    """Positions in the reply's text: the start of its first call, and the end of what the client has of the last."""

    first_call: int
    resume_at: int


def _replay(shim: Shim, reply_text: str, number: int, sent_size: int) -> _ReplayPositions:
    """Parse the reply's text again, character by character (1 us each), up to the position that the client has.

    `number` counts the interrupted call from 1; the client has `sent_size` characters of its arguments.
    """
    stream = shim.stream(arguments="stream")
    started = 0
    first_call, resume_at = 0, len(reply_text)
    for at, character in enumerate(reply_text, 1):
        resume_before = resume_at if started >= number else at - 1
        for event in stream.feed(Text(character)):
            match event:
                case ToolCallStart():
                    started += 1
                    resume_at = at
                    first_call = first_call if started > 1 else _call_start(shim, reply_text, at)
                case ToolCallChunk() if started == number:
                    sent_size -= len(event.tool_call_arguments_chunk)
                    if sent_size < 0:  # the client does not have all that this character completed
                        return _ReplayPositions(first_call, resume_before)
                    resume_at = at
                case ToolCallEnd() if started == number:
                    return _ReplayPositions(first_call, resume_before)
        if started == number and sent_size <= 0:
            break
    return _ReplayPositions(first_call if started else _call_start(shim, reply_text, len(reply_text)), resume_at)


def _call_start(shim: Shim, reply_text: str, name_end: int) -> int:
    """Return the position of the last start marker before `name_end`; 0 if there is none, or the dialect has none."""
    return max(reply_text.rfind(shim.dialect.open, 0, name_end), 0) if shim.dialect.open else 0
