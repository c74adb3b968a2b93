"""The response body of an exchange: events to the bytes of the client's API, streamed or buffered.

Rule: no I/O. The events of one upstream read become one `bytes`. Nothing is written before the first event, so that a
reply which fails at once can still get an HTTP error status.
"""

import itertools
from operator import itemgetter
from sys import getsizeof
from typing import TypeAlias

from fcshim.codecs.base import Codec, ReplyIdentity
from fcshim.errors import UpstreamError
from fcshim.events import Error, Event, Reasoning, Text, ToolCallChunk, ToolCallEnd, ToolCallStart
from fcshim.messages import Request
from fcshim.pipeline.attempt import Batch
from fcshim.reply import Reply, fold

DEFAULT_MAX_REPLY = 64 * 2**20
"""Bytes of memory for a reply that is not streamed, so that a model that never stops cannot fill the memory. Half a
million tokens fit: each one is an event of about 120 bytes.
"""

_EVENT_BYTES = 64
"""Memory of an event beside its strings: the object, and its place in a list."""

_choice_of = itemgetter(0)


class StreamedResponse:
    """Write events as they come."""

    __slots__ = ("_encoder", "content_type", "started")

    def __init__(self, request: Request, identity: ReplyIdentity, codec: Codec) -> None:
        self._encoder = codec.encoder(request, identity)
        self.content_type = self._encoder.content_type
        self.started = False

    def feed(self, events: Batch) -> bytes:
        """Return the bytes for `events`. Raises `UpstreamError` if the first event of the reply is an error."""
        if len(events) == 1 and self.started:  # nearly every read of a live stream
            choice, event = events[0]
            return self._encoder.encode(choice, (event,))
        if not events:
            return b""
        if not self.started:
            _raise_if_error(events[0][1])
            self.started = True
        runs = itertools.groupby(events, key=_choice_of)
        return b"".join([self._encoder.encode(choice, [event for _, event in run]) for choice, run in runs])

    def close(self) -> bytes:
        """Return the regular end of the stream; nothing after an error."""
        return self._encoder.close()

    def ping(self, note: str = "") -> bytes:
        """Return a ping, with a note where the API has comments; the response has started then."""
        self.started = True
        return self._encoder.ping(note)


class BufferedResponse:
    """Collect events and write them at the end."""

    content_type = "application/json"

    def __init__(
        self, request: Request, identity: ReplyIdentity, codec: Codec, *, max_reply: int = DEFAULT_MAX_REPLY
    ) -> None:
        self._request = request
        self._identity = identity
        self._codec = codec
        self._choices: dict[int, list[Event]] = {0: []}
        self._remaining = max_reply
        self.started = False

    def feed(self, events: Batch) -> bytes:
        """Keep `events`. Raises `UpstreamError` for an error, and when the reply grows beyond the limit."""
        for choice, event in events:
            _raise_if_error(event)
            self._remaining -= event_bytes(event)
            if type(event) is not ToolCallChunk:  # the end of the call repeats its chunks
                self._choices.setdefault(choice, []).append(event)
        if self._remaining < 0:
            raise UpstreamError("the upstream's reply is longer than the limit for a reply that is not streamed")
        return b""

    def close(self) -> bytes:
        """Return the whole reply."""
        replies: list[Reply] = [fold(self._choices[choice]) for choice in sorted(self._choices)]
        body = self._codec.encode_reply(self._request, self._identity, replies)
        self.started = True
        return body

    def ping(self, note: str = "") -> bytes:  # noqa: ARG002 - there is no place for it
        """Return nothing: the status of a buffered reply is open until its end."""
        return b""


ClientResponse: TypeAlias = StreamedResponse | BufferedResponse
"""Writes the response body of one exchange. `started`: bytes were returned, so a later error goes into the body."""


def response_for(
    request: Request, identity: ReplyIdentity, codec: Codec, *, max_reply: int = DEFAULT_MAX_REPLY
) -> ClientResponse:
    """Make the response that `request` asks for, streamed or buffered."""
    if request.stream:
        return StreamedResponse(request, identity, codec)
    return BufferedResponse(request, identity, codec, max_reply=max_reply)


def _raise_if_error(event: Event) -> None:
    if isinstance(event, Error):
        raise UpstreamError(event.message, kind=event.kind)


def event_bytes(event: Event) -> int:
    """Return the memory that an event takes, where it may grow; a character takes one to four bytes."""
    match event:
        case Text() | Reasoning():
            return _EVENT_BYTES + getsizeof(event.text) + getsizeof(getattr(event, "signature", None))
        case ToolCallStart():
            return _EVENT_BYTES + getsizeof(event.tool_call_id) + getsizeof(event.tool_call_name)
        case ToolCallChunk():
            return getsizeof(event.tool_call_arguments_chunk)
        case ToolCallEnd():
            return _EVENT_BYTES + getsizeof(event.tool_call_name) + getsizeof(event.tool_call_arguments_complete)
        case _:
            return _EVENT_BYTES
