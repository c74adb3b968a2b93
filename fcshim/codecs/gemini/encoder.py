"""The client's reply and errors: events become chunks of the API, folded replies become candidates.

Rule: chunks are server-sent events or the items of one JSON array. A call is one part, written when it has ended
without error; a failed call is never written, the finish reason reports it. Clients that ask for it get the arguments
in pieces; if such a call fails, it never gets its last part, and no call follows, which would end it. The last chunk of
a choice has the finish reason, the usage and an empty text: Google's Python SDK drops a turn without parts from its
history. The name of an error's status follows from the HTTP status, as in all of Google's APIs.
"""

from collections.abc import Sequence
from typing import assert_never

import msgspec

from fcshim.codecs.base import ReplyIdentity
from fcshim.codecs.framing import EVENT_STREAM, write_data
from fcshim.codecs.gemini.options import GeminiClientOptions
from fcshim.codecs.gemini.parts import ArgumentPieces, grounding_fields, has_pieces, wrap_signature
from fcshim.codecs.json_text import write_json
from fcshim.codecs.outcome import FAILED, UNFINISHED, CallOutcomes, raise_error, sum_usage, valid_calls
from fcshim.errors import FcshimError, UpstreamError
from fcshim.events import (
    JSON,
    CallError,
    Error,
    Event,
    Reasoning,
    Stop,
    StopReason,
    Text,
    ToolCallChunk,
    ToolCallEnd,
    ToolCallStart,
    Usage,
    WebToolUse,
)
from fcshim.messages import Request
from fcshim.reply import Reply

_STATUS_NAMES = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    405: "INVALID_ARGUMENT",
    413: "INVALID_ARGUMENT",
    415: "INVALID_ARGUMENT",
    429: "RESOURCE_EXHAUSTED",
    501: "UNIMPLEMENTED",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}


def finish_fields(reason: StopReason | None, outcomes: CallOutcomes) -> dict[str, JSON]:
    """Return `finishReason`, and `finishMessage` if the reason needs one.

    The API's reason is STOP also for function calls.
    """
    if reason in ("max_tokens", "content_filter"):
        return {"finishReason": "MAX_TOKENS" if reason == "max_tokens" else "SAFETY"}
    if outcomes.call_error is None or outcomes.valid_calls:
        return {"finishReason": "STOP"}
    if outcomes.truncated:
        return {"finishReason": "MAX_TOKENS"}
    message = f"the model wrote a function call that cannot be used: {outcomes.call_error.message}"
    return {"finishReason": "MALFORMED_FUNCTION_CALL", "finishMessage": message}


def usage_dict(usage: Usage) -> dict[str, JSON]:
    """Return token counts in the API's form, in which candidate tokens exclude thoughts."""
    return {
        "promptTokenCount": usage.input_tokens,
        "candidatesTokenCount": max(usage.output_tokens - usage.reasoning_tokens, 0),
        "thoughtsTokenCount": usage.reasoning_tokens,
        "cachedContentTokenCount": usage.cached_tokens,
        "totalTokenCount": usage.input_tokens + usage.output_tokens,
    }


def call_part(call: ToolCallEnd) -> dict[str, JSON]:
    """Return the part of a call that ended without error.

    Its arguments are JSON already; they are put on one line, because an event's data is one line.
    """
    arguments = call.tool_call_arguments_complete.replace("\n", " ").replace("\r", " ")
    return {
        "functionCall": {
            "id": call.tool_call_id,
            "name": call.tool_call_name,
            "args": msgspec.Raw(arguments.encode()),
        }
    }


def with_signature(part: dict[str, JSON], signature: str) -> dict[str, JSON]:
    """Return the part with its thought signature, if there is one."""
    return {**part, "thoughtSignature": wrap_signature(signature)} if signature else part


def write_reply(request: Request, identity: ReplyIdentity, replies: Sequence[Reply]) -> bytes:
    """Write a whole reply, one candidate per `Reply`. Raises `UpstreamError` if one of them has an error."""
    thoughts = GeminiClientOptions.of(request).thoughts
    body: dict[str, JSON] = {
        "candidates": [_candidate(index, reply, thoughts=thoughts) for index, reply in enumerate(replies)],
        "modelVersion": identity.model,
        "responseId": identity.id,
    }
    usages = [reply.usage for reply in replies if reply.usage is not None]
    if usages:
        body["usageMetadata"] = usage_dict(sum_usage(usages))
    return write_json(body)


