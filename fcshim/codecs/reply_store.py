"""The interface through which codecs read and write stored replies, for APIs whose clients refer to them by id.

Rule: no I/O. Reading a request yields a `Lookup` for what it refers to and continues with its result, so that the
caller may fetch the documents from anywhere. Only the codec that wrote a document knows its format.
"""

from collections.abc import Generator, Iterable
from typing import Protocol, TypeAlias, TypeVar

import msgspec


class DocumentStore(Protocol):
    """The stored documents of one client."""

    def put(self, name: str, document: bytes, aliases: Iterable[str] = ()) -> None:
        """Store a document, replacing an earlier one of that name; aliases are the ids of items inside it."""
        ...

    def get(self, name: str) -> bytes | None:
        """Return the document of that name."""
        ...

    def delete(self, name: str) -> bool:
        """Delete a document; return whether it existed."""
        ...


class Lookup(msgspec.Struct, frozen=True):
    """The references of a request: documents by their names, and names of documents by their aliases."""

    names: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()


class LookupResult(msgspec.Struct, frozen=True):
    """The documents and the names that a `Lookup` asked for, as far as they exist."""

    documents: dict[str, bytes] = {}
    names: dict[str, str] = {}


Result = TypeVar("Result")
Lookups: TypeAlias = Generator[Lookup, LookupResult, Result]
"""A reader that yields each `Lookup` it needs and is resumed with its result."""


def read_alone(steps: Lookups[Result]) -> Result:
    """Return the result of `steps` without any stored documents."""
    try:
        next(steps)
        while True:
            steps.send(LookupResult())
    except StopIteration as end:
        result: Result = end.value
        return result
