"""Resolving a request's input: its own items, and the stored items that it refers to.

Rule: `previous_response_id` puts the stored turns before the new items; `item_reference` is replaced by the stored
item. An unknown previous response is the API's documented error. An unknown item is left out, because clients refer to
items that were never stored (Vercel's AI SDK replays the model's text as references). The size of resolved items is
limited, so that a small request cannot load any amount of stored data.
"""

import msgspec

from fcshim.codecs.json_text import RequestLimits, field_error
from fcshim.codecs.reply_store import DocumentStore
from fcshim.errors import RequestError
from fcshim.events import JSON

NOT_FOUND = "previous_response_not_found"


class StoredResponse(msgspec.Struct):
    """A stored exchange: its response, the items that were new in its request, and the id of the response before."""

    response: dict[str, JSON]
    input: list[JSON]
    previous: str | None = None

    def output_items(self) -> list[JSON]:
        """Return the items of the response."""
        output: list[JSON] = self.response["output"]
        return output

    def all_items(self) -> list[JSON]:
        """Return the items of request and response, in order."""
        return [*self.input, *self.output_items()]


_read = msgspec.json.Decoder(StoredResponse).decode


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

    def __init__(
        self, reply_store: DocumentStore | None, limits: RequestLimits, *, stored_upstream: bool = False
    ) -> None:
        self.has_unresolved = False
        self._stored_upstream = stored_upstream
        self._reply_store = reply_store
        self._max_bytes = limits.recalled_bytes
        self._bytes_left = limits.recalled_bytes
        self._loaded: dict[str, StoredResponse] = {}
        self._items_by_id: dict[str, JSON] = {}

    def resolve(self, source: dict[str, JSON]) -> list[JSON]:
        """Return all items of the conversation, with references resolved. Raises `RequestError`."""
        earlier = [item for stored in self._load_chain(source) for item in stored.all_items()]
        return [found for item in [*earlier, *input_items(source)] for found in self._resolve_item(item)]

    def _load_chain(self, source: dict[str, JSON]) -> list[StoredResponse]:
        name = source.get("previous_response_id")
        chain: list[StoredResponse] = []
        if self._stored_upstream:
            self.has_unresolved = name is not None
            return chain
        while name is not None:
            stored = self._load(name) if isinstance(name, str) else None
            if stored is None:
                raise RequestError(
                    f"Previous response with id {str(name)[:100]!r} not found.",
                    param="previous_response_id",
                    kind=NOT_FOUND,
                )
            chain.append(stored)
            name = stored.previous
        return chain[::-1]

    def _resolve_item(self, item: JSON) -> list[JSON]:
        if not isinstance(item, dict) or item.get("type") != "item_reference":
            return [item]
        found = self._find_item(item.get("id"))
        self.has_unresolved = self.has_unresolved or found is None
        return [] if found is None else [found]

    def _find_item(self, item_id: JSON) -> JSON:
        if not isinstance(item_id, str) or self._reply_store is None:
            return None
        if item_id not in self._items_by_id and (name := self._reply_store.resolve_alias(item_id)) is not None:
            stored = self._load(name)
            for item in stored.all_items() if stored is not None else ():
                if isinstance(item, dict) and isinstance(item.get("id"), str):
                    self._items_by_id[item["id"]] = item
        found = self._items_by_id.get(item_id)
        if found is not None:
            self._charge(len(msgspec.json.encode(found)))
        return found

    def _load(self, name: str) -> StoredResponse | None:
        if name not in self._loaded and self._reply_store is not None:
            document = self._reply_store.get(name)
            if document is None:
                return None
            self._charge(len(document))
            self._loaded[name] = _read(document)
        return self._loaded.get(name)

    def _charge(self, size: int) -> None:
        self._bytes_left -= size
        if self._bytes_left < 0:
            raise RequestError(
                f"input: the items that it refers to exceed {self._max_bytes} bytes", param="input", status=413
            )
