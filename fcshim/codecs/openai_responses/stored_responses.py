"""Storing responses, and the endpoints that retrieve and delete them.

Rule: a response is stored unless the client sent `store: false`. It is stored with the items that were new in its
request, so that the chain of `previous_response_id` gives the whole conversation and no item is stored twice.
"""

import msgspec

from fcshim.codecs.base import ReplyIdentity, RequestTarget
from fcshim.codecs.json_text import write_json
from fcshim.codecs.openai_responses.input_resolver import StoredResponse, input_items
from fcshim.codecs.openai_responses.request import API
from fcshim.errors import RequestError
from fcshim.events import JSON
from fcshim.messages import Request

_INPUT_ITEMS = "/input_items"


def store_response(request: Request, identity: ReplyIdentity, response: dict[str, JSON]) -> None:
    """Store a response that has ended; its own id and the ids of its items find it."""
    source = request.verbatim.get(API, {})
    if identity.reply_store is None or source.get("store") is False:
        return
    previous = source.get("previous_response_id")
    stored: dict[str, JSON] = {"response": response, "input": input_items(source), "previous": previous}
    names = [item["id"] for item in [*stored["input"], *response["output"]] if _has_id(item)]
    identity.reply_store.put(identity.id, write_json(stored), names)


def _has_id(item: JSON) -> bool:
    return isinstance(item, dict) and isinstance(item.get("id"), str) and item.get("type") != "item_reference"


def respond(method: str, target: RequestTarget) -> bytes:
    """Serve a stored response or the items of its request, or delete the response. Raises `RequestError`."""
    name = target.path_params.get("response", "")
    document = None if target.reply_store is None else target.reply_store.get(name)
    if target.reply_store is None or document is None:
        raise RequestError(f"Response with id {name[:100]!r} not found.", param="response_id", status=404)
    if method == "DELETE":
        target.reply_store.delete(name)
        return msgspec.json.encode({"id": name, "object": "response", "deleted": True})
    stored = msgspec.json.decode(document, type=StoredResponse)
    if target.path.endswith(_INPUT_ITEMS):
        return msgspec.json.encode(_list_items(name, stored.input))
    return msgspec.json.encode(stored.response)


def _list_items(name: str, items: list[JSON]) -> dict[str, JSON]:
    """Return the list object for items; items without an id get one, because the client's type requires it."""
    named = [
        {"id": f"item_{name.removeprefix('resp_')}{at:02x}", "type": "message", **_with_parts(item)}
        for at, item in enumerate(items)
        if isinstance(item, dict)
    ]
    ends = {"first_id": named[0]["id"], "last_id": named[-1]["id"]} if named else {"first_id": None, "last_id": None}
    return {"object": "list", "data": named, **ends, "has_more": False}


def _with_parts(item: dict[str, JSON]) -> dict[str, JSON]:
    """Return a message with its status and a list of parts as content; other items as they are."""
    if item.get("type", "message") != "message":
        return item
    content = item.get("content")
    kind = "output_text" if item.get("role") == "assistant" else "input_text"
    parts = [{"type": kind, "text": content}] if isinstance(content, str) else content
    return {"status": "completed", **item, "content": parts}
