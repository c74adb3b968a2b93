"""One request with its answer, asked more than once where the first try came to nothing.

Theory of operation. One `Exchange` after the other; a `Screen` decides what the client sees of each. When a try has
ended with faults and there is another one left, `again` is true: whoever does the I/O says `ask_again` and sends
`outgoing`. When there is none, the client gets the better of the tries, at the worst what the first one said.

Rule: no I/O; a later try that fails in whatever way is never told: the first one's end stands.
Neighbours: `exchange` is driven, `second` writes the next request, `asking` does the same for every kind of loop.
"""

import itertools
from typing import NamedTuple

from fcshim.codecs.base import Codec, Outgoing
from fcshim.constrain.constraint import Constraint
from fcshim.errors import FcshimError
from fcshim.events import Error, Event, Stop, StopReason, Text, ToolCallChunk, Usage
from fcshim.exchange import Batch, Exchange
from fcshim.messages import Message, Request
from fcshim.parse.sink import Arguments
from fcshim.profiles import OFF, Server
from fcshim.reply import total_usage
from fcshim.retry.calls import Calls
from fcshim.retry.faults import Fault
from fcshim.retry.record import Record
from fcshim.retry.screen import NATURAL, Screen
from fcshim.retry.second import Attempt, constraint_of, conversation, is_optional
from fcshim.shim import Shim
from fcshim.stage import Stage

DEFAULT_MAX_RETRIES = 1
"""A model that fails twice mostly fails for good; every try costs a reply's time."""

_APART = "\n\n"
_ASKED_AGAIN = frozenset({"complete", "tool_use"})
"""How a try may end to be asked again: a client's stop sequence, or the end of the tokens, is no fault."""


