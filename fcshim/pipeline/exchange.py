"""One request with its reply: the upstream's bytes in, the client's events out.

Rule: no I/O and no clock. The caller feeds the bytes it reads from the upstream, and stops when `finished` is true.
"""

from collections.abc import Callable, Iterable
from typing import Protocol

import msgspec

from fcshim.codecs.base import UpstreamCodec, UpstreamRequest
from fcshim.errors import FcshimError
from fcshim.events import Error, Event, Reasoning, Stop, Text, ToolCallChunk, Usage, total_usage
from fcshim.messages import AssistantMessage, Message, Request, text_of
from fcshim.pipeline.backends import Backend
from fcshim.pipeline.call_outcome import ReplyReading
from fcshim.pipeline.transform import Transform, TransformStream
from fcshim.prompt.compose import CHARACTERS_PER_TOKEN

Batch = list[tuple[int, Event]]
"""Events, each with the index of its choice."""


class AnyExchange(Protocol):
    """One request with its reply, in one attempt (`Exchange`) or several (`RetryingExchange`).

    Call `prepare`, then send `upstream_request`. Pass every read of the upstream's body to `feed`; call `close` at its
    end, or `fail` if it failed. If `wants_retry` is true then, call `prepare_retry` and do all of this again.
    """

    earlier_usage: Usage | None
    """The tokens of an exchange that this one replaces; they count as the reply's own."""

    @property
    def upstream_request(self) -> UpstreamRequest:
        """The request of the current attempt."""
        ...

    def release_request(self) -> None:
        """Free the body of `upstream_request`, which has been sent: a reply may take minutes."""
        ...

    @property
    def codec(self) -> UpstreamCodec:
        """The codec of the current attempt, which encoded the request and decodes the reply."""
        ...

    @property
    def reading(self) -> ReplyReading:
        """How the reply of the current attempt was read."""
        ...

    @property
    def counted_prompt(self) -> tuple[Request, Usage | None]:
        """The prompt of the current attempt, and the tokens that the upstream has reported for it so far."""
        ...

    @property
    def constraint_key(self) -> str:
        """Identifies the constraint that is sent, to remember whether the upstream refuses it; empty without one."""
        ...

    @property
    def finished(self) -> bool:
        """Whether nothing that the upstream may still send in this attempt changes the reply."""
        ...

    @property
    def wants_retry(self) -> bool:
        """Whether the model should be asked again."""
        ...

    @property
    def is_retry(self) -> bool:
        """Whether the current attempt is a retry."""
        ...

    @property
    def sent_call(self) -> bool:
        """Whether the client has got an accepted call of the current attempt."""
        ...

    @property
    def retry_reason(self) -> str:
        """The defects of the last attempt, as a phrase for the log."""
        ...

    @property
    def remaining_defects(self) -> str:
        """The defects of the reply that stands after all retries, as a phrase; empty without any."""
        ...

    def prepare(self) -> None:
        """Make the first request."""
        ...

    def prepare_retry(self, backend: Backend) -> bool:
        """Make the next request, with a constraint if `backend` accepts one; return false if none can help."""
        ...

    def feed(self, data: bytes) -> Batch:
        """Take the next bytes of the upstream's body; return the events that they complete."""
        ...

    def close(self) -> Batch:
        """Handle the end of the body, or of the caller's reading, since the exchange was finished.

        If `wants_retry` is true and the retry cannot be made, a second call ends the reply.
        """
        ...

    def fail(self, error: FcshimError) -> Batch:
        """Handle a failure of the upstream. A reply that was already complete stays complete."""
        ...


