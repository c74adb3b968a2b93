"""One request with its answer, asked more than once where the first try came to nothing.

Theory of operation. One `Exchange` after the other; a `Screen` decides what the client sees of each. When a try has
ended with faults and there is another one left, `again` is true: whoever does the I/O says `ask_again` and sends
`outgoing`. When there is none, the client gets the better of the tries, at the worst what the first one said.

Rule: no I/O; a later try that fails in whatever way is never told: the first one's end stands.
Neighbours: `exchange` is driven, `second` writes the next request, `asking` does the same for every kind of loop.
"""

from typing import NamedTuple

from fcshim.codecs.base import UpstreamRequest, UpstreamCodec
from fcshim.constrain.constraint import Constraint
from fcshim.errors import FcshimError
from fcshim.events import Error, Event, Stop, StopReason, Text, ToolCallChunk, ToolCallEnd, Usage
from fcshim.exchange import Batch, Exchange
from fcshim.messages import Message, Request
from fcshim.parse.sink import ArgumentsMode
from fcshim.reply import total_usage
from fcshim.retry.beginning import Broken, beginning_of, constraint_of_rest, demanded_beginning
from fcshim.retry.calls import Calls
from fcshim.retry.continuation import Resumption
from fcshim.retry.ending import NOTHING_BEHIND, Behind, better_of
from fcshim.retry.faults import Fault
from fcshim.retry.screen import NATURAL, Screen
from fcshim.retry.second import Attempt, constraint_of, conversation, is_optional
from fcshim.servers import OFF, Server
from fcshim.shim import Shim
from fcshim.stage import Stage

DEFAULT_MAX_RETRIES = 1
"""A model that fails twice mostly fails for good; every try costs a reply's time."""

_ASKED_AGAIN = frozenset({"complete", "tool_use"})
"""How a try may end to be asked again: a client's stop sequence, or the end of the tokens, is no fault."""


