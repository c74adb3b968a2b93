"""The client's stream: events become chunks of the API, as server-sent events or as one JSON array.

Rule: a call is one part, written when it has ended well; one that ended badly is never written. The finish reason and
the usage stand in a choice's last chunk, which holds an empty text (clients drop a turn that has no parts).
Neighbours: `reply` writes the same as one body; the exchange drives it, one call and one write per upstream read.
"""

from collections.abc import Sequence
from typing import assert_never

from fcshim.codecs.base import ReplyIdentity
from fcshim.codecs.gemini.errors import write_error
from fcshim.codecs.gemini.reply import Ending, call_part, finish, signed, usage_dict
from fcshim.codecs.gemini.style import style_from_text
from fcshim.codecs.sse import EVENT_STREAM, write_data
from fcshim.codecs.json_writer import write_json
from fcshim.errors import UpstreamError
from fcshim.events import (
    JSON,
    Error,
    Event,
    Reasoning,
    Stop,
    Text,
    ToolCallChunk,
    ToolCallEnd,
    ToolCallStart,
    Usage,
)
from fcshim.messages import Request

_UNFINISHED = Error("upstream_error", "the reply broke off before it was finished")


class _Choice:
    """What is known of one choice: a signature that waits for its part, and how its calls ended."""

    __slots__ = ("after", "before", "ending", "signature")

    def __init__(self, index: int, after: bytes) -> None:
        self.signature = ""
        self.ending = Ending()
        self.before = b'{"candidates":[{"content":{"parts":['
        self.after = b'],"role":"model"},"index":%d}]%s' % (index, after)


class GeminiEncoder:
    """Writes one streamed reply for the client."""

    def __init__(self, request: Request, identity: ReplyIdentity) -> None:
        style = style_from_text(request.style)
        self.content_type = "application/json; charset=UTF-8" if style.array else EVENT_STREAM
        self._array = style.array
        self._thoughts = style.thoughts
        self._known = {"modelVersion": identity.model, "responseId": identity.id}
        self._after = b"," + write_json(self._known)[1:]
        self._choices: dict[int, _Choice] = {}
        self._usage: Usage | None = None
        self._begun = False
        self._over = False

    def encode(self, choice: int, events: Sequence[Event]) -> bytes:
        """Give the bytes for these events of one choice."""
        if self._over or not events:
            return b""
        out: list[bytes] = []
        known = self._choices.get(choice)
        if known is None:
            known = self._choices[choice] = _Choice(choice, self._after)
        for event in events:
            failure = self._write(event, known, choice, out)
            if failure is not None:
                self._fail(failure, out)
                break
        return b"".join(out)

    def close(self) -> bytes:
        """Give the bytes that end a stream cleanly; an error where a choice has not ended; nothing after an error."""
        if self._over:
            return b""
        out: list[bytes] = []
        if not self._choices or not all(each.ending.stopped for each in self._choices.values()):
            self._fail(_UNFINISHED, out)
        elif self._array:
            out.append(b"]")
        self._over = True
        return b"".join(out)

    def ping(self) -> bytes:
        """Give an empty line: clients of this API break on anything else that is no reply."""
        return b"\n"

    def _write(self, event: Event, choice: _Choice, index: int, out: list[bytes]) -> Error | None:
        """Write one event; give the error that must end the stream, if there is one."""
        match event:
            case Text():
                self._part({"text": event.text}, choice, out)
            case Reasoning():
                self._think(event, choice, out)
            case ToolCallStart() | ToolCallChunk():
                pass
            case ToolCallEnd():
                choice.ending.note(event)
                if event.error is None:
                    self._part(call_part(event), choice, out)
            case Usage():
                self._usage = event
            case Stop():
                return self._stop(event, choice, index, out)
            case Error():
                return event
            case _:
                assert_never(event)
        return None

    def _think(self, event: Reasoning, choice: _Choice, out: list[bytes]) -> None:
        """Show a thought to those who asked; a signature goes to the next part, whatever that is."""
        if event.text and self._thoughts:
            self._document(choice.before + write_json({"text": event.text, "thought": True}) + choice.after, out)
        choice.signature = event.signature or choice.signature

    def _part(self, part: dict[str, JSON], choice: _Choice, out: list[bytes]) -> None:
        part, choice.signature = signed(part, choice.signature), ""
        self._document(choice.before + write_json(part) + choice.after, out)

    def _stop(self, event: Stop, choice: _Choice, index: int, out: list[bytes]) -> Error | None:
        if event.stop_reason == "error":
            return Error("upstream_error", "the upstream ended the reply with an error")
        choice.ending.stopped = True
        part, choice.signature = signed({"text": ""}, choice.signature), ""
        candidate = {"content": {"parts": [part], "role": "model"}, **finish(event.stop_reason, choice.ending)}
        usage = {} if self._usage is None else {"usageMetadata": usage_dict(self._usage)}
        self._document(write_json({"candidates": [{**candidate, "index": index}], **usage, **self._known}), out)
        return None

    def _document(self, document: bytes, out: list[bytes]) -> None:
        if not self._array:
            out.append(write_data(document))
            return
        out.append((b",\r\n" if self._begun else b"[") + document)
        self._begun = True

    def _fail(self, error: Error, out: list[bytes]) -> None:
        self._over = True
        self._document(write_error(UpstreamError(error.message, kind=error.kind)), out)
        if self._array:
            out.append(b"]")
