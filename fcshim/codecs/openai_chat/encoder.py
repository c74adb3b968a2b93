"""Encoding the client's stream: events become chunks of the Chat API.

Rule: a role chunk opens a choice, choice 0 first; each event is one delta; the finish_reason has a chunk of its own;
usage and `[DONE]` come last, and only if every choice has ended without error. Nothing follows an error.
"""

from collections.abc import Sequence

import msgspec

from fcshim.codecs.base import ReplyIdentity
from fcshim.codecs.openai_chat.choice_writer import ChoiceWriter, ChunkTemplates
from fcshim.codecs.openai_chat.reply import sum_usage, usage_dict, write_error
from fcshim.codecs.outcome import UNFINISHED
from fcshim.codecs.sse import EVENT_STREAM, PING, write_data
from fcshim.errors import UpstreamError
from fcshim.events import Error, Event, Usage
from fcshim.messages import Request


class ChatEncoder:
    """Encodes one streamed reply for the client."""

    __slots__ = ("_choices", "_done", "_include_usage", "_templates", "_usages")
    content_type = EVENT_STREAM

    def __init__(self, request: Request, identity: ReplyIdentity) -> None:
        self._include_usage = request.include_usage
        self._templates = ChunkTemplates(request, identity)
        self._choices: dict[int, ChoiceWriter] = {}
        self._usages: dict[int, Usage] = {}
        self._done = False

    def encode(self, choice: int, events: Sequence[Event]) -> bytes:
        """Return the bytes for these events of one choice."""
        if self._done or not events:
            return b""
        writer = self._choices.get(choice)
        if len(events) == 1 and writer is not None and (data := writer.try_write_chunk(events[0])) is not None:
            return data
        out: list[bytes] = []
        for event in events:
            if type(event) is Usage:
                self._usages[choice] = event
                continue
            if type(event) is Error:
                self._fail(event, out)
                break
            if writer is None:
                writer = self._open_choice(choice, out)
            failure = writer.write(event, out)
            if failure is not None:
                self._fail(failure, out)
                break
        return b"".join(out)

    def close(self) -> bytes:
        """Return the end of the stream: usage and `[DONE]`, an error if a choice is unfinished, nothing after one."""
        if self._done:
            return b""
        out: list[bytes] = []
        if not self._choices or not all(writer.stopped for writer in self._choices.values()):
            self._fail(UNFINISHED, out)
            return b"".join(out)
        self._done = True
        if self._include_usage and self._usages:
            usage = msgspec.json.encode(usage_dict(sum_usage(self._usages.values())))
            out.append(self._templates.head + b'"choices":[],"usage":' + usage + b"}\n\n")
        out.append(write_data(b"[DONE]"))
        return b"".join(out)

    def ping(self) -> bytes:
        """Return an SSE comment."""
        return PING

    def _open_choice(self, choice: int, out: list[bytes]) -> ChoiceWriter:
        """Open a choice, after choice 0: the official client fails on a stream that begins with another."""
        if choice and 0 not in self._choices:
            self._open_choice(0, out)
        writer = self._choices[choice] = ChoiceWriter(self._templates, choice)
        writer.open(out)
        return writer

    def _fail(self, error: Error, out: list[bytes]) -> None:
        self._done = True
        out.append(write_data(write_error(UpstreamError(error.message, kind=error.kind))))
