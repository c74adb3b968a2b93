"""Reads and adds the documents of one client, for one request.

Rule: codecs read and write at once, without waiting. So what a request needs is fetched before, and what its reply adds
is written before the reply ends: a client that has the end can refer to the reply, at any other process, too. A write
that fails does not fail the reply.
"""

import functools
import logging
from collections.abc import Iterable, Sequence

from fcshim.codecs.reply_store import Lookup, LookupResult, Lookups, Result
from fcshim.dispatch import run_off_loop
from fcshim.errors import StoreError
from fcshim.server.client_connection import ClientConnection
from fcshim.server.guard import client_key
from fcshim.server.store import Store, StoredDocument, owner_of

logger = logging.getLogger("fcshim.server")

_REPLY = "reply:"
"""Before the names and aliases of stored replies, which clients choose, so that they reach nothing else."""


class ClientMemory:
    """The documents of one client; implements `codecs.reply_store.DocumentStore` with those that were fetched."""

    def __init__(self, store: Store, connection: ClientConnection) -> None:
        self._store = store
        self._connection = connection
        self._fetched: dict[str, bytes] = {}
        self._added: list[StoredDocument] = []
        self._deleted: list[str] = []

    @functools.cached_property
    def _owner(self) -> str:
        return owner_of(client_key(self._connection.headers, self._connection.query))

    async def read(self, steps: Lookups[Result], size: int) -> Result:
        """Return what `steps` reads from a request of `size` bytes. Raises `StoreError`, and what `steps` raises."""
        found: LookupResult | None = None
        while True:
            outcome = await run_off_loop(size, functools.partial(_advance, steps, found))
            if isinstance(outcome, StopIteration):
                result: Result = outcome.value
                return result
            found = await self._look_up(outcome)

    async def fetch(self, name: str) -> None:
        """Fetch a reply, which `get` then returns. Raises `StoreError`."""
        self._fetched.update((await self._look_up(Lookup(names=(name,)))).documents)

    async def find(self, names: Sequence[str]) -> dict[str, bytes]:
        """Return the existing documents of these ids that are not replies. Raises `StoreError`."""
        return await self._store.find(self._owner, names)

    def add(self, document: StoredDocument) -> None:
        """Store a document with the end of the reply."""
        self._added.append(document)

    async def flush(self) -> None:
        """Write what was added; the store logs an outage."""
        added, self._added = self._added, []
        for document in added:
            try:
                if not await self._store.keep(self._owner, document):
                    logger.info("not remembered: %d bytes are beyond the limits", document.size())
            except StoreError as error:
                logger.debug("not remembered: %s", error.message)

    async def forget_deleted(self) -> None:
        """Delete the replies that `delete` was called for. Raises `StoreError`."""
        for name in self._deleted:
            await self._store.forget(self._owner, _REPLY + name)

    def put(self, name: str, document: bytes, aliases: Iterable[str] = ()) -> None:
        """Store a reply with its end."""
        self.add(StoredDocument(_REPLY + name, document, tuple(_REPLY + alias for alias in aliases)))

    def get(self, name: str) -> bytes | None:
        """Return a reply that was fetched."""
        return self._fetched.get(name)

    def delete(self, name: str) -> bool:
        """Delete a reply with `forget_deleted`; return whether it was fetched."""
        self._deleted.append(name)
        return name in self._fetched

    async def _look_up(self, lookup: Lookup) -> LookupResult:
        documents: dict[str, bytes] = {}
        names: dict[str, str] = {}
        if lookup.names:
            documents = await self._store.find(self._owner, [_REPLY + name for name in lookup.names])
        if lookup.aliases:
            names = await self._store.resolve(self._owner, [_REPLY + alias for alias in lookup.aliases])
        return LookupResult(
            {name.removeprefix(_REPLY): document for name, document in documents.items()},
            {alias.removeprefix(_REPLY): name.removeprefix(_REPLY) for alias, name in names.items()},
        )


def _advance(steps: Lookups[Result], found: LookupResult | None) -> Lookup | StopIteration:
    """Run up to the next lookup, or to the end, which holds the result."""
    try:
        return next(steps) if found is None else steps.send(found)
    except StopIteration as end:
        return end
