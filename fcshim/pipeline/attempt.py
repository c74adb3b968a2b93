"""One request to the upstream with its reply: the upstream's bytes in, the events of its choices out.

Rule: no I/O and no clock. Nothing is decided here; what the client gets of the events is the exchange's work.
"""

import functools
import io
from collections.abc import Iterable, Sequence
from typing import TypeAlias

import msgspec

from fcshim.codecs.base import UpstreamCodec, UpstreamRequest
from fcshim.errors import FcshimError
from fcshim.events import Error, Event, Stop, Text, ToolCallEnd, Usage
from fcshim.messages import AssistantMessage, Request, text_of
from fcshim.parse.defect import Defect
from fcshim.pipeline.attempt_filter import AttemptFilter, ParsedEvent, as_phrase, size_of
from fcshim.pipeline.call_outcome import ParseRecord
from fcshim.pipeline.native import CheckedNativeStream, Native, NativeStream
from fcshim.pipeline.omissions import Omission, without
from fcshim.pipeline.resumption import PrefilledStream
from fcshim.pipeline.shim import Shim
from fcshim.pipeline.shim_stream import ShimStream
from fcshim.prompt.compose import CHARACTERS_PER_TOKEN

Batch: TypeAlias = list[tuple[int, Event]]
"""Events, each with the index of its choice."""

Plan: TypeAlias = Request | Native | Shim
"""A request prepared for the upstream, and how its reply is read; of a bare request, every event passes unchanged."""

ChoiceStream: TypeAlias = ShimStream | PrefilledStream | NativeStream | CheckedNativeStream

MAX_CHARACTERS = 64 * 2**10
"""Characters of one attempt: to repeat a longer text in the prompt of a retry costs more than the retry is worth."""


class Transcript:
    """What the parser reports of one attempt: its text, and defects until the events that they concern come."""

    __slots__ = ("_invalid", "_rejected", "_remaining", "_text")

    def __init__(self) -> None:
        self._remaining = MAX_CHARACTERS
        self._text = io.StringIO()  # a list of small strings takes ten times the memory
        self._rejected: list[Defect] = []
        self._invalid: dict[str, Defect] = {}

    def append(self, text: str) -> None:
        """Append a text; once the limit is exceeded, drop it."""
        self._remaining -= len(text)
        if self._remaining >= 0:
            self._text.write(text)

    def report(self, defect: Defect) -> None:
        """Take a defect."""
        if defect.kind == "invalid":
            self._invalid[defect.tool_call_id] = defect
        else:
            self._rejected.append(defect)

    @property
    def is_complete(self) -> bool:
        """Whether all of the text was kept."""
        return self._remaining >= 0

    @property
    def text(self) -> str:
        """The text that was kept."""
        return self._text.getvalue()

    def with_defects(self, batch: Batch) -> list[ParsedEvent]:
        """Return the events of a batch with their defects."""
        joined: list[ParsedEvent] = []
        for _, event in batch:
            defect = None
            if type(event) is Text and not event.text:
                defect = self._rejected.pop(0)
            elif type(event) is ToolCallEnd:
                defect = self._invalid.pop(event.tool_call_id, None)
            joined.append((event, defect))
        return joined


