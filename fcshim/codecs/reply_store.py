"""An LRU store of replies, for the APIs whose clients refer to earlier replies by id.

Rule: documents are stored by name, bounded by number and by bytes; only the codec that wrote a document knows its
format.
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
    """Documents found by their name, or by an alias: the id of an item inside the document.

    `max_entries`: 1,000 replies are hours of one agent's work. `max_bytes`: 64 MB, as much memory as the context of one
    small model.
    """

    def __init__(self, *, max_entries: int = 1_000, max_bytes: int = 64 * 2**20) -> None:
        self._max_entries = max_entries
        self._max_bytes = max_bytes
        self._bytes = 0
        self._documents: OrderedDict[str, _StoredDocument] = OrderedDict()
        self._aliases: dict[str, str] = {}

    def put(self, name: str, document: bytes, aliases: Iterable[str] = ()) -> None:
        """Store a document, replacing an earlier one of that name; one larger than `max_bytes` is not stored."""
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
        """Return the document of that name and mark it as most recently used."""
        entry = self._documents.get(name)
        if entry is None:
            return None
        self._documents.move_to_end(name)
        return entry.document

    def resolve_alias(self, alias: str) -> str | None:
        """Return the name of the document that has this alias."""
        return self._aliases.get(alias)

    def delete(self, name: str) -> bool:
        """Delete a document; return whether it existed."""
        entry = self._documents.pop(name, None)
        if entry is None:
            return False
        self._bytes -= entry.size()
        for alias in entry.aliases:
            if self._aliases.get(alias) == name:  # else a later document has taken the alias over
                del self._aliases[alias]
        return True
