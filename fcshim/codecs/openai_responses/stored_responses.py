"""Storing responses, and the endpoints that retrieve and delete them.

Rule: a response is stored unless the client sent `store: false`. It is stored with the items that were new in its
request, so that the chain of `previous_response_id` gives the whole conversation and no item is stored twice.
"""

from urllib.parse import parse_qsl

import msgspec

from fcshim.codecs.base import ReplyIdentity, RequestTarget
from fcshim.codecs.json_text import field_error, write_json
from fcshim.codecs.openai_responses.input_resolver import input_items, read_stored
from fcshim.codecs.openai_responses.request import API
from fcshim.errors import RequestError
from fcshim.events import JSON
from fcshim.messages import Request

_INPUT_ITEMS = "/input_items"
_PAGE_SIZE = 20
_MAX_PAGE_SIZE = 100
_PART_DEFAULTS: dict[JSON, dict[str, JSON]] = {
    "output_text": {"annotations": [], "logprobs": []},
    "input_image": {"detail": "auto"},
}
"""Fields that parts have in a list, and that clients may omit in a request."""


def store_response(request: Request, identity: ReplyIdentity, response: dict[str, JSON]) -> None:
    """Store a response that has ended; its own id and the ids of its items find it."""
    source = request.verbatim.get(API, {})
    if identity.reply_store is None or source.get("store") is False:
        return
    previous = source.get("previous_response_id")
    stored: dict[str, JSON] = {"response": response, "input": input_items(source), "previous": previous}
    items = [item for item in [*stored["input"], *response["output"]] if isinstance(item, dict)]
    names = [item["id"] for item in items if isinstance(item.get("id"), str) and item.get("type") != "item_reference"]
    identity.reply_store.put(identity.id, write_json(stored), names)


def respond(method: str, target: RequestTarget) -> bytes:
    """Serve a stored response or the items of its request, or delete the response. Raises `RequestError`."""
    name = target.path_params.get("response", "")
    document = None if target.reply_store is None else target.reply_store.get(name)
    stored = None if document is None else read_stored(document)
    if target.reply_store is None or stored is None:
        raise RequestError(f"Response with id {name[:100]!r} not found.", param="response_id", status=404)
    if method == "DELETE":
        target.reply_store.delete(name)
        return msgspec.json.encode({"id": name, "object": "response", "deleted": True})
    if target.path.endswith(_INPUT_ITEMS):
        return msgspec.json.encode(_list_items(name, stored.input, target.query))
    return msgspec.json.encode(stored.response)


def _list_items(name: str, items: list[JSON], query: str) -> dict[str, JSON]:
    """Return one page of items; items without an id get one, because the client's type requires it."""
    listed = [
        {"id": f"item_{name.removeprefix('resp_')}{at:02x}", "type": "message", **_as_listed(item)}
        for at, item in enumerate(items)
        if isinstance(item, dict)
    ]
    page, has_more = _cut_page(listed, dict(parse_qsl(query)))
    ends = {"first_id": page[0]["id"], "last_id": page[-1]["id"]} if page else {"first_id": None, "last_id": None}
    return {"object": "list", "data": page, **ends, "has_more": has_more}


def _cut_page(items: list[dict[str, JSON]], query: dict[str, str]) -> tuple[list[dict[str, JSON]], bool]:
    """Return the items that `order` (the newest first), `after` and `limit` ask for, and whether others follow."""
    limit, order = query.get("limit", str(_PAGE_SIZE)), query.get("order", "desc")
    if not (limit.isascii() and limit.isdigit() and 1 <= int(limit[:9]) <= _MAX_PAGE_SIZE):
        raise field_error(limit, f"an integer from 1 to {_MAX_PAGE_SIZE}", "limit")
    if order not in {"asc", "desc"}:
        raise field_error(order, "'asc' or 'desc'", "order")
    ordered = items if order == "asc" else items[::-1]
    if (after := query.get("after")) is not None:
        places = [at for at, item in enumerate(ordered) if item["id"] == after]
        ordered = ordered[places[0] + 1 :] if places else []
    return ordered[: int(limit)], len(ordered) > int(limit)


def _as_listed(item: dict[str, JSON]) -> dict[str, JSON]:
    """Return an item with the fields that the client's type requires; a message's content is a list of parts."""
    listed = {"status": "completed", **item}
    content = item.get("content")
    if isinstance(content, str):
        content = [{"type": "output_text" if item.get("role") == "assistant" else "input_text", "text": content}]
    if isinstance(content, list):
        listed["content"] = [
            {**_PART_DEFAULTS.get(part.get("type"), {}), **part} if isinstance(part, dict) else part for part in content
        ]
    return listed
