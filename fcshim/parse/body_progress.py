"""The progress of one body and of its current call, shared by the parts of the body's reader.

Theory of operation. A call that must not run, and text that turns out not to be a call, is still read to its end, with
`discarding` set: a call that its strings quote must not be found.

Rule: one `feed` reports one status; where a call turns out to be text only at its end, the next `feed` reports its end.
"""

from fcshim.parse.body import READING, BodyStatus
from fcshim.parse.sink import CallSink


class BodyProgress:
    """The status of a body, which its reader copies after each `feed`, and the state of its current call."""

    __slots__ = ("_sink", "discarding", "end_pending", "final", "refused", "started", "status", "wait")

    def __init__(self, sink: CallSink) -> None:
        self.status = READING
        self.wait = False
        """True where the text left can only be read together with more text."""
        self.final = False
        """True when the reply is over, so that no more text follows."""
        self.started = False
        """True once the start of the current call was sent."""
        self.discarding = False
        """True while the current call is read without sending."""
        self.refused = False
        """True where the current call and all later ones are text."""
        self.end_pending = False
        """True where the next `feed` only reports the end of a call, because this one reports that it is text."""
        self._sink = sink

    def begin_call(self) -> None:
        """Begin a call, which is discarded where the body was refused."""
        self.started = False
        self.discarding = self.refused

    def report_start(self) -> None:
        """Report that the start of the call was sent."""
        self.started = True
        if self.status is READING:
            self.status = BodyStatus.STARTED

    def discard(self) -> None:
        """Treat the current call as text: read to its end without sending."""
        self._sink.finish()
        self.discarding = True
        if self.status is READING:
            self.status = BodyStatus.NOT_A_CALL

    def end_call(self) -> None:
        """Report the end of the call."""
        self.end_pending = self.status is BodyStatus.NOT_A_CALL
        if not self.end_pending:
            self.status = BodyStatus.CALL_ENDED

    def report_pending_end(self) -> None:
        """Report the end of the call that was pending."""
        self.end_pending = False
        self.status = BodyStatus.CALL_ENDED

    def end_body(self) -> None:
        """End the body and accept its last call."""
        self._sink.finish()
        self.status = BodyStatus.ENDED

    def reject_body(self) -> None:
        """Report that no body begins here, and accept the last call."""
        self._sink.finish()
        self.status = BodyStatus.NO_BODY
