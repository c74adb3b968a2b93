"""Writing a reply that is not streamed: folded events become one response object.

Rule: only calls that ended without error are items of the output. A reply without text and without such a call has the
excerpt of its malformed call as message, so that no reply is silently empty.
"""

from collections.abc import Sequence

from fcshim.codecs.base import ReplyIdentity
from fcshim.codecs.json_text import write_json
from fcshim.codecs.openai_responses.encoder import make_item_id
from fcshim.codecs.openai_responses.items import call_item, call_item_prefix, message_item, reasoning_item
from fcshim.codecs.openai_responses.request_tools import ResponsesClientOptions
from fcshim.codecs.openai_responses.response import begin_response, end_response
from fcshim.codecs.openai_responses.stored_responses import store_response
from fcshim.codecs.outcome import is_truncated, raise_error, valid_calls, visible_text
from fcshim.events import JSON
from fcshim.messages import Request
from fcshim.reply import Reply


def write_reply(request: Request, identity: ReplyIdentity, replies: Sequence[Reply]) -> bytes:
    """Write a whole reply of one choice. Raises `UpstreamError` where it ended with an error."""
    reply = replies[0]
    raise_error(reply)
    reason = "max_tokens" if is_truncated(reply) else reply.stop_reason
    output = _write_output(request, identity, reply)
    response = end_response(begin_response(request, identity), output, reply.usage, reason)
    store_response(request, identity, response)
    return write_json(response)


def _write_output(request: Request, identity: ReplyIdentity, reply: Reply) -> list[dict[str, JSON]]:
    client_options = ResponsesClientOptions.of(request)
    items: list[dict[str, JSON]] = []
    if reply.reasoning:
        items.append(reasoning_item(make_item_id("rs", identity, 0), reply.reasoning, None))
    if text := visible_text(reply):
        items.append(message_item(make_item_id("msg", identity, len(items)), text))
    return items + [
        call_item(
            make_item_id(call_item_prefix(call.tool_call_name, client_options), identity, at), call, client_options
        )
        for at, call in enumerate(valid_calls(reply), start=len(items))
    ]