def _candidate(index: int, reply: Reply, *, thoughts: bool) -> dict[str, JSON]:
    raise_error(reply)
    outcomes = CallOutcomes()
    for call in reply.tool_calls:
        outcomes.record(call)
    parts = [{"text": reply.text}] if reply.text else []
    calls = list(map(call_part, valid_calls(reply)))
    if calls:
        calls[0] = with_signature(calls[0], reply.signature)
    elif parts:
        parts[-1] = with_signature(parts[-1], reply.signature)
    thought_parts = [{"text": reply.reasoning, "thought": True}] if thoughts and reply.reasoning else []
    content = {"parts": [*thought_parts, *parts, *calls] or [{"text": ""}], "role": "model"}
    grounding = grounding_fields([use for _, use in reply.web_tool_uses])
    return {"content": content, **finish_fields(reply.stop_reason, outcomes), **grounding, "index": index}


def write_error(error: FcshimError) -> bytes:
    """Return the error body `{"error": {code, message, status, details}}`."""
    status_name = _STATUS_NAMES.get(error.status, "INTERNAL" if error.status >= 500 else "FAILED_PRECONDITION")
    return write_json({"error": {"code": error.status, "message": error.message, "status": status_name, "details": []}})


class _CandidateState:
    """State of one candidate: a signature that waits for its part, and the outcomes of its calls."""

    __slots__ = (
        "broken",
        "chunk_prefix",
        "chunk_suffix",
        "outcomes",
        "pieces",
        "signature",
        "stopped",
        "web_tool_uses",
    )

    def __init__(self, index: int, chunk_suffix: bytes) -> None:
        self.signature = ""
        self.outcomes = CallOutcomes()
        self.pieces: ArgumentPieces | None = None  # of the open call
        self.broken = False  # a call whose start was sent has failed
        self.web_tool_uses: list[WebToolUse] = []
        self.stopped = False
        self.chunk_prefix = b'{"candidates":[{"content":{"parts":['
        self.chunk_suffix = b'],"role":"model"},"index":%d}]%s' % (index, chunk_suffix)