class Attempt:
    """Drive one request through the upstream's codec and the streams of its plan, one for each choice.

    The reply ends once: with `usage` and a stop for each choice in `stops`, or with an `error`. If the upstream sends
    no usage, it is estimated at four characters a token from the text of prompt and reply. Only an attempt with a
    `filter` can be asked again, so only its text and its defects are kept. A reply that starts a new turn instead of
    continuing the prefill is read if it is the first, and discarded if it `is_retry`. `omissions` are left out of the
    request. Raises `RequestError`.
    """

    __slots__ = (
        "_choice_count",
        "_choices",
        "_ended",
        "codec",
        "constraint_key",
        "decoder",
        "error",
        "filter",
        "finished",
        "is_retry",
        "open_choices",
        "output_size",
        "plan",
        "request",
        "stops",
        "transcript",
        "upstream_request",
        "usage",
    )

    def __init__(
        self,
        plan: Plan,
        upstream: UpstreamCodec,
        attempt_filter: AttemptFilter | None = None,
        *,
        is_retry: bool = False,
        omissions: Sequence[Omission] = (),
    ) -> None:
        self.plan = plan
        request = plan if isinstance(plan, Request) else plan.prepared
        self.request = without(request, omissions) if omissions else request
        """The request that the codec writes."""
        self.codec = plan.codec if isinstance(plan, Shim) and plan.codec is not None else upstream
        self.constraint_key = plan.constraint_key if isinstance(plan, Shim) else ""
        """Identifies the constraint that is sent, to remember whether the upstream refuses it; empty without one."""
        self.filter = attempt_filter
        self.is_retry = is_retry
        self.transcript = Transcript()
        self.output_size = 0
        self.usage: Usage | None = None
        self.stops: list[tuple[int, Stop]] = []
        self.error: Error | None = None
        self.finished = False
        """Whether nothing that the upstream may still send changes the reply: every choice has ended, or the stream."""
        self._choice_count = max(self.request.n, 1)
        self._choices: dict[int, ReplyChoice] = {}
        self.open_choices: dict[int, ReplyChoice] = {}
        """Those that have not ended."""
        self._ended = False
        self.upstream_request: UpstreamRequest = self.codec.encode_request(self.request)
        self.decoder = self.codec.decoder()

    @property
    def parse_record(self) -> ParseRecord:
        """How the reply was read."""
        if not isinstance(self.plan, Shim):
            return ParseRecord()
        defects = () if self.filter is None else tuple(defect.kind for defect in self.filter.defects)
        transcript, backend = self.transcript, self.plan.backend.name
        return ParseRecord(self.plan.dialect, transcript.text, transcript.is_complete, defects, backend)

    @property
    def defect(self) -> str:
        """What is wrong with the reply, as a phrase for the log; empty if it is good."""
        if isinstance(self.plan, Native):
            return self.plan.defect
        return "" if self.filter is None else as_phrase(self.filter.defects)

    @property
    def sent_call(self) -> bool:
        """Whether the client has got an accepted call."""
        return self.filter is not None and self.filter.accepted_count > 0

    def release_request(self) -> None:
        """Free the body of `upstream_request`, which has been sent: a reply may take minutes."""
        self.upstream_request = msgspec.structs.replace(self.upstream_request, body=b"")

    def feed(self, decoded: Iterable[tuple[int, Event]]) -> Batch:
        """Take events of the decoder; return those of the reply."""
        events: Batch = []
        for index, event in () if self._ended else decoded:
            if isinstance(event, Usage):
                self.usage = event
            elif isinstance(event, Error):
                return events + self._end(event)
            elif index < self._choice_count:
                self.output_size += size_of(event)
                choice = self._choices.get(index)
                if choice is None:
                    choice = self._choices[index] = ReplyChoice(index, self._new_stream())
                if choice.stopped:
                    continue
                stream, choice.stopped = choice.stream, type(event) is Stop
                if stream is None:
                    made: list[Event] = [event]
                elif type(event) is Text and not stream.finished:
                    made = stream.feed_text(event.text)
                else:
                    made = stream.feed(event)
                events += choice.take(made)
        self._update_finished()
        return events

    def take_text(self, choice: "ReplyChoice", events: list[Event]) -> Batch:
        """Take what an open choice has made of a text; return the events of the reply."""
        batch = choice.take(events)
        self._update_finished()
        return batch

    def close(self) -> Batch:
        """Handle the end of the body, or of the caller's reading; return the last events, without usage and stops."""
        events = [] if self.finished else self.feed(self.decoder.close())
        return events if self._ended else events + self._end()

    def fail(self, error: FcshimError) -> Batch:
        """Handle a failure of the upstream. A reply that was already complete stays complete."""
        if self._ended:
            return []
        if self._choices and all(choice.stopped for choice in self._choices.values()):
            return self._end()
        return self._end(Error(kind=error.kind, message=error.message))

    def _new_stream(self) -> ChoiceStream | None:
        plan = self.plan
        if isinstance(plan, Request):
            return None
        if not isinstance(plan, Shim) or self.filter is None:
            return plan.stream()
        new_stream = functools.partial(plan.stream, on_text=self.transcript.append, on_defect=self.transcript.report)
        stream = new_stream()
        if not plan.prefill:
            return stream
        return PrefilledStream(
            stream,
            stream.feed_text(plan.prefill),
            start_marker=plan.dialect.call.open.strip(),
            new_stream=None if self.is_retry else new_stream,
        )

    def _update_finished(self) -> None:
        """Update `finished` and the open choices."""
        open_choices: dict[int, ReplyChoice] = {}
        is_complete = len(self._choices) == self._choice_count
        for index, choice in self._choices.items():
            stopped_early = choice.stopped_early
            if not (choice.stopped or stopped_early):
                open_choices[index] = choice
            is_complete = is_complete and (stopped_early or (choice.stopped and self.usage is not None))
        self.open_choices = open_choices
        self.finished = is_complete or self._ended or self.decoder.ended

    def _end(self, error: Error | None = None) -> Batch:
        """End the reply; with an `error`, an open call ends with an error, too."""
        self._ended = self.finished = True
        self.open_choices = {}
        self.error = error
        if error is None:
            if not self._choices:
                self._choices[0] = ReplyChoice(0, self._new_stream())
            self.usage = self.usage or estimate_usage(self.request, self.output_size)
        closing: Batch = []
        for choice in self._choices.values():
            closing += choice.close(failed=error is not None)
            self.stops.append((choice.index, choice.stop))
        withheld: Batch = [(0, event) for event in self.plan.withheld] if isinstance(self.plan, Native) else []
        return withheld + closing


