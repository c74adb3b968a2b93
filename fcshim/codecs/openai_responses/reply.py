"""The client's whole reply: folded events become one response object.

Rule: only calls that ended without error are items. Where nothing else is left to say, the excerpt of a malformed call
is the message, so that no answer is silently empty.
Neighbours: `reply.fold` makes what is written here; `items` and `response` have the parts.
"""

from collections.abc import Sequence

from fcshim.codecs.base import ReplyIdentity
from fcshim.codecs.json_writer import write_json
from fcshim.codecs.openai_responses.client_options import read_client_options
from fcshim.codecs.openai_responses.encoder import make_item_id
from fcshim.codecs.openai_responses.items import call_item, call_item_prefix, message_item, reasoning_item
from fcshim.codecs.openai_responses.response import begin_response, end_response
from fcshim.codecs.openai_responses.stored_responses import store_response
from fcshim.errors import UpstreamError
from fcshim.events import JSON
from fcshim.messages import Request
from fcshim.reply import Reply


def write_reply(request: Request, identity: ReplyIdentity, replies: Sequence[Reply]) -> bytes:
    """Write a whole reply; this API knows one choice only. Raises `UpstreamError` where it broke."""
    reply = replies[0]
    if reply.error is not None:
        raise UpstreamError(reply.error.message, kind=reply.error.kind)
    good = any(call.error is None for call in reply.tool_calls)
    cut = not good and any(call.error and call.error.kind == "truncated" for call in reply.tool_calls)
    reason = "max_tokens" if cut else reply.stop_reason
    response = end_response(
        begin_response(request, identity), _write_output(request, identity, reply, any_valid=good), reply.usage, reason
    )
    store_response(request, identity, response)
    return write_json(response)


def _write_output(request: Request, identity: ReplyIdentity, reply: Reply, *, any_valid: bool) -> list[dict[str, JSON]]:
    style = read_client_options(request.style)
    text = reply.text or ("" if any_valid else "".join(call.error.raw for call in reply.tool_calls if call.error))
    items: list[dict[str, JSON]] = []
    if reply.reasoning:
        items.append(reasoning_item(make_item_id("rs", identity, 0), reply.reasoning, None))
    if text:
        items.append(message_item(make_item_id("msg", identity, len(items)), text))
    calls = [call for call in reply.tool_calls if call.error is None]
    return items + [
        call_item(make_item_id(call_item_prefix(call.tool_call_name, style), identity, at), call, style)
        for at, call in enumerate(calls, start=len(items))
    ]
