"""The attempts of a request with retries: their messages, constraints and prefills.

Rule: a retry's request has the model's reply and a turn that names its defects, or a prefill; the earlier messages are
repeated byte for byte, so that the upstream's prefix cache hits.
"""

import sys
from collections.abc import Sequence
from dataclasses import replace

import msgspec

from fcshim.codecs.base import UpstreamCodec
from fcshim.constrain.call_template import MAX_CALLS, call_template_of
from fcshim.constrain.constraint import Constraint, apply_constraint, constraint_for, has_client_constraint
from fcshim.messages import AssistantMessage, Message, Request, TextPart, ToolChoice, UserMessage, without_format
from fcshim.parse.dialect import Dialect
from fcshim.parse.sink import ArgumentsMode
from fcshim.pipeline.attempt import Attempt
from fcshim.pipeline.attempt_filter import ANSWERED, AttemptDefect, AttemptFilter, InterruptedCall, ReplyCalls
from fcshim.pipeline.backends import OFF, Backend
from fcshim.pipeline.omissions import Omission
from fcshim.pipeline.resumption import (
    PREFILL,
    CallResumption,
    constraint_for_remainder,
    count_names,
    max_calls_of_resumed,
    prefill_fields,
    resume_call,
)
from fcshim.pipeline.shim import Shim
from fcshim.prompt.correction import write_correction


class AttemptMaker:
    """Makes the attempts of one exchange whose calls are read from the text of a single choice.

    `calls` are those that the client has. `buffered`: the client gets the reply in one piece at its end. `omissions`
    are left out of every request.
    """

    def __init__(
        self,
        shim: Shim,
        upstream: UpstreamCodec,
        calls: ReplyCalls,
        *,
        buffered: bool,
        omissions: Sequence[Omission] = (),
    ) -> None:
        self.shim = shim
        self._upstream = upstream
        self._calls = calls
        self._buffered = buffered
        self._omissions = omissions

    def first(self, *, retries_left: int) -> Attempt:
        """Return the first attempt, with a prefill if nothing else enforces a required call. Raises `RequestError`."""
        shim = self.shim
        call_required = shim.request.tool_choice.mode == "required"
        prefill = _start_of_call(shim) if call_required else ""
        plan = replace(
            shim,
            prepared=_with_prefill(shim.prepared, prefill, shim.backend) if prefill else shim.prepared,
            constraint_key=shim.constraint_key or (PREFILL if prefill else ""),
            options=replace(shim.options, arguments=live_arguments(shim, buffered=self._buffered)),
            prefill=prefill,
        )
        attempt_filter = self._live_filter(retries_left, call_required=call_required)
        return Attempt(plan, self._upstream, attempt_filter, omissions=self._omissions)

    def correction(self, failed: Attempt, backend: Backend, *, retries_left: int) -> Attempt:
        """Return the attempt that asks for calls in place of the defective ones."""
        assert failed.filter is not None
        shim, calls, defects = self.shim, self._calls, failed.filter.defects
        text, messages = failed.transcript.text, _messages_of(failed)
        max_calls = max_calls_of_retry(shim, text, defects, len(calls.accepted))
        constraint = constraint_for_retry(shim, defects, backend, max_calls=max_calls + len(calls.accepted))
        dialect = shim.dialect if constraint is None else constraint.dialect
        if constraint is None or dialect is not shim.dialect or failed.constraint_key or calls.accepted:
            messages = retry_messages(shim, messages, text, defects, calls, dialect)
        # Else the grammar prevents the mistake, and a model that sees its own faulty reply tends to copy it. If a
        # grammar did not prevent the defect, or if calls were accepted, the model gets a correction.
        attempt_filter = AttemptFilter(
            calls,
            live=False,
            call_required=not is_call_optional(shim, defects),
            buffered=self._buffered,
            fails_invalid=shim.options.invalid_calls == "error",
            last=not retries_left,
            max_calls=max_calls,
        )
        arguments: ArgumentsMode = "validated" if shim.options.arguments == "validated" else "checked"
        return self._later_attempt(attempt_filter, arguments, messages, constraint)

    def continuation(
        self, failed: Attempt, interrupted: InterruptedCall, backend: Backend, *, retries_left: int
    ) -> tuple[Attempt, CallResumption] | None:
        """Return the attempt that continues a call; None if the backend cannot continue a turn, or not this call."""
        if backend.prefill is None:
            return None
        shim, text = self.shim, failed.transcript.text
        resumption = resume_call(shim, text, self._calls.accepted, interrupted)
        if resumption is None:
            return None
        max_calls = max_calls_of_resumed(shim, text, resumption)
        constraint = constraint_for_remainder(shim, resumption, backend, max_calls=max_calls)
        attempt = self._later_attempt(
            self._live_filter(retries_left, call_required=False, max_calls=max_calls - resumption.calls_before),
            live_arguments(shim, buffered=self._buffered),
            _messages_of(failed),
            constraint,
            prefill=resumption.prefill,
            backend=backend,
        )
        return attempt, resumption

    def _later_attempt(
        self,
        attempt_filter: AttemptFilter,
        arguments: ArgumentsMode,
        messages: tuple[Message, ...],
        constraint: Constraint | None,
        *,
        prefill: str = "",
        backend: Backend = OFF,
    ) -> Attempt:
        """Return a retry with these messages; with a `prefill`, `backend` makes the model continue it.

        A reply that starts a new turn does not continue the call. It is discarded, so the first attempt stands.
        """
        shim = self.shim
        unconstrained = msgspec.structs.replace(shim.unconstrained, messages=messages)
        request = without_format(unconstrained)  # the client's response format would forbid a call
        prepared = request if constraint is None else apply_constraint(request, constraint)
        plan = replace(
            shim,
            unconstrained=unconstrained,
            prepared=_with_prefill(prepared, prefill, backend) if prefill else prepared,
            constraint_key="" if constraint is None else constraint.key,
            codec=None,
            dialect=shim.dialect if constraint is None else constraint.dialect,
            schema_enforced=constraint is not None and constraint.covers_all_calls,
            options=replace(shim.options, arguments=arguments),
            prefill=prefill,
        )
        return Attempt(plan, self._upstream, attempt_filter, is_retry=True, omissions=self._omissions)

    def _live_filter(self, retries_left: int, *, call_required: bool, max_calls: int = sys.maxsize) -> AttemptFilter:
        """Make the filter of an attempt that the client sees as it comes."""
        return AttemptFilter(
            self._calls,
            live=True,
            call_required=call_required,
            buffered=self._buffered,
            max_calls=max_calls,
            can_resume=retries_left > 0 and not self._buffered,
            fails_invalid=self.shim.options.invalid_calls == "error",
        )


