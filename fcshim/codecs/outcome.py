"""How a reply ends for the client, whatever its API: which calls count, and when a reply is an error.

Rule: only calls that ended without error are calls for the client. A complete reply whose calls all failed is an error,
or was cut off if they were truncated. A reply is never silently empty: without text and valid calls, the excerpts of
its malformed calls are the text.
"""

from fcshim.errors import UpstreamError
from fcshim.events import CallError, Error, StopReason, ToolCallEnd
from fcshim.reply import Reply

UNFINISHED = Error("upstream_error", "the reply broke off before it was finished")
FAILED = Error("upstream_error", "the upstream ended the reply with an error")

COMPLETE_REASONS = frozenset[StopReason | None](["complete", "stop_sequence"])


class CallOutcomes:
    """The outcomes of the calls of one choice."""

    __slots__ = ("call_error", "valid_calls")

    def __init__(self) -> None:
        self.valid_calls = 0
        self.call_error: CallError | None = None

    def record(self, call: ToolCallEnd) -> None:
        """Record a call that has ended."""
        self.valid_calls += call.error is None
        self.call_error = call.error or self.call_error

    @property
    def truncated(self) -> bool:
        """Whether the last failed call was cut off, and no call is valid."""
        return self.call_error is not None and self.call_error.kind == "truncated" and not self.valid_calls

    def end_error(self, reason: StopReason) -> Error | None:
        """Return the error with which the choice must end, or None if it can end normally."""
        if reason == "error":
            return FAILED
        error = self.call_error
        if error is None or self.valid_calls or error.kind == "truncated" or reason not in COMPLETE_REASONS:
            return None
        return Error("model_output_error", f"the model wrote a tool call that cannot be used: {error.message}")


def raise_error(reply: Reply) -> None:
    """Raise `UpstreamError` if a whole reply has an error."""
    if reply.error is not None:
        raise UpstreamError(reply.error.message, kind=reply.error.kind)


def valid_calls(reply: Reply) -> list[ToolCallEnd]:
    """Return the calls of a whole reply that ended without error."""
    return [call for call in reply.tool_calls if call.error is None]


def is_truncated(reply: Reply) -> bool:
    """Tell whether a call of a whole reply was cut off, and no call is valid."""
    return not valid_calls(reply) and any(call.error and call.error.kind == "truncated" for call in reply.tool_calls)


def visible_text(reply: Reply) -> str:
    """Return the text of a whole reply, or the excerpts of its failed calls if it has nothing else."""
    if reply.text or valid_calls(reply):
        return reply.text
    return "".join(call.error.raw for call in reply.tool_calls if call.error)