class Tries:
    """Several exchanges that look like one: `outgoing`, `feed`, `close` and `fail` are an `Exchange`'s.

    After `close`, where `again` is true, `ask_again` and send `outgoing` once more. `whole`: the client gets the reply
    when it is over, so that every call can be mended.
    """

    __slots__ = (
        *(
            "_arguments",
            "_asked",
            "_attempt",
            "_behind",
            "_calls",
            "_exchange",
            "_failed",
            "_left",
            "_messages",
            "_over",
        ),
        *("_plain", "_resumed", "_screens", "_shim", "_shown", "_upstream", "_usages", "_whole"),
        *("again", "finished", "repeated"),
    )

    def __init__(
        self,
        request: Request,
        *,
        upstream: UpstreamCodec,
        shim: Shim,
        max_retries: int = DEFAULT_MAX_RETRIES,
        whole: bool = False,
    ) -> None:
        self.again = False
        """Whether the model is to be asked once more."""
        self.repeated = False
        """Whether this is a later try."""
        self.finished = False
        """Whether nothing that the upstream may still send to this try changes the reply."""
        self._asked = request
        self._upstream = upstream
        self._shim = shim
        self._left = max_retries
        self._whole = whole
        self._calls = Calls()
        self._usages: list[Usage | None] = []
        self._messages: tuple[Message, ...] = shim.free.messages
        self._failed = _Failed(self._messages, "", (), "")
        self._shown = Text("")
        self._over = False
        self._screens: list[Screen] = []
        self._resumed: Resumption | None = None
        self._behind = NOTHING_BEHIND
        self._arguments = self._first_arguments()
        self._begin()

    @property
    def outgoing(self) -> UpstreamRequest:
        """What to send."""
        return self._exchange.outgoing

    @property
    def constraint(self) -> str:
        """What tells the constraint apart that is sent, should the upstream refuse it."""
        return self._exchange.constraint

    @property
    def passed(self) -> bool:
        """Whether the client has seen a call of this try."""
        return self._screens[-1].good > 0

    @property
    def reason(self) -> str:
        """Why the model is asked once more, in words for the log."""
        return "; ".join(dict.fromkeys(map(str, self._failed.faults)))

    def feed(self, data: bytes) -> Batch:
        """Take the next bytes of the upstream's body; give the events that they complete."""
        batch = self._exchange.feed(data)
        if self._plain and len(batch) == 1:  # nearly every read of a live stream
            event = batch[0][1]
            if type(event) is Text:
                self._shown = event
                return batch
            if type(event) is ToolCallChunk:
                return batch
        if batch:
            batch = self._broken(batch) if type(batch[-1][1]) is Error else self._seen(batch)
        lost = self._resumed is not None and self._resumed.lost
        self.finished = self._exchange.finished or self._screens[-1].full or lost
        return batch

    def close(self) -> Batch:
        """Take note that the body of this try has ended, or that reading stopped because it was finished.

        Once more, where it was to be asked again and cannot be: then this is the end.
        """
        self.finished = True
        if self.again:
            self.again = False
            return self._end(self._screens[-1].stop)
        return self._ended(self._exchange.close())

    def fail(self, error: FcshimError) -> Batch:
        """Take note that the upstream was lost."""
        self.finished = True
        if self.again:
            return self.close()
        return self._ended(self._exchange.fail(error))

    def ask_again(self, server: Server = OFF) -> bool:
        """Make the next try, with a constraint where that kind of server takes one and it helps.

        May be said again with another server, as long as nothing was fed. False where there is no other way than to go
        on with a call, and that server does not: `again` stays true then.
        """
        failed = self._failed
        self.repeated = True
        if not self.again:
            self._screens.pop()
            self.again = True
        if failed.broken is not None:
            return self._go_on_with(failed.broken, server)
        constraint = constraint_of(self._shim, failed.faults, server)
        dialect = self._shim.dialect if constraint is None else constraint.dialect
        if constraint is not None and dialect is self._shim.dialect and not (failed.constraint or self._calls.taken):
            # Held to the grammar, the model cannot make the mistake again, and what it said would only be copied.
            self._messages = failed.messages
        else:
            self._messages = conversation(self._shim, failed.messages, failed.said, failed.faults, self._calls, dialect)
        self._ask_for_others(constraint)
        return True

    def _first_arguments(self) -> ArgumentsMode:
        """Say how arguments come that the client sees at once: as soon as they can, and can be mended all the same."""
        if self._shim.arguments != "stream":
            return self._shim.arguments
        if self._whole:
            return "checked"
        return "stream" if self._shim.neutralise.changed else "resumable"

    def _begin(self) -> None:
        attempt = Attempt(self._shim, arguments=self._arguments, beginning=demanded_beginning(self._shim))
        self._try(attempt, self._first_screen(demanded=self._shim.request.tool_choice.mode == "required"))

    def _ask_for_others(self, constraint: Constraint | None) -> None:
        """Ask for calls in the place of those that failed."""
        arguments: ArgumentsMode = "validated" if self._shim.arguments == "validated" else "checked"
        attempt = Attempt(self._shim, arguments=arguments, messages=self._messages, constraint=constraint)
        demanded = not is_optional(self._shim, self._failed.faults)
        self._try(attempt, Screen(self._calls, first=False, demanded=demanded, whole=self._whole, last=not self._left))

    def _go_on_with(self, broken: Broken, server: Server) -> bool:
        """Ask for the rest of a call; false where that server does not go on, or not with this one."""
        failed = self._failed
        beginning = None if server.prefill is None else beginning_of(self._shim, failed.said, self._calls.taken, broken)
        if beginning is None:
            return False
        attempt = Attempt(
            self._shim,
            arguments=self._arguments,
            messages=failed.messages,
            constraint=constraint_of_rest(self._shim, beginning, broken, server),
            beginning=beginning.text,
            server=server,
        )
        self._resumed = Resumption(broken, beginning)
        self._try(attempt, self._first_screen(demanded=False))
        return True

    def _first_screen(self, *, demanded: bool) -> Screen:
        """Make the screen of a try that the client sees as it comes."""
        resumes = self._left > 0 and not self._whole
        return Screen(self._calls, first=True, demanded=demanded, whole=self._whole, resumes=resumes)

    def _try(self, attempt: Attempt, screen: Screen) -> None:
        self._attempt = attempt
        self._screens.append(screen)
        self._exchange = Exchange(self._asked, upstream=self._upstream, shim=attempt)
        self._plain = screen.plain and self._resumed is None
        self.again = self.finished = False

    def _seen(self, batch: Batch) -> Batch:
        screen = self._screens[-1]
        events = [event for _, event in batch]
        seen = screen.take(events) if self._resumed is None else self._resumed_by(events, self._resumed)
        self._plain = screen.plain and self._resumed is None
        self._shown = next((event for event in reversed(seen) if isinstance(event, Text)), self._shown)
        return [(0, event) for event in seen]

    def _resumed_by(self, events: list[Event], resumed: Resumption) -> list[Event]:
        """Take what goes on with a call. Where its start was held, so was all that had waited for it."""
        *_, first, screen = self._screens
        begun, taken = resumed.begun, len(self._calls.taken)
        new = resumed.take(events)
        waited = first.waited() if resumed.begun and not begun else []
        seen = [*waited, *screen.take(new)]
        if resumed.over:  # what is still held of the call's first try is superseded, but for good calls
            self._resumed = None
            self._behind = Behind(resumed.good_behind(first.held()), taken + resumed.good)
            screen.stop = first.stop
            del self._screens[:-1]
        return seen

    def _broken(self, batch: Batch) -> Batch:
        """An error ends the first try; a later one just failed."""
        seen = self._seen(batch[:-1])
        if self.repeated:
            return seen + self._end(None)
        self._over = True
        return [*seen, *((0, event) for event in self._screens[0].release()), batch[-1]]

    def _ended(self, batch: Batch) -> Batch:
        """Take the last events of a try."""
        if self._over or not batch:
            return []
        if isinstance(batch[-1][1], Error):
            return self._broken(batch)
        (_, usage), (_, stop) = batch[-2:]
        assert isinstance(usage, Usage)
        assert isinstance(stop, Stop)
        seen = self._seen(batch[:-2])
        self._usages.append(usage)
        if not (self.repeated and stop.stop_reason == "error"):  # else the end of the first try stands
            self._screens[-1].close(stop)
        if not self._goes_on(stop):
            return seen + self._end(stop)
        self._left -= 1
        self.again = True
        screen = self._screens[-1]
        said, faults, constraint = self._attempt.record.text, tuple(screen.faults), self._exchange.constraint
        self._failed = _Failed(self._messages, said, faults, constraint, screen.to_go_on(stop))
        return seen

    def _goes_on(self, stop: Stop) -> bool:
        screen = self._screens[-1]
        if not (self._left and screen.faults and self._attempt.record.fits):
            return False
        broken = screen.to_go_on(stop)
        if broken is not None:
            return self._resumed is None and len(screen.faults) == 1 and self._may_go_on(broken.end, stop)
        if stop.stop_reason not in _ASKED_AGAIN:
            return False
        return not screen.full and (self._shim.request.parallel_tool_calls or not self._calls.taken)

    def _may_go_on(self, broken: ToolCallEnd, stop: Stop) -> bool:
        """Tell whether a call may be gone on with: not beyond the tokens that the client wants."""
        cut_off = broken.error is not None and broken.error.kind == "truncated"
        if stop.stop_reason == "max_tokens":
            return cut_off and self._shim.request.max_tokens is None
        return stop.stop_reason in _ASKED_AGAIN

    def _end(self, stop: Stop | None) -> Batch:
        """Give what is owed of all tries, and the end; `stop` is the last one's, None where it broke."""
        self._over = True
        events, stop_reason = self._best(stop)
        if self._shim.request.parallel_tool_calls:
            events += self._behind.owed(self._calls)
        if stop_reason in NATURAL and self._calls.taken:
            stop_reason = "tool_use"
        usage = total_usage(self._usages)
        counted: list[Event] = [] if usage is None else [usage]
        return [(0, event) for event in [*events, *counted, Stop(stop_reason)]]

    def _best(self, stop: Stop | None) -> tuple[list[Event], StopReason]:
        if self._resumed is None:
            return better_of(self._screens, self._calls, stop, self._shown.text)
        first = self._screens[-2]  # its call is still open
        return self._calls.numbered(self._resumed.as_it_was(first.held())), first.stop.stop_reason


class _Failed(NamedTuple):
    """A try that failed: what it was asked and said, what was wrong, what it was held to, and a call to go on with."""

    messages: tuple[Message, ...]
    said: str
    faults: tuple[Fault, ...]
    constraint: str
    broken: Broken | None = None


def tried(
    request: Request, *, upstream: UpstreamCodec, stage: Stage | None, max_retries: int, whole: bool
) -> Exchange | Tries:
    """Give the exchange of a request; one with second tries where the calls stand in the text of one choice."""
    if max_retries and isinstance(stage, Shim) and stage.tools and request.n <= 1:
        return Tries(request, upstream=upstream, shim=stage, max_retries=max_retries, whole=whole)
    return Exchange(request, upstream=upstream, shim=stage)