class Tries:
    """Several exchanges that look like one: `outgoing`, `feed`, `close` and `fail` are an `Exchange`'s.

    After `close`, where `again` is true, `ask_again` and send `outgoing` once more. `whole`: the client gets the reply
    when it is over, so that every call can be mended.
    """

    __slots__ = (
        *("_asked", "_calls", "_exchange", "_failed", "_left", "_messages", "_over", "_plain", "_record", "_screens"),
        *("_shim", "_shown", "_upstream", "_usages", "_whole", "again", "finished"),
    )

    def __init__(
        self,
        request: Request,
        *,
        upstream: Codec,
        shim: Shim,
        max_retries: int = DEFAULT_MAX_RETRIES,
        whole: bool = False,
    ) -> None:
        self.again = False
        """Whether the model is to be asked once more."""
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
        self._begin("checked" if whole and shim.arguments == "stream" else shim.arguments)
        self._plain = self._screens[0].plain

    @property
    def outgoing(self) -> Outgoing:
        """What to send."""
        return self._exchange.outgoing

    @property
    def constraint(self) -> str:
        """What tells the constraint apart that is sent, should the upstream refuse it."""
        return self._exchange.constraint

    @property
    def repeated(self) -> bool:
        """Whether this is a later try."""
        return len(self._screens) > 1

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
        self.finished = self._exchange.finished or self._screens[-1].full
        return batch

    def close(self) -> Batch:
        """Take note that the body of this try has ended, or that reading stopped because it was finished."""
        self.finished = True
        return self._ended(self._exchange.close())

    def fail(self, error: FcshimError) -> Batch:
        """Take note that the upstream was lost."""
        self.finished = True
        return self._ended(self._exchange.fail(error))

    def ask_again(self, server: Server = OFF) -> None:
        """Make the next try, with a constraint where that kind of server takes one and it helps.

        May be said again with another server, as long as nothing was fed.
        """
        failed = self._failed
        if not self.again:
            self._screens.pop()
        constraint = constraint_of(self._shim, failed.faults, server)
        dialect = self._shim.dialect if constraint is None else constraint.dialect
        if constraint is not None and dialect is self._shim.dialect and not (failed.constraint or self._calls.taken):
            # Held to the grammar, the model cannot make the mistake again, and what it said would only be copied.
            self._messages = failed.messages
        else:
            self._messages = conversation(self._shim, failed.messages, failed.said, failed.faults, self._calls, dialect)
        self._begin("validated" if self._shim.arguments == "validated" else "checked", constraint)
        self.again = self._plain = self.finished = False

    def _begin(self, arguments: Arguments, constraint: Constraint | None = None) -> None:
        first = not self._screens
        self._record = Record()
        attempt = Attempt(
            self._shim,
            self._record.hear,
            arguments=arguments,
            messages=None if first else self._messages,
            constraint=constraint,
        )
        faults = self._failed.faults
        demanded = self._shim.request.tool_choice.mode == "required" if first else not is_optional(self._shim, faults)
        last = not (first or self._left)
        self._screens.append(Screen(self._calls, first=first, demanded=demanded, whole=self._whole, last=last))
        self._exchange = Exchange(self._asked, upstream=self._upstream, shim=attempt)

    def _seen(self, batch: Batch) -> Batch:
        screen = self._screens[-1]
        seen = screen.take(event for _, event in batch)
        self._plain = screen.plain
        self._shown = next((event for event in reversed(seen) if isinstance(event, Text)), self._shown)
        return [(0, event) for event in seen]

    def _broken(self, batch: Batch) -> Batch:
        """An error ends the first try; a later one just failed."""
        seen = self._seen(batch[:-1])
        if len(self._screens) > 1:
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
        self._screens[-1].close(stop)
        if not self._goes_on(stop):
            return seen + self._end(stop)
        self._left -= 1
        self.again = True
        faults = tuple(self._screens[-1].faults)
        self._failed = _Failed(self._messages, self._record.text, faults, self._exchange.constraint)
        return seen

    def _goes_on(self, stop: Stop) -> bool:
        screen = self._screens[-1]
        if not (self._left and screen.faults and self._record.fits and stop.stop_reason in _ASKED_AGAIN):
            return False
        return not screen.full and (self._shim.request.parallel_tool_calls or not self._calls.taken)

    def _end(self, stop: Stop | None) -> Batch:
        """Give what is owed of all tries, and the end; `stop` is the last one's, None where it broke."""
        self._over = True
        events, stop_reason = self._best(stop)
        if stop_reason in NATURAL and self._calls.taken:
            stop_reason = "tool_use"
        usage = total_usage(self._usages)
        counted: list[Event] = [] if usage is None else [usage]
        return [(0, event) for event in [*events, *counted, Stop(stop_reason)]]

    def _best(self, stop: Stop | None) -> tuple[list[Event], StopReason]:
        *earlier, last = self._screens
        if not earlier:
            return last.release(), last.stop.stop_reason
        failed = stop is None or last.full or last.faults or stop.stop_reason not in NATURAL
        if failed:
            owed = last if last.good else self._screens[0]
            kept = [each.release() if each is owed else each.salvage() for each in self._screens]
            return list(itertools.chain(*kept)), owed.stop.stop_reason
        salvaged = [event for each in earlier for event in each.salvage()]
        if self._calls.taken:
            return salvaged + last.salvage(), "tool_use"
        return self._apart(last.release()), last.stop.stop_reason

    def _apart(self, events: list[Event]) -> list[Event]:
        """Put an empty line between the text that was shown and that of another try."""
        begins = next((event.text for event in events if isinstance(event, Text)), "")
        shown = self._shown.text
        if not shown or shown[-1].isspace() or begins[:1].isspace():
            return events
        return [Text(_APART), *events]


class _Failed(NamedTuple):
    """A try that failed: what it was asked, what it said, what was wrong, and the constraint that it was held to."""

    messages: tuple[Message, ...]
    said: str
    faults: tuple[Fault, ...]
    constraint: str


def tried(request: Request, *, upstream: Codec, stage: Stage | None, max_retries: int, whole: bool) -> Exchange | Tries:
    """Give the exchange of a request; one with second tries where the calls stand in the text of one choice."""
    if max_retries and isinstance(stage, Shim) and stage.tools and request.n <= 1:
        return Tries(request, upstream=upstream, shim=stage, max_retries=max_retries, whole=whole)
    return Exchange(request, upstream=upstream, shim=stage)