def _messages_of(attempt: Attempt) -> tuple[Message, ...]:
    """Return the messages of an attempt, without its prefill."""
    assert isinstance(attempt.plan, Shim)
    return attempt.plan.unconstrained.messages


def _start_of_call(shim: Shim) -> str:
    """Return the start of a required call, if no constraint enforces one and the backend continues prefills.

    Empty otherwise: the model starts by itself, and a retry follows if it does not call.
    """
    not_needed = shim.constraint_key or has_client_constraint(shim.request)
    # If the prompt ends inside reasoning, the model would take the prefill for a part of its reasoning.
    if not_needed or shim.backend.prefill is None or not shim.tools or shim.options.open_reasoning_tag:
        return ""
    template = call_template_of(shim.dialect)
    if template is None:
        return shim.dialect.call.open.rstrip()
    name = template.name_to_arguments(0, shim.tools[0].name) if len(shim.tools) == 1 else ""
    return (template.before_name(0) + name).rstrip()


def live_arguments(shim: Shim, *, buffered: bool) -> ArgumentsMode:
    """Return how arguments are sent that the client sees at once: as early as possible, and yet open to a retry."""
    if shim.options.arguments != "stream":
        return shim.options.arguments
    if buffered or shim.refused_calls:  # no part of a call that is refused may be sent
        return "checked"
    if shim.escape.changed:  # escaped requests are never resumed
        return "stream" if shim.options.invalid_calls == "deliver" else "checked"
    return "resumable"