class GeminiEncoder:
    """Writes one streamed reply for the client."""

    def __init__(self, request: Request, identity: ReplyIdentity) -> None:
        options = GeminiClientOptions.of(request)
        self.content_type = "application/json; charset=UTF-8" if options.array else EVENT_STREAM
        self._array = options.array
        self._thoughts = options.thoughts
        self._with_pieces = {tool.name for tool in request.tools if options.pieces and has_pieces(tool)}
        self._reply_fields = {"modelVersion": identity.model, "responseId": identity.id}
        self._chunk_suffix = b"," + write_json(self._reply_fields)[1:]
        self._candidates: dict[int, _CandidateState] = {}
        self._usages: dict[int, Usage] = {}
        self._array_started = False
        self._done = False

    def encode(self, choice: int, events: Sequence[Event]) -> bytes:
        """Return the bytes for these events of one choice."""
        if self._done or not events:
            return b""
        out: list[bytes] = []
        candidate = self._candidates.get(choice)
        if candidate is None:
            candidate = self._candidates[choice] = _CandidateState(choice, self._chunk_suffix)
        for event in events:
            final_error = self._write(event, candidate, choice, out)
            if final_error is not None:
                self._fail(final_error, out)
                break
        return b"".join(out)

    def close(self) -> bytes:
        """Return the clean end of the stream; an error if a choice has not ended; nothing after an error."""
        if self._done:
            return b""
        out: list[bytes] = []
        if not self._candidates or not all(candidate.stopped for candidate in self._candidates.values()):
            self._fail(UNFINISHED, out)
        elif self._array:
            out.append(b"]")
        self._done = True
        return b"".join(out)

    def ping(self, note: str = "") -> bytes:  # noqa: ARG002 - the API has no comments
        """Return an empty line: Google's SDKs fail on anything else that is not a reply, comments included."""
        return b"\n"

    def _write(self, event: Event, candidate: _CandidateState, index: int, out: list[bytes]) -> Error | None:
        """Write one event; return the error that must end the stream, if there is one."""
        match event:
            case Text():
                self._write_part({"text": event.text}, candidate, out)
            case Reasoning():
                self._write_reasoning(event, candidate, out)
            case ToolCallStart() | ToolCallChunk() | ToolCallEnd():
                self._write_call(event, candidate, out)
            case WebToolUse():
                candidate.web_tool_uses.append(event)
            case Usage():
                self._usages[index] = event
            case Stop():
                return self._write_stop(event, candidate, index, out)
            case Error():
                return event
            case _:
                assert_never(event)
        return None

    def _write_call(
        self, event: ToolCallStart | ToolCallChunk | ToolCallEnd, candidate: _CandidateState, out: list[bytes]
    ) -> None:
        match event:
            case ToolCallStart():
                if event.tool_call_name in self._with_pieces and not candidate.broken:
                    candidate.pieces = ArgumentPieces()
                    call = {"id": event.tool_call_id, "name": event.tool_call_name, "willContinue": True}
                    self._write_part({"functionCall": call}, candidate, out)
            case ToolCallChunk():
                if candidate.pieces is not None and (pieces := candidate.pieces.feed(event.tool_call_arguments_chunk)):
                    more: dict[str, JSON] = {"partialArgs": pieces, "willContinue": True}
                    self._write_part({"functionCall": more}, candidate, out)
            case ToolCallEnd():
                self._end_call(event, candidate, out)

    def _end_call(self, event: ToolCallEnd, candidate: _CandidateState, out: list[bytes]) -> None:
        pieces, candidate.pieces = candidate.pieces, None
        if event.error is None and ((pieces is not None and pieces.failed) or candidate.broken):
            message = "it cannot be sent in pieces" if pieces is not None else "it follows a call that was cut off"
            event = msgspec.structs.replace(event, error=CallError("malformed", message, ""))
        candidate.outcomes.record(event)
        if event.error is None:
            self._write_part({"functionCall": {}} if pieces is not None else call_part(event), candidate, out)
        elif pieces is not None:
            candidate.broken = True
            candidate.outcomes.valid_calls = 0  # so that the finish reason reports the call that never ends

    def _write_reasoning(self, event: Reasoning, candidate: _CandidateState, out: list[bytes]) -> None:
        """Write a thought if the client requested thoughts.

        A signature is attached to the next part, of whatever kind.
        """
        if event.text and self._thoughts:
            self._write_chunk(
                candidate.chunk_prefix + write_json({"text": event.text, "thought": True}) + candidate.chunk_suffix, out
            )
        candidate.signature = event.signature or candidate.signature

    def _write_part(self, part: dict[str, JSON], candidate: _CandidateState, out: list[bytes]) -> None:
        part, candidate.signature = with_signature(part, candidate.signature), ""
        self._write_chunk(candidate.chunk_prefix + write_json(part) + candidate.chunk_suffix, out)

    def _write_stop(self, event: Stop, choice: _CandidateState, index: int, out: list[bytes]) -> Error | None:
        if event.stop_reason == "error":
            return FAILED
        choice.stopped = True
        part, choice.signature = with_signature({"text": ""}, choice.signature), ""
        finish = finish_fields(event.stop_reason, choice.outcomes) | grounding_fields(choice.web_tool_uses)
        candidate = {"content": {"parts": [part], "role": "model"}, **finish}
        usage = {"usageMetadata": usage_dict(sum_usage(self._usages.values()))} if self._usages else {}
        self._write_chunk(
            write_json({"candidates": [{**candidate, "index": index}], **usage, **self._reply_fields}), out
        )
        return None

    def _write_chunk(self, document: bytes, out: list[bytes]) -> None:
        if not self._array:
            out.append(write_data(document))
            return
        out.append((b",\r\n" if self._array_started else b"[") + document)
        self._array_started = True

    def _fail(self, error: Error, out: list[bytes]) -> None:
        self._done = True
        self._write_chunk(write_error(UpstreamError(error.message, kind=error.kind)), out)
        if self._array:
            out.append(b"]")
