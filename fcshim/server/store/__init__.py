"""The interface of stores: replies that clients refer to, and turns of which they see only a part.

Rule: every document belongs to one owner, the hash of a client's key, and only this owner finds it. A document is
written as a whole or not at all, and has a limited life and size.
"""

import hashlib
from collections.abc import Sequence
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