class Exchange:
    """Drive one request through the upstream's codec and a transform, if there is one.

    The events of each choice end with one `Stop`, or the whole exchange ends with one `Error`, which `error` keeps.
    `Usage` comes once, on choice 0, before the stops; if the upstream sends none it is estimated at four characters a
    token from the text of prompt and reply.
    """

    wants_retry = is_retry = sent_call = False
    retry_reason = remaining_defects = ""
    __slots__ = (
        *("_output_size", "_choices", "_codec", "_decoder", "_ended", "_text_feeders", "_request", "_transform"),
        *("_usage", "_choice_count", "constraint_key", "earlier_usage", "error", "finished", "upstream_request"),
    )

    def __init__(self, request: Request, *, upstream: UpstreamCodec, transform: Transform | None = None) -> None:
        self._request = request if transform is None else transform.prepared
        self._transform = transform
        self._codec = upstream if transform is None or transform.codec is None else transform.codec
        self._choice_count = max(request.n, 1)
        self._choices: dict[int, _ChoiceState] = {}
        self._text_feeders: dict[int, Callable[[str], list[Event]]] = {}  # of open choices, for the fast path of `feed`
        self._usage: Usage | None = None
        self.earlier_usage: Usage | None = None
        self._output_size = 0
        self._ended = False
        self.constraint_key = "" if transform is None else transform.constraint_key
        self.finished = False
        """Whether nothing that the upstream may still send changes the reply: every choice has ended, or the stream."""
        self.error: Error | None = None

    @property
    def codec(self) -> UpstreamCodec:
        """The codec that encodes the request and decodes the reply."""
        return self._codec

    @property
    def reading(self) -> ReplyReading:
        """The dialect of the calls; the text is not kept."""
        backend = getattr(self._transform, "backend", None)
        return ReplyReading(getattr(self._transform, "dialect", None), backend="" if backend is None else backend.name)

    @property
    def counted_prompt(self) -> tuple[Request, Usage | None]:
        """The prompt that was sent, and the tokens that the upstream has reported for it so far."""
        return self._request, self._usage

    def prepare(self) -> None:
        """Encode the request."""
        self.upstream_request = self._codec.encode_request(self._request)
        self._decoder = self._codec.decoder()

    def release_request(self) -> None:
        """Free the body of `upstream_request`, which has been sent."""
        self.upstream_request = msgspec.structs.replace(self.upstream_request, body=b"")

    def prepare_retry(self, backend: Backend) -> bool:  # noqa: ARG002 - the protocol's
        """Return false: this exchange sends one request."""
        return False

    def feed(self, data: bytes) -> Batch:
        """Take the next bytes of the upstream's body; return the events that they complete."""
        if self._ended:
            return []
        decoded = self._decoder.feed(data)
        if len(decoded) == 1:
            index, event = decoded[0]
            feed_text = self._text_feeders.get(index)
            if feed_text is not None and type(event) is Text:  # nearly every read of a live stream
                self._output_size += len(event.text)
                events = feed_text(event.text)
                if len(events) == 1 and type(events[0]) is not Stop:
                    return [(index, events[0])]
                return self._update_finished([(index, event) for event in self._choices[index].without_stop(events)])
        return self._process(decoded)

    def close(self) -> Batch:
        """Handle the end of the body, or of the caller's reading, since the exchange was finished."""
        if self._ended:
            return []
        events = [] if self.finished else self._process(self._decoder.close())
        return events if self._ended else events + self._end()

    def fail(self, error: FcshimError) -> Batch:
        """Handle a failure of the upstream. A reply that was already complete stays complete."""
        if self._ended:
            return []
        if self._choices and all(choice.stopped for choice in self._choices.values()):
            return self._end()
        return self._end_with_error(Error(kind=error.kind, message=error.message))

    def _process(self, decoded: Iterable[tuple[int, Event]]) -> Batch:
        events: Batch = []
        for index, event in decoded:
            if isinstance(event, Usage):
                self._usage = event
            elif isinstance(event, Error):
                return events + self._end_with_error(event)
            elif index < self._choice_count:
                self._count(event)
                events += [(index, result) for result in self._choice(index).feed(event)]
        return self._update_finished(events)

    def _update_finished(self, events: Batch) -> Batch:
        """Update `finished` and the fast path after `events`; return `events`."""
        self._text_feeders = {
            index: choice.feed_text
            for index, choice in self._choices.items()
            if not (choice.stopped or choice.stopped_early)
        }
        self.finished = (
            self._ended
            or self._decoder.ended
            or (len(self._choices) == self._choice_count and all(map(self._is_complete, self._choices.values())))
        )
        return events

    def _choice(self, index: int) -> "_ChoiceState":
        choice = self._choices.get(index)
        if choice is None:
            choice = self._choices[index] = self._new_choice()
        return choice

    def _new_choice(self) -> "_ChoiceState":
        return _ChoiceState(None if self._transform is None else self._transform.stream())

    def _is_complete(self, choice: "_ChoiceState") -> bool:
        return choice.stopped_early or (choice.stopped and self._usage is not None)

    def _count(self, event: Event) -> None:
        if isinstance(event, Text | Reasoning):
            self._output_size += len(event.text)
        elif isinstance(event, ToolCallChunk):
            self._output_size += len(event.tool_call_arguments_chunk)

    def _end(self) -> Batch:
        self._ended = self.finished = True
        choices = self._choices or {0: self._new_choice()}
        events: Batch = [(index, event) for index, choice in choices.items() for event in choice.close()]
        usage = self._usage or estimate_usage(self._request, self._output_size)
        usage = usage if self.earlier_usage is None else total_usage((self.earlier_usage, usage)) or usage
        return [*events, (0, usage), *((index, choice.stop) for index, choice in choices.items())]

    def _end_with_error(self, error: Error) -> Batch:
        self._ended = self.finished = True
        self.error = error
        events: Batch = [(index, event) for index, choice in self._choices.items() for event in choice.abandon()]
        return [*events, (0, error)]


class _ChoiceState:
    """One choice and its event transform. Its `Stop` is held back until the usage is known, which comes before it."""

    __slots__ = ("_closed", "_stream", "feed_text", "stop", "stopped")

    def __init__(self, stream: TransformStream | None) -> None:
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
        """Return the events that the transform held back."""
        if self._stream is None or self._closed:
            return []
        self._closed = True
        return self.without_stop(self._stream.close())

    def abandon(self) -> list[Event]:
        """Return the events that the transform held back; the reply failed, so an open call ends with an error."""
        return self.feed(Stop(stop_reason="error")) + self.close()

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
