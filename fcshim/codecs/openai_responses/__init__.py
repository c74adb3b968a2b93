"""OpenAI's Responses API: items instead of messages, and stored replies.

Rule: the codec is stateless; replies are stored in the `DocumentStore` of the request target or the reply identity, and
without one nothing is stored.

A call that ends with an error after its start was sent never reaches the client as a finished tool call:

- Its arguments are never valid JSON: the last brace is buffered until the call has ended without error. After an error
  a closing bracket of the wrong kind invalidates them. `response.function_call_arguments.done` never comes.
- Error `truncated`: `response.incomplete`, reason `max_output_tokens`; the item has the status `incomplete` and the
  invalidated arguments, in its `done` event and in the final `output`.
- Error `malformed`, `invalid` or `limit`, and the reply has a valid call: `response.completed`; the item's `done` event
  is the same, so that clients can report it to their model, and the final `output` does not have it.
- The same without a valid call: `response.failed`, then an `error` event; the item has no `done` event.
- In a reply that is not streamed the call is left out; if the reply has no other content, a sentence about the call is
  the message, which is `incomplete` if it was truncated.

The model sees a custom tool (free text instead of JSON) as a function with one string; its calls are converted back to
custom calls once they are complete. The model sees tools in a namespace as `namespace__name`. Hosted tools (web search
and the like) are not offered. The format has no stop reason for a stop sequence.

A compaction makes of a conversation its user messages and one item that sums up the rest. The model sums up its own
conversation, in one reply without tools. The item's content is opaque to clients, not secret: it holds the client's own
conversation. An item of another server is skipped, like all of an unknown type.
"""

from collections.abc import Sequence

import msgspec

from fcshim.codecs.base import NO_TARGET, Codec, Decoder, ReplyIdentity, RequestTarget
from fcshim.codecs.body_fields import BodyFields
from fcshim.codecs.json_text import expect, write_json
from fcshim.codecs.openai_chat.encoder import write_error
from fcshim.codecs.openai_chat.models import read_models
from fcshim.codecs.openai_responses import stored_responses
from fcshim.codecs.openai_responses.decoder import ResponsesDecoder
from fcshim.codecs.openai_responses.emitter import error_event_fields
from fcshim.codecs.openai_responses.encoder import ResponsesEncoder, usage_dict, write_reply
from fcshim.codecs.openai_responses.input_resolver import InputResolver
from fcshim.codecs.openai_responses.items import compaction_item
from fcshim.codecs.openai_responses.request import API, FIELDS, read_request
from fcshim.codecs.openai_responses.upstream_request import write_parts, write_request
from fcshim.codecs.outcome import raise_error
from fcshim.codecs.reply_store import Lookups, read_alone
from fcshim.codecs.single_choice import SingleChoiceDecoder
from fcshim.errors import FcshimError, UpstreamError
from fcshim.events import JSON, Error, Usage
from fcshim.messages import ClientOptions, Request, TextPart, ToolChoice, UserMessage
from fcshim.reply import Reply

__all__ = ["OPENAI_RESPONSES", "OpenAIResponses", "ResponsesEncoder"]

_COMPACT_PATH = "/compact"
_COMPACT_INSTRUCTION = """\
Sum up the conversation so far for somebody who continues it in your place and sees only your summary and the messages \
of the user: what was decided, found out and done (names, paths, numbers exactly as they are), and what is still open. \
Write plain text, and nothing but the summary: do not go on with the work, and call no function.\
"""


class CompactionOptions(ClientOptions, frozen=True):
    """The client asks for a compaction instead of a reply."""


class OpenAIResponses(Codec):
    """The codec."""

    name = "openai_responses"
    reply_prefix = "resp_"
    field_rules = FIELDS
    encode_request = staticmethod(write_request)
    encoder = ResponsesEncoder
    encode_error = staticmethod(write_error)
    decode_models = staticmethod(read_models)

    def decode_request(self, body: bytes | BodyFields, target: RequestTarget = NO_TARGET) -> Request:
        """Read a client's request where nothing is stored. Raises `RequestError`."""
        return read_alone(self.recall_request(body, target))

    def recall_request(self, body: bytes | BodyFields, target: RequestTarget) -> Lookups[Request]:
        """Read a client's request, and look up what it refers to. Raises `RequestError`."""
        resolver = InputResolver(self._request_limits, stored_upstream=target.stored_upstream)
        request = yield from read_request(body, resolver, self._request_limits)
        return _as_compaction(request) if target.path.endswith(_COMPACT_PATH) else request

    def encode_reply(self, request: Request, identity: ReplyIdentity, replies: Sequence[Reply]) -> bytes:
        """Write a whole reply, or the compaction that was asked for. Raises `UpstreamError`."""
        if isinstance(request.client_options, CompactionOptions):
            return _write_compaction(request, identity, replies[0])
        return write_reply(request, identity, replies)

    def decoder(self) -> Decoder:
        """Create a decoder for one upstream reply, which is a stream or one JSON body."""
        return SingleChoiceDecoder(
            ResponsesDecoder(self._new_id, self._decoder_limits.call_chars), self._decoder_limits
        )

    def encode_stream_error(self, error: FcshimError) -> bytes:
        """Write an error as an event of a running stream; its sequence number is not known here."""
        fields = error_event_fields(Error(error.kind, error.message))
        return b"event: error\ndata: " + write_json({"type": "error", "sequence_number": 0, **fields}) + b"\n\n"

    def encode_count(self, tokens: int) -> bytes:
        """Write the number of tokens as a response body."""
        return write_json({"object": "response.input_tokens", "input_tokens": tokens})

    def respond(self, method: str, target: RequestTarget, body: bytes) -> bytes:  # noqa: ARG002  # contract
        """Serve or delete a stored response. Raises `RequestError`."""
        return stored_responses.respond(method, target)


def _as_compaction(request: Request) -> Request:
    """Return the request that has the model sum up the conversation. Raises `RequestError` without a model."""
    expect(request.verbatim[API].get("model"), str, "model")
    return msgspec.structs.replace(
        request,
        messages=(*request.messages, UserMessage((TextPart(_COMPACT_INSTRUCTION),))),
        tools=(),
        provider_tools=(),
        tool_choice=ToolChoice("none"),
        stream=False,
        extra={name: value for name, value in request.extra.items() if name != "response_format"},
        verbatim={},
        client_options=CompactionOptions(),
    )


def _write_compaction(request: Request, identity: ReplyIdentity, reply: Reply) -> bytes:
    """Write the compacted conversation. Raises `UpstreamError` where the reply has no summary."""
    raise_error(reply)
    summary = reply.text.strip()
    if not summary:
        raise UpstreamError("the model wrote no summary of the conversation")
    number = identity.id.removeprefix("resp_")
    kept = [message for message in request.messages[:-1] if isinstance(message, UserMessage)]
    output: list[JSON] = [
        {
            "id": f"msg_{number}{at:02x}",
            "type": "message",
            "role": "user",
            "status": "completed",
            "content": write_parts(message.content),
        }
        for at, message in enumerate(kept)
    ]
    output.append(compaction_item(f"cmp_{number}", summary))
    return write_json(
        {
            "id": identity.id,
            "object": "response.compaction",
            "created_at": identity.created,
            "output": output,
            "usage": usage_dict(reply.usage or Usage()),
        }
    )


OPENAI_RESPONSES = OpenAIResponses()
