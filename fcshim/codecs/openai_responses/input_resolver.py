"""Resolving a request's input: its own items, and the stored items that it refers to.

Rule: `previous_response_id` puts the stored turns before the new items; `item_reference` is replaced by the stored
item. An unknown previous response is the API's documented error. An unknown item is left out, because clients refer to
items that were never stored (Vercel's AI SDK replays the model's text as references). The size of resolved items is
limited, so that a small request cannot load any amount of stored data.
"""

import msgspec

from fcshim.codecs.json_text import RequestLimits, field_error
from fcshim.codecs.reply_store import Lookup, Lookups
from fcshim.errors import RequestError
from fcshim.events import JSON

NOT_FOUND = "previous_response_not_found"


class StoredResponse(msgspec.Struct):
    """A stored exchange: its response, the items that were new in its request, and the id of the response before."""

    response: dict[str, JSON]
    input: list[JSON]
    previous: str | None = None

    def output_items(self) -> list[JSON]:
        """Return the items of the response, without calls that were cut off: no client has made them."""
        return [
            item
            for item in self.response["output"]
            if not isinstance(item, dict) or (item.get("type"), item.get("status")) != ("function_call", "incomplete")
        ]

    def all_items(self) -> list[JSON]:
        """Return the items of request and response, in order."""
        return [*self.input, *self.output_items()]


_REFERENCE = "item_reference"
_decode = msgspec.json.Decoder(StoredResponse).decode


def read_stored(document: bytes) -> StoredResponse | None:
    """Read a stored exchange; None for one of another release or a damaged one, which count as not stored."""
    try:
        stored = _decode(document)
    except (msgspec.MsgspecError, RecursionError):
        return None
    return stored if isinstance(stored.response.get("output"), list) else None


def input_items(source: dict[str, JSON]) -> list[JSON]:
    """Return the items of a request's own `input`; a string is a user message. Raises `RequestError`."""
    value = source.get("input")
    if value is None:
        return []
    if isinstance(value, str):
        return [{"type": "message", "role": "user", "content": value}]
    if isinstance(value, list):
        return value
    raise field_error(value, "a string or an array of items", "input")


class InputResolver:
    """Resolves the input of one request; `has_unresolved` becomes true where a reference is not found here.

    `stored_upstream`: the upstream stores earlier responses, and reports the unknown ones.
    """

    def __init__(self, limits: RequestLimits, *, stored_upstream: bool = False) -> None:
        self.has_unresolved = False
        self.stored_upstream = stored_upstream
        self._max_bytes = limits.recalled_bytes
        self._bytes_left = limits.recalled_bytes
        self._loaded: dict[str, StoredResponse] = {}
        self._items_by_id: dict[str, JSON] = {}

    def resolve(self, source: dict[str, JSON]) -> Lookups[list[JSON]]:
        """Return all items of the conversation, with references resolved. Raises `RequestError`."""
        chain = yield from self._load_chain(source)
        items = [*(item for stored in chain for item in stored.all_items()), *input_items(source)]
        if not self.stored_upstream:
            names = [item.get("id") for item in items if isinstance(item, dict) and item.get("type") == _REFERENCE]
            yield from self._load_items({name for name in names if isinstance(name, str)})
        return [found for item in items for found in self._resolve_item(item)]

    def _load_chain(self, source: dict[str, JSON]) -> Lookups[list[StoredResponse]]:
        name = source.get("previous_response_id")
        chain: list[StoredResponse] = []
        names: set[str] = set()
        if self.stored_upstream:
            self.has_unresolved = name is not None
            return chain
        while name is not None:
            is_new = isinstance(name, str) and name not in names  # a forged chain may lead back to itself
            stored = (yield from self._load(name)) if is_new else None
            if stored is None:
                raise RequestError(
                    f"Previous response with id {str(name)[:100]!r} not found.",
                    param="previous_response_id",
                    kind=NOT_FOUND,
                )
            chain.append(stored)
            names.add(name)
            name = stored.previous
        return chain[::-1]

    def _load_items(self, item_ids: set[str]) -> Lookups[None]:
        """Load the responses that have these items."""
        if not item_ids:
            return
        found = yield Lookup(aliases=tuple(sorted(item_ids)))
        for name in dict.fromkeys(found.names.values()):
            stored = yield from self._load(name)
            for item in stored.all_items() if stored is not None else ():
                item_id = item.get("id") if isinstance(item, dict) and item.get("type") != _REFERENCE else None
                if isinstance(item_id, str) and found.names.get(item_id) == name:
                    self._items_by_id[item_id] = item

    def _resolve_item(self, item: JSON) -> list[JSON]:
        if not isinstance(item, dict) or item.get("type") != _REFERENCE:
            return [item]
        item_id = item.get("id")
        found = self._items_by_id.get(item_id) if isinstance(item_id, str) else None
        if found is None:
            self.has_unresolved = True
            return []
        self._charge(len(msgspec.json.encode(found)))
        return [found]

    def _load(self, name: str) -> Lookups[StoredResponse | None]:
        if name not in self._loaded:
            document = (yield Lookup(names=(name,))).documents.get(name)
            if document is None:
                return None
            self._charge(len(document))
            stored = read_stored(document)
            if stored is None:
                return None
            self._loaded[name] = stored
        return self._loaded[name]

    def _charge(self, size: int) -> None:
        self._bytes_left -= size
        if self._bytes_left < 0:
            raise RequestError(
                f"input: the items that it refers to exceed {self._max_bytes} bytes", param="input", status=413
            )
