"""The store in this process, which is lost with it.

Rule: nothing waits here, so no method suspends.
"""

import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import msgspec

from fcshim.server.store import StoredDocument, StoreLimits


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
    """Documents in memory; `clock` returns seconds."""

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