def constraint_for_retry(
    shim: Shim, defects: Sequence[AttemptDefect], backend: Backend = OFF, *, max_calls: int = MAX_CALLS
) -> Constraint | None:
    """Return the constraint of a retry: required calls, or as for the first attempt if a call is optional."""
    if backend.form is None:
        return None
    # Without the token limit: if a retry is cut off, the first attempt stands, so calls are not shortened to fit.
    request = msgspec.structs.replace(shim.request, max_tokens=None)
    if not is_call_optional(shim, defects):
        choice = ToolChoice("required", request.tool_choice.names)
        request = msgspec.structs.replace(
            request, tool_choice=choice, parallel_tool_calls=request.allows_parallel_calls and max_calls > 1
        )
    return constraint_for(
        backend.form,
        shim.dialect,
        shim.tools,
        request,
        open_reasoning_tag=shim.options.open_reasoning_tag,
        max_calls=max_calls,
    )


def max_calls_of_retry(shim: Shim, reply_text: str, defects: Sequence[AttemptDefect], accepted: int) -> int:
    """Return how many calls replace the defective ones: no more than the reply had, `accepted` of which were valid.

    An unreadable text may hold several calls; it has no more than it has names of tools.
    """
    if shim.request.parallel_tool_calls and any(defect.kind == "missing" for defect in defects):
        return MAX_CALLS
    unreadable = any(defect.kind == "unreadable" for defect in defects)
    named = count_names(shim.tools, reply_text) - accepted if unreadable else 0
    return min(max(named, len(defects)), MAX_CALLS)


def is_call_optional(shim: Shim, defects: Sequence[AttemptDefect]) -> bool:
    """Return whether a retry may do without a call: none was meant, or one of an unknown tool."""
    call_required = shim.request.tool_choice.mode == "required"
    return not call_required and all(defect.kind == "unoffered" or defect.kind in ANSWERED for defect in defects)


def retry_messages(
    shim: Shim,
    messages: tuple[Message, ...],
    reply_text: str,
    defects: Sequence[AttemptDefect],
    calls: ReplyCalls,
    dialect: Dialect,
) -> tuple[Message, ...]:
    """Return `messages` with the model's reply and a user turn that names its defects."""
    if all(defect.kind in ANSWERED for defect in defects) and not calls.accepted:
        reply_text = ""  # a model that sees what it has copied copies it again
    needs_names = any(defect.kind in {"unoffered", "missing"} for defect in defects)
    correction = write_correction(
        dialect,
        [{"kind": defect.kind, "name": defect.name, "message": defect.message} for defect in defects],
        shim.escape,
        names=[tool.name for tool in shim.tools] if needs_names else (),
        accepted_calls=calls.accepted,
        optional=is_call_optional(shim, defects),
        answer=shim.has_results and all(defect.kind in {"result", "repeated"} for defect in defects),
    )
    if reply_text.strip():
        # The reasoning tag at the end of the prompt is a part of the model's turn.
        messages = _with_turn(messages, AssistantMessage((TextPart(shim.options.open_reasoning_tag + reply_text),)), "")
    return _with_turn(messages, UserMessage((TextPart(correction),)), "\n\n")


def _with_prefill(request: Request, prefill: str, backend: Backend) -> Request:
    messages = _with_turn(request.messages, AssistantMessage((TextPart(prefill),)), "")
    return msgspec.structs.replace(request, messages=messages, extra={**request.extra, **prefill_fields(backend)})


def _with_turn(
    messages: tuple[Message, ...], turn: AssistantMessage | UserMessage, separator: str
) -> tuple[Message, ...]:
    """Append a turn, or extend a last turn of the same role, since many templates require alternating roles."""
    last = messages[-1] if messages else None
    if last is None or type(last) is not type(turn):
        return (*messages, turn)
    gap = (TextPart(separator),) if separator else ()
    return (*messages[:-1], msgspec.structs.replace(last, content=(*last.content, *gap, *turn.content)))
