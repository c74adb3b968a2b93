"""One request to the upstream with its reply: the upstream's bytes in, the events of its choices out.

Rule: no I/O and no clock. Nothing is decided here; what the client gets of the events is the exchange's work.
"""

import functools
import io
from collections.abc import Callable, Iterable
from typing import TypeAlias

import msgspec

from fcshim.codecs.base import UpstreamCodec, UpstreamRequest
from fcshim.errors import FcshimError
from fcshim.events import Error, Event, Reasoning, Stop, Text, ToolCallChunk, Usage
from fcshim.messages import AssistantMessage, Message, Request, text_of
from fcshim.pipeline.attempt_filter import AttemptFilter, ReportedDefects
from fcshim.pipeline.call_outcome import ReplyReading
from fcshim.pipeline.native import Native, NativeStream
from fcshim.pipeline.native_check import CheckedNative, CheckedNativeStream
from fcshim.pipeline.resumption import PrefilledStream
from fcshim.pipeline.shim import Shim, ShimStream
from fcshim.prompt.compose import CHARACTERS_PER_TOKEN

Batch: TypeAlias = list[tuple[int, Event]]
"""Events, each with the index of its choice."""

Plan: TypeAlias = Request | Native | CheckedNative | Shim
"""A request prepared for the upstream, and how its reply is read; of a bare request, every event passes unchanged."""

ChoiceStream: TypeAlias = ShimStream | PrefilledStream | NativeStream | CheckedNativeStream

MAX_CHARACTERS = 64 * 2**10
"""Characters of one attempt: to repeat a longer text in the prompt of a retry costs more than the retry is worth."""


class Transcript:
    """The text of one attempt, in a `StringIO`: a list of small strings takes ten times the memory."""

    __slots__ = ("_remaining", "_text")

    def __init__(self) -> None:
        self._remaining = MAX_CHARACTERS
        self._text = io.StringIO()

    def append(self, text: str) -> None:
        """Append a text; once the limit is exceeded, drop it."""
        self._remaining -= len(text)
        if self._remaining >= 0:
            self._text.write(text)

    @property
    def is_complete(self) -> bool:
        """Whether all of the text was kept."""
        return self._remaining >= 0

    @property
    def text(self) -> str:
        """The text that was kept."""
        return self._text.getvalue()


