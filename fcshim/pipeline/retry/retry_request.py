"""The request of one attempt. A retry's has the model's reply and a turn that names its defects, or a prefill.

Rule: the earlier messages are repeated byte for byte, so that the upstream's prefix cache hits.
"""

from collections.abc import Sequence

import msgspec

from fcshim.constrain.constraint import Constraint, apply_constraint, constraint_for
from fcshim.constrain.response_format import without_format
from fcshim.events import JSON
from fcshim.messages import AssistantMessage, Message, Request, TextPart, ToolChoice, UserMessage
from fcshim.parse.dialect import Dialect
from fcshim.parse.sink import ArgumentsMode
from fcshim.pipeline.backends import OFF, Backend
from fcshim.pipeline.retry.calls import ReplyCalls
from fcshim.pipeline.retry.defects import AttemptDefect, ReportedDefects
from fcshim.pipeline.retry.prefill import PREFILL, prefill_fields
from fcshim.pipeline.retry.resumption import PrefilledStream
from fcshim.pipeline.retry.transcript import Transcript
from fcshim.pipeline.shim import Shim, ShimStream
from fcshim.pipeline.transform import TransformStream
from fcshim.prompt.correction import write_correction


class Attempt:
    """The transform of one attempt: its request, and how its reply is parsed."""

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
        """Make the first attempt, or a retry with these `messages`.

        With a `prefill` the model continues that text, with the request fields of `backend` (default: the shim's).
        """
        self.transcript = Transcript()
        """The model's text, for the next retry."""
        self.defects = ReportedDefects()
        """The defects that the parser reports."""
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
            # The client's response format would forbid a call.
            request = without_format(msgspec.structs.replace(shim.unconstrained_request, messages=messages))
            self._request = request if constraint is None else apply_constraint(request, constraint)
            self.constraint_key = "" if constraint is None else constraint.key
        if prefill:
            self._request = _with_prefill(
                self._request, prefill, prefill_fields(shim.backend if backend is None else backend)
            )

    def prepare(self) -> Request:
        """Return the request for the upstream."""
        return self._request

    def stream(self) -> TransformStream:
        """Make the event transform."""
        if not self._prefill:
            return self._new_stream()
        start_marker = self._shim.dialect.open.strip()
        # A retry that starts a new turn is discarded: it does not continue the call, so the first attempt stands.
        new_stream = self._new_stream if self._is_first else None
        return PrefilledStream(self._new_stream(), self._prefill, start_marker=start_marker, new_stream=new_stream)

    def _new_stream(self) -> ShimStream:
        return self._shim.stream(
            dialect=self._dialect,
            arguments=self._arguments,
            schema_enforced=self._schema_enforced,
            on_text=self.transcript.append,
            on_defect=self.defects.add,
        )


def constraint_for_retry(shim: Shim, defects: Sequence[AttemptDefect], backend: Backend = OFF) -> Constraint | None:
    """Return the constraint of a retry: required calls, or as for the first attempt if a call is optional."""
    if backend.form is None:
        return None
    # Without the token limit: if a retry is cut off, the first attempt stands, so calls are not shortened to fit.
    request = msgspec.structs.replace(shim.request, max_tokens=None)
    if not is_call_optional(shim, defects):
        request = msgspec.structs.replace(request, tool_choice=ToolChoice("required", request.tool_choice.names))
    return constraint_for(backend.form, shim.dialect, shim.tools, request, in_reasoning=shim.in_reasoning)


def is_call_optional(shim: Shim, defects: Sequence[AttemptDefect]) -> bool:
    """Return whether a retry may do without a call: after a call of an unknown tool, perhaps no offered tool fits."""
    call_required = shim.request.tool_choice.mode == "required"
    return not call_required and all(defect.kind == "unoffered" for defect in defects)


def retry_messages(
    shim: Shim,
    messages: tuple[Message, ...],
    reply_text: str,
    defects: Sequence[AttemptDefect],
    calls: ReplyCalls,
    dialect: Dialect,
) -> tuple[Message, ...]:
    """Return `messages` with the model's reply and a user turn that names its defects."""
    needs_names = any(defect.kind in {"unoffered", "missing"} for defect in defects)
    correction = write_correction(
        dialect,
        [{"kind": defect.kind, "name": defect.name, "message": defect.message} for defect in defects],
        shim.escape,
        names=[tool.name for tool in shim.tools] if needs_names else (),
        accepted_calls=calls.accepted,
        optional=is_call_optional(shim, defects),
    )
    if reply_text.strip():
        # The reasoning tag at the end of the prompt is a part of the model's turn.
        messages = _with_turn(messages, AssistantMessage((TextPart(shim.in_reasoning + reply_text),)), "")
    return _with_turn(messages, UserMessage((TextPart(correction),)), "\n\n")


def _with_prefill(request: Request, prefill: str, fields: dict[str, JSON]) -> Request:
    messages = _with_turn(request.messages, AssistantMessage((TextPart(prefill),)), "")
    return msgspec.structs.replace(request, messages=messages, extra={**request.extra, **fields})


def _with_turn(
    messages: tuple[Message, ...], turn: AssistantMessage | UserMessage, separator: str
) -> tuple[Message, ...]:
    """Append a turn, or extend a last turn of the same role, since many templates require alternating roles."""
    last = messages[-1] if messages else None
    if last is None or type(last) is not type(turn):
        return (*messages, turn)
    gap = (TextPart(separator),) if separator else ()
    return (*messages[:-1], msgspec.structs.replace(last, content=(*last.content, *gap, *turn.content)))
