"""The request with which the model is asked once more: what it said, and what was wrong with that.

Rule: what was sent before comes again byte for byte, so that the upstream has it in its cache.
Neighbours: `prompt.correction` writes the turn, `constrain` holds the call to its schema where the server can.
"""

from collections.abc import Sequence

import msgspec

from fcshim.backends import OFF, Backend
from fcshim.constrain.constraint import Constraint, apply_constraint, constraint_for
from fcshim.constrain.response_format import without_format
from fcshim.events import JSON
from fcshim.messages import AssistantMessage, Message, Request, TextPart, ToolChoice, UserMessage
from fcshim.parse.dialect import Dialect
from fcshim.parse.sink import ArgumentsMode
from fcshim.prompt.correction import write_correction
from fcshim.retry.calls import ReplyCalls
from fcshim.retry.defects import AttemptDefect
from fcshim.retry.prefill import PREFILL, prefill_fields
from fcshim.retry.resumption import PrefilledStream
from fcshim.retry.transcript import Transcript
from fcshim.shim import Shim, ShimStream
from fcshim.transform import TransformStream


class Attempt:
    """One try as a stage: what is asked, and how its reply is read."""

    def __init__(
        self,
        shim: Shim,
        *,
        arguments: ArgumentsMode,
        messages: tuple[Message, ...] | None = None,
        constraint: Constraint | None = None,
        prefill: str = "",
        backend: Backend | None = None,
    ) -> None:
        """Make the first try; a later one where there are `messages`.

        With `beginning` the model goes on with what it said, as `server` is told (else the shim's).
        """
        self.transcript = Transcript()
        """What the model says."""
        self._shim = shim
        self._arguments: ArgumentsMode = arguments
        self._prefill = prefill
        self._is_first = messages is None
        self._dialect = shim.dialect if constraint is None else constraint.dialect
        self._schema_enforced = (
            shim.schema_enforced if messages is None else constraint is not None and constraint.covers_all_calls
        )
        self.codec = shim.codec if messages is None else None
        if messages is None:
            self._request = shim.prepare()
            self.constraint_key = shim.constraint_key or (PREFILL if prefill else "")
        else:
            free = without_format(
                msgspec.structs.replace(shim.unconstrained_request, messages=messages)
            )  # it would forbid a call
            self._request = free if constraint is None else apply_constraint(free, constraint)
            self.constraint_key = "" if constraint is None else constraint.key
        if prefill:
            self._request = _with_prefill(
                self._request, prefill, prefill_fields(shim.backend if backend is None else backend)
            )

    def prepare(self) -> Request:
        """Give the request for the upstream."""
        return self._request

    def stream(self) -> TransformStream:
        """Make the way back."""
        if not self._prefill:
            return self._new_stream()
        opener = self._shim.dialect.open.strip()
        anew = self._new_stream if self._is_first else None
        return PrefilledStream(self._new_stream(), self._prefill, start_marker=opener, new_stream=anew)

    def _new_stream(self) -> ShimStream:
        hear = self.transcript.append
        return self._shim.stream(
            dialect=self._dialect, arguments=self._arguments, schema_enforced=self._schema_enforced, on_text=hear
        )


def constraint_for_retry(shim: Shim, defects: Sequence[AttemptDefect], backend: Backend = OFF) -> Constraint | None:
    """Give what holds the next try to calls, where it must make some, or what held the first one."""
    if backend.form is None:
        return None
    # What the tokens do not suffice for is cut off, and the first try stands: nothing needs to be kept short for them.
    request = msgspec.structs.replace(shim.request, max_tokens=None)
    if not is_call_optional(shim, defects):
        request = msgspec.structs.replace(request, tool_choice=ToolChoice("required", request.tool_choice.names))
    return constraint_for(backend.form, shim.dialect, shim.tools, request, in_reasoning=shim.in_reasoning)


def is_call_optional(shim: Shim, defects: Sequence[AttemptDefect]) -> bool:
    """Tell whether the next try may do without a call: no tool may fit where the model named one that is none."""
    demanded = shim.request.tool_choice.mode == "required"
    return not demanded and all(fault.kind == "unoffered" for fault in defects)


def retry_messages(
    shim: Shim,
    messages: tuple[Message, ...],
    reply_text: str,
    defects: Sequence[AttemptDefect],
    calls: ReplyCalls,
    dialect: Dialect,
) -> tuple[Message, ...]:
    """Give `messages` with what the model said to them and the turn that asks again, in the roles' order."""
    unknown = any(fault.kind in {"unoffered", "missing"} for fault in defects)
    correction = write_correction(
        dialect,
        [{"kind": fault.kind, "name": fault.name, "message": fault.message} for fault in defects],
        shim.escape,
        names=[tool.name for tool in shim.tools] if unknown else (),
        accepted_calls=calls.accepted,
        optional=is_call_optional(shim, defects),
    )
    if reply_text.strip():
        # The tag that the prompt ended with is part of what was said.
        messages = _with_turn(messages, AssistantMessage((TextPart(shim.in_reasoning + reply_text),)), "")
    return _with_turn(messages, UserMessage((TextPart(correction),)), "\n\n")


def _with_prefill(request: Request, prefill: str, fields: dict[str, JSON]) -> Request:
    messages = _with_turn(request.messages, AssistantMessage((TextPart(prefill),)), "")
    return msgspec.structs.replace(request, messages=messages, extra={**request.extra, **fields})


def _with_turn(
    messages: tuple[Message, ...], turn: AssistantMessage | UserMessage, separator: str
) -> tuple[Message, ...]:
    """Add a turn; where the last one has the same role it goes on, since many templates want the roles to alternate."""
    last = messages[-1] if messages else None
    if last is None or type(last) is not type(turn):
        return (*messages, turn)
    gap = (TextPart(separator),) if separator else ()
    return (*messages[:-1], msgspec.structs.replace(last, content=(*last.content, *gap, *turn.content)))