class Attempt:
    """Drive one request through the upstream's codec and the streams of its plan, one for each choice.

    The reply ends once: with `usage` and a stop for each choice in `stops`, or with an `error`. If the upstream sends
    no usage, it is estimated at four characters a token from the text of prompt and reply. Only an attempt with a
    `filter` can be asked again, so only its text and its defects are kept. `prefill` is text that the model continues;
    a reply that starts a new turn instead is read if `admits_new_turn`, and discarded otherwise. Raises `RequestError`.
    """

    __slots__ = (
        *("_admits_new_turn", "_choice_count", "_choices", "_ended", "_prefill", "codec", "decoder", "defects"),
        *("error", "filter", "finished", "is_retry", "output_size", "plan", "request", "text_feeders", "transcript"),
        *("upstream_request", "usage"),
    )

    def __init__(
        self,
        plan: Plan,
        upstream: UpstreamCodec,
        attempt_filter: AttemptFilter | None = None,
        *,
        prefill: str = "",
        admits_new_turn: bool = False,
        is_retry: bool = False,
    ) -> None:
        self.plan = plan
        self.request = plan if isinstance(plan, Request) else plan.prepared
        self.codec = plan.codec if isinstance(plan, Shim) and plan.codec is not None else upstream
        self.filter = attempt_filter
        self.is_retry = is_retry
        self.transcript = Transcript()
        self.defects = ReportedDefects()
        self.output_size = 0
        self.usage: Usage | None = None
        self.error: Error | None = None
        self.finished = False
        """Whether nothing that the upstream may still send changes the reply: every choice has ended, or the stream."""
        self.text_feeders: dict[int, Callable[[str], list[Event]]] = {}  # of open choices, for `Exchange.feed`
        self._prefill = prefill
        self._admits_new_turn = admits_new_turn
        self._choice_count = max(self.request.n, 1)
        self._choices: dict[int, _Choice] = {}
        self._ended = False
        self.upstream_request: UpstreamRequest = self.codec.encode_request(self.request)
        self.decoder = self.codec.decoder()

    @property
    def constraint_key(self) -> str:
        """Identifies the constraint that is sent, to remember whether the upstream refuses it; empty without one."""
        return self.plan.constraint_key if isinstance(self.plan, Shim) else ""

    @property
    def reading(self) -> ReplyReading:
        """How the reply was read."""
        if not isinstance(self.plan, Shim):
            return ReplyReading()
        defects = () if self.filter is None else tuple(defect.kind for defect in self.filter.defects)
        transcript, backend = self.transcript, self.plan.backend.name
        return ReplyReading(self.plan.dialect, transcript.text, transcript.is_complete, defects, backend)

    @property
    def stops(self) -> list[tuple[int, Stop]]:
        """The stops of the choices of a reply that has ended without an error."""
        return [(index, choice.stop) for index, choice in self._choices.items()]

    def feed(self, decoded: Iterable[tuple[int, Event]]) -> Batch:
        """Take events of the decoder; return those of the reply."""
        events: Batch = []
        for index, event in () if self._ended else decoded:
            if isinstance(event, Usage):
                self.usage = event
            elif isinstance(event, Error):
                return events + self._abandon(event)
            elif index < self._choice_count:
                if isinstance(event, Text | Reasoning):
                    self.output_size += len(event.text)
                elif isinstance(event, ToolCallChunk):
                    self.output_size += len(event.tool_call_arguments_chunk)
                choice = self._choices.get(index)
                if choice is None:
                    choice = self._choices[index] = _Choice(self._new_stream())
                events += [(index, result) for result in choice.feed(event)]
        self._update_finished()
        return events

    def take_text(self, index: int, events: list[Event]) -> Batch:
        """Take what the text feeder of an open choice has returned; return the events of the reply."""
        batch: Batch = [(index, event) for event in self._choices[index].without_stop(events)]
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
        return self._abandon(Error(kind=error.kind, message=error.message))

    def _new_stream(self) -> ChoiceStream | None:
        plan = self.plan
        if isinstance(plan, Request):
            return None
        if not isinstance(plan, Shim):
            return plan.stream()
        if self.filter is None:
            return plan.stream()
        new_stream = functools.partial(plan.stream, on_text=self.transcript.append, on_defect=self.defects.add)
        stream = new_stream()
        if not self._prefill:
            return stream
        return PrefilledStream(
            stream,
            stream.feed_text(self._prefill),
            start_marker=plan.dialect.open.strip(),
            new_stream=new_stream if self._admits_new_turn else None,
        )

    def _update_finished(self) -> None:
        """Update `finished` and the open choices."""
        self.text_feeders = {
            index: choice.feed_text
            for index, choice in self._choices.items()
            if not (choice.stopped or choice.stopped_early)
        }
        self.finished = (
            self._ended
            or self.decoder.ended
            or (
                len(self._choices) == self._choice_count
                and all(
                    choice.stopped_early or (choice.stopped and self.usage is not None)
                    for choice in self._choices.values()
                )
            )
        )

    def _end(self) -> Batch:
        self._ended = self.finished = True
        self.text_feeders = {}
        if not self._choices:
            self._choices[0] = _Choice(self._new_stream())
        self.usage = self.usage or estimate_usage(self.request, self.output_size)
        closing: Batch = [(index, event) for index, choice in self._choices.items() for event in choice.close()]
        return self._withheld() + closing

    def _abandon(self, error: Error) -> Batch:
        """End the reply with an error; an open call ends with an error, too."""
        self._ended = self.finished = True
        self.text_feeders = {}
        self.error = error
        closing: Batch = [
            (index, event)
            for index, choice in self._choices.items()
            for event in choice.feed(Stop(stop_reason="error")) + choice.close()
        ]
        return self._withheld() + closing

    def _withheld(self) -> Batch:
        return [(0, event) for event in self.plan.take_withheld()] if isinstance(self.plan, CheckedNative) else []


class _Choice:
    """One choice and the stream of its events. Its `Stop` is kept until the usage is known, which comes before it."""

    __slots__ = ("_closed", "_stream", "feed_text", "stop", "stopped")

    def __init__(self, stream: ChoiceStream | None) -> None:
        self._stream = stream
        self.feed_text: Callable[[str], list[Event]] = _as_text if stream is None else stream.feed_text
        self._closed = False
        self.stop = Stop(stop_reason="complete")
        self.stopped = False

    @property
    def stopped_early(self) -> bool:
        return self._stream is not None and self._stream.finished

    def feed(self, event: Event) -> list[Event]:
        if self.stopped:
            return []
        if type(event) is Stop:
            self.stopped = True
        return self.without_stop([event] if self._stream is None else self._stream.feed(event))

    def close(self) -> list[Event]:
        """Return the events that the stream held back."""
        if self._stream is None or self._closed:
            return []
        self._closed = True
        return self.without_stop(self._stream.close())

    def without_stop(self, events: list[Event]) -> list[Event]:
        """Return `events` without the `Stop` at their end, which is kept in `stop`."""
        if events and type(events[-1]) is Stop:
            self.stop = events[-1]
            return events[:-1]
        return events


def _as_text(text: str) -> list[Event]:
    return [Text(text)]


def estimate_usage(sent: Request, characters: int) -> Usage:
    """Estimate the tokens of a request and of `characters` of output, at four characters a token, rounded up."""
    prompt = sum(len(_text_and_calls(message)) for message in sent.messages)
    if sent.tools:
        prompt += len(msgspec.json.encode(sent.tools))
    return Usage(input_tokens=_estimate_tokens(prompt), output_tokens=_estimate_tokens(characters))


def _text_and_calls(message: Message) -> str:
    calls = message.tool_calls if isinstance(message, AssistantMessage) else ()
    return text_of(message.content) + "".join(call.name + call.arguments for call in calls)


def _estimate_tokens(characters: int) -> int:
    return -(-characters // CHARACTERS_PER_TOKEN)