class ReplyChoice:
    """One choice and the stream of its events. Its `Stop` is kept until the usage is known, which comes before it."""

    __slots__ = ("_closed", "feed_text", "index", "stop", "stopped", "stream")

    def __init__(self, index: int, stream: ChoiceStream | None) -> None:
        self.index = index
        self._closed = False
        self.stream = stream
        """None if every event passes unchanged."""
        self.feed_text = None if stream is None else stream.feed_text
        """Does what `stream.feed(Text(text))` does, while the choice is open."""
        self.stop = Stop(stop_reason="complete")
        self.stopped = False
        """Whether the upstream has ended the choice."""

    @property
    def stopped_early(self) -> bool:
        """Whether the choice ended before the upstream did."""
        return self.stream is not None and self.stream.finished

    def take(self, events: list[Event]) -> Batch:
        """Take events of the stream; return them without the `Stop` at their end, which is kept in `stop`."""
        batch: Batch = []
        for event in events:
            if type(event) is Stop:
                self.stop = event
            else:
                batch.append((self.index, event))
        return batch

    def close(self, *, failed: bool) -> Batch:
        """Return the events that the stream held back, at the end of the reply or at its failure."""
        if self.stream is None or self._closed:
            return []
        self._closed = True
        ended = self.take(self.stream.feed(Stop("error"))) if failed and not self.stopped else []
        return ended + self.take(self.stream.close())


def estimate_usage(sent: Request, characters: int) -> Usage:
    """Estimate the tokens of a request and of `characters` of output, at four characters a token, rounded up."""
    prompt = sum(len(text_of(message.content)) for message in sent.messages)
    turns = (message for message in sent.messages if isinstance(message, AssistantMessage))
    prompt += sum(len(call.name) + len(call.arguments) for turn in turns for call in turn.tool_calls)
    if sent.tools:
        prompt += len(msgspec.json.encode(sent.tools))
    return Usage(input_tokens=_estimate_tokens(prompt), output_tokens=_estimate_tokens(characters))


def _estimate_tokens(characters: int) -> int:
    return -(-characters // CHARACTERS_PER_TOKEN)
