"""Stores, and the one in this process: replies that clients refer to, and turns of which they see only a part.

Rule: every document belongs to one owner, the hash of a client's key, and only this owner finds it. A document is
written as a whole or not at all, and has a limited life and size.
"""

import hashlib
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import msgspec


class StoredDocument(msgspec.Struct, frozen=True):
    """A document, found by its name. An alias leads to the name; a later document may take it over."""

    name: str
    value: bytes
    aliases: tuple[str, ...] = ()

    def size(self) -> int:
        """Return the bytes that count for the limits."""
        return len(self.value) + sum(map(len, self.aliases))


class StoreLimits(msgspec.Struct, frozen=True):
    """The limits of a store: of all documents, of those of one owner, and of the life of each.

    `entries`: 10,000 replies and turns are days of one agent's work. `size`: 64 MB, as much memory as the context of
    one small model. `lifetime`: 30 days, as long as OpenAI keeps responses. Sizes are in bytes, the life in seconds.
    """

    entries: int = 10_000
    size: int = 64 * 2**20
    owner_size: int = 64 * 2**20
    lifetime: float = 30 * 86_400.0

    def admits(self, document: StoredDocument) -> bool:
        """Return whether a document alone stays within the limits."""
        return self.entries > 0 and document.size() <= min(self.size, self.owner_size)


class Store(Protocol):
    """Documents of all clients. Every method but `aclose` raises `StoreError`."""

    async def keep(self, owner: str, document: StoredDocument) -> bool:
        """Store a document, replacing an earlier one of that name; return whether the limits admit it.

        The documents that were not used for the longest time make room for it.
        """
        ...

    async def find(self, owner: str, names: Sequence[str]) -> dict[str, bytes]:
        """Return the documents of these names, as far as they exist, and mark them as used."""
        ...

    async def resolve(self, owner: str, aliases: Sequence[str]) -> dict[str, str]:
        """Return the names of the documents that have these aliases, as far as they exist."""
        ...

    async def forget(self, owner: str, name: str) -> bool:
        """Delete a document and its aliases; return whether it existed."""
        ...

    async def aclose(self) -> None:
        """Close the connections and files."""
        ...


def owner_of(client_key: bytes) -> str:
    """Return the owner of documents by the key that the client sent: a hash, so that no store holds a key."""
    return hashlib.blake2b(client_key, digest_size=16).hexdigest()


class _Entry(msgspec.Struct, frozen=True):
    document: StoredDocument
    expires_at: float


@dataclass(slots=True)
class _OwnedDocuments:
    """The documents of one owner: their size, their names with the least recently used first, their aliases."""

    size: int = 0
    names: OrderedDict[str, None] = field(default_factory=OrderedDict)
    aliases: dict[str, str] = field(default_factory=dict)


class MemoryStore:
    """Documents in memory, which are lost with the process; `clock` returns seconds.

    Nothing waits here, so no method suspends.
    """

    def __init__(self, limits: StoreLimits | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._limits = limits or StoreLimits()
        self._clock = clock
        self._size = 0
        self._entries: dict[tuple[str, str], _Entry] = {}  # the oldest first
        self._used: OrderedDict[tuple[str, str], None] = OrderedDict()  # the least recently used first
        self._owners: dict[str, _OwnedDocuments] = {}

    async def keep(self, owner: str, document: StoredDocument) -> bool:
        """Store a document, replacing an earlier one of that name; return whether the limits admit it."""
        self._delete(owner, document.name)
        if not self._limits.admits(document):
            return False
        self._add(owner, document)
        now = self._clock()
        while now >= self._entries[oldest := next(iter(self._entries))].expires_at:
            self._delete(*oldest)
        owned = self._owners[owner]
        while owned.size > self._limits.owner_size:
            self._delete(owner, next(iter(owned.names)))
        while self._size > self._limits.size or len(self._entries) > self._limits.entries:
            self._delete(*next(iter(self._used)))
        return True

    async def find(self, owner: str, names: Sequence[str]) -> dict[str, bytes]:
        """Return the documents of these names, as far as they exist, and mark them as used."""
        now = self._clock()
        found: dict[str, bytes] = {}
        for name in names:
            entry = self._entries.get((owner, name))
            if entry is not None and now < entry.expires_at:
                self._used.move_to_end((owner, name))
                self._owners[owner].names.move_to_end(name)
                found[name] = entry.document.value
        return found

    async def resolve(self, owner: str, aliases: Sequence[str]) -> dict[str, str]:
        """Return the names of the documents that have these aliases, as far as they exist."""
        owned = self._owners.get(owner)
        known = {} if owned is None else owned.aliases
        return {alias: known[alias] for alias in aliases if alias in known}

    async def forget(self, owner: str, name: str) -> bool:
        """Delete a document and its aliases; return whether it existed."""
        return self._delete(owner, name)

    async def aclose(self) -> None:
        """Nothing is open."""

    def _add(self, owner: str, document: StoredDocument) -> None:
        key, owned = (owner, document.name), self._owners.setdefault(owner, _OwnedDocuments())
        self._entries[key] = _Entry(document, self._clock() + self._limits.lifetime)
        self._used[key] = owned.names[document.name] = None
        owned.aliases.update(dict.fromkeys(document.aliases, document.name))
        owned.size += document.size()
        self._size += document.size()

    def _delete(self, owner: str, name: str) -> bool:
        entry = self._entries.pop((owner, name), None)
        if entry is None:
            return False
        owned = self._owners[owner]
        del self._used[owner, name], owned.names[name]
        owned.size -= entry.document.size()
        self._size -= entry.document.size()
        for alias in entry.document.aliases:
            if owned.aliases.get(alias) == name:  # else a later document has taken the alias over
                del owned.aliases[alias]
        if not owned.names:
            del self._owners[owner]
        return True
