"""An LRU store of replies, for the APIs whose clients refer to earlier replies by id.

Rule: documents are stored by name, bounded by number and by bytes; only the codec that wrote a document knows its
format.
"""

import hashlib
from collections import OrderedDict
from collections.abc import Iterable
from typing import Protocol

import msgspec


class DocumentStore(Protocol):
    """What codecs use of a store; the server gives each client a view that has its own documents only."""

    def put(self, name: str, document: bytes, aliases: Iterable[str] = ()) -> None:
        """Store a document, replacing an earlier one of that name."""
        ...

    def get(self, name: str) -> bytes | None:
        """Return the document of that name."""
        ...

    def resolve_alias(self, alias: str) -> str | None:
        """Return the name of the document that has this alias."""
        ...

    def delete(self, name: str) -> bool:
        """Delete a document; return whether it existed."""
        ...


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

    def for_owner(self, owner: bytes) -> "OwnedReplyStore":
        """Return the view of one owner, such as an API key; the limits are those of all owners together."""
        return OwnedReplyStore(self, hashlib.blake2b(owner, digest_size=16).hexdigest() + ":")


class OwnedReplyStore:
    """The documents of one owner: names and aliases, some of which clients choose, mean nothing to another."""

    def __init__(self, store: ReplyStore, prefix: str) -> None:
        self._store = store
        self._prefix = prefix

    def put(self, name: str, document: bytes, aliases: Iterable[str] = ()) -> None:
        """Store a document, replacing an earlier one of that name."""
        self._store.put(self._prefix + name, document, [self._prefix + alias for alias in aliases])

    def get(self, name: str) -> bytes | None:
        """Return the document of that name and mark it as most recently used."""
        return self._store.get(self._prefix + name)

    def resolve_alias(self, alias: str) -> str | None:
        """Return the name of the document that has this alias."""
        name = self._store.resolve_alias(self._prefix + alias)
        return None if name is None else name.removeprefix(self._prefix)

    def delete(self, name: str) -> bool:
        """Delete a document; return whether it existed."""
        return self._store.delete(self._prefix + name)
