"""The request with which the model is asked once more: what it said, and what was wrong with that.

Rule: what was sent before comes again byte for byte, so that the upstream has it in its cache.
Neighbours: `prompt.correction` writes the turn, `constrain` holds the call to its schema where the server can.
"""

from collections.abc import Sequence

import msgspec

from fcshim.constrain.constraint import Constraint, apply_constraint, constraint_for
from fcshim.constrain.response_format import without_format
from fcshim.events import JSON
from fcshim.messages import AssistantMessage, Message, Request, TextPart, ToolChoice, UserMessage
from fcshim.parse.dialect import Dialect
from fcshim.parse.sink import ArgumentsMode
from fcshim.prompt.correction import write_correction
from fcshim.retry.beginning import PREFILL, fields_of
from fcshim.retry.calls import Calls
from fcshim.retry.continuation import BegunStream
from fcshim.retry.faults import Fault
from fcshim.retry.record import Record
from fcshim.servers import OFF, Server
from fcshim.shim import Shim, ShimStream
from fcshim.stage import StageStream


class Attempt:
    """One try as a stage: what is asked, and how its reply is read."""

    def __init__(
        self,
        shim: Shim,
        *,
        arguments: ArgumentsMode,
        messages: tuple[Message, ...] | None = None,
        constraint: Constraint | None = None,
        beginning: str = "",
        server: Server | None = None,
    ) -> None:
        """Make the first try; a later one where there are `messages`.

        With `beginning` the model goes on with what it said, as `server` is told (else the shim's).
        """
        self.record = Record()
        """What the model says."""
        self._shim = shim
        self._arguments: ArgumentsMode = arguments
        self._beginning = beginning
        self._is_first = messages is None
        self._dialect = shim.dialect if constraint is None else constraint.dialect
        self._held = shim.held if messages is None else constraint is not None and constraint.covers_all_calls
        self.codec = shim.codec if messages is None else None
        if messages is None:
            self._request = shim.prepare()
            self.constraint = shim.constraint or (PREFILL if beginning else "")
        else:
            free = without_format(msgspec.structs.replace(shim.free, messages=messages))  # it would forbid a call
            self._request = free if constraint is None else apply_constraint(free, constraint)
            self.constraint = "" if constraint is None else constraint.key
        if beginning:
            self._request = _begun(self._request, beginning, fields_of(shim.server if server is None else server))

    def prepare(self) -> Request:
        """Give the request for the upstream."""
        return self._request

    def stream(self) -> StageStream:
        """Make the way back."""
        if not self._beginning:
            return self._new_stream()
        opener = self._shim.dialect.open.strip()
        anew = self._new_stream if self._is_first else None
        return BegunStream(self._new_stream(), self._beginning, opener=opener, anew=anew)

    def _new_stream(self) -> ShimStream:
        hear = self.record.hear
        return self._shim.stream(dialect=self._dialect, arguments=self._arguments, held=self._held, hear=hear)


def constraint_of(shim: Shim, faults: Sequence[Fault], server: Server = OFF) -> Constraint | None:
    """Give what holds the next try to calls, where it must make some, or what held the first one."""
    if server.form is None:
        return None
    # What the tokens do not suffice for is cut off, and the first try stands: nothing needs to be kept short for them.
    request = msgspec.structs.replace(shim.request, max_tokens=None)
    if not is_optional(shim, faults):
        request = msgspec.structs.replace(request, tool_choice=ToolChoice("required", request.tool_choice.names))
    return constraint_for(server.form, shim.dialect, shim.tools, request, in_reasoning=shim.in_reasoning)


def is_optional(shim: Shim, faults: Sequence[Fault]) -> bool:
    """Tell whether the next try may do without a call: no tool may fit where the model named one that is none."""
    demanded = shim.request.tool_choice.mode == "required"
    return not demanded and all(fault.kind == "unoffered" for fault in faults)


def conversation(
    shim: Shim, messages: tuple[Message, ...], said: str, faults: Sequence[Fault], calls: Calls, dialect: Dialect
) -> tuple[Message, ...]:
    """Give `messages` with what the model said to them and the turn that asks again, in the roles' order."""
    unknown = any(fault.kind in {"unoffered", "missing"} for fault in faults)
    correction = write_correction(
        dialect,
        [{"kind": fault.kind, "name": fault.name, "message": fault.message} for fault in faults],
        shim.neutralise,
        names=[tool.name for tool in shim.tools] if unknown else (),
        accepted_calls=calls.taken,
        optional=is_optional(shim, faults),
    )
    if said.strip():
        # The tag that the prompt ended with is part of what was said.
        messages = _added(messages, AssistantMessage((TextPart(shim.in_reasoning + said),)), "")
    return _added(messages, UserMessage((TextPart(correction),)), "\n\n")


def _begun(request: Request, beginning: str, fields: dict[str, JSON]) -> Request:
    messages = _added(request.messages, AssistantMessage((TextPart(beginning),)), "")
    return msgspec.structs.replace(request, messages=messages, extra={**request.extra, **fields})


def _added(messages: tuple[Message, ...], turn: AssistantMessage | UserMessage, separator: str) -> tuple[Message, ...]:
    """Add a turn; where the last one has the same role it goes on, since many templates want the roles to alternate."""
    last = messages[-1] if messages else None
    if last is None or type(last) is not type(turn):
        return (*messages, turn)
    gap = (TextPart(separator),) if separator else ()
    return (*messages[:-1], msgspec.structs.replace(last, content=(*last.content, *gap, *turn.content)))
