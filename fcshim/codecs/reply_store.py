"""What a server remembers of its replies, for the APIs whose clients refer to them.

Rule: documents by id, those used last kept longest, bounded by their number and by their bytes; what is in a document
is its codec's business.
Neighbours: the server owns one and passes it in with every address and identity, codecs read and write it.
"""

from collections import OrderedDict
from collections.abc import Iterable

import msgspec


class _StoredDocument(msgspec.Struct, frozen=True):
    document: bytes
    aliases: tuple[str, ...]

    def size(self) -> int:
        return len(self.document) + sum(map(len, self.aliases))


class ReplyStore:
    """Documents that can be found by their own name, or by an alias of something inside.

    `entries`: 1,000 replies are hours of one agent's work. `size`: 64 MB, what one small model's context costs.
    """

    def __init__(self, *, max_entries: int = 1_000, max_bytes: int = 64 * 2**20) -> None:
        self._max_entries = max_entries
        self._max_bytes = max_bytes
        self._bytes = 0
        self._documents: OrderedDict[str, _StoredDocument] = OrderedDict()
        self._aliases: dict[str, str] = {}

    def put(self, name: str, document: bytes, aliases: Iterable[str] = ()) -> None:
        """Keep a document, in place of an earlier one of that name; one larger than all the room is not kept."""
        self.delete(name)
        entry = _StoredDocument(document, tuple(aliases))
        if entry.size() > self._max_bytes or not self._max_entries:
            return
        self._documents[name] = entry
        self._aliases.update(dict.fromkeys(entry.aliases, name))
        self._bytes += entry.size()
        while self._bytes > self._max_bytes or len(self._documents) > self._max_entries:
            self.delete(next(iter(self._documents)))

    def get(self, name: str) -> bytes | None:
        """Give the document of that name; it then counts as used."""
        entry = self._documents.get(name)
        if entry is None:
            return None
        self._documents.move_to_end(name)
        return entry.document

    def resolve_alias(self, alias: str) -> str | None:
        """Give the name of the document that has this alias."""
        return self._aliases.get(alias)

    def delete(self, name: str) -> bool:
        """Drop a document; tell whether there was one."""
        entry = self._documents.pop(name, None)
        if entry is None:
            return False
        self._bytes -= entry.size()
        for alias in entry.aliases:
            if self._aliases.get(alias) == name:
                del self._aliases[alias]
        return True
