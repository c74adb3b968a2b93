"""A process that writes documents until it is killed: `python -m tests.server.store_writer ADDRESS NAME`.

Each document is a whole number of times its own name, with an alias, and is replaced again and again by longer ones, so
that a half-written one would be seen. A line on stdout says that a document is kept.
"""

import asyncio
import itertools
import sys

from fcshim.config import Config
from fcshim.server.store import StoredDocument
from fcshim.server.store.open import open_store

LIMITS = {"memory_entries": 40, "memory_bytes": 4_000_000, "memory_client_bytes": 2_000_000}
NAMES = 30


def value_of(name: str, repeats: int) -> bytes:
    return repeats.to_bytes(4) + name.encode() * repeats


async def write(address: str, owner: str) -> None:
    store = open_store(Config(store=address, **LIMITS))
    for number in itertools.count():
        name = f"{owner}{number % NAMES:04d}"
        await store.keep(owner, StoredDocument(name, value_of(name, number * 977 % 40_000), (f"alias of {name}",)))
        sys.stdout.write(f"{name} {number}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(write(*sys.argv[1:]))
