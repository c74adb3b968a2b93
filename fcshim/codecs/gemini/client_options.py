"""The variant of the API that a client speaks, kept in `Request.style` as words apart by blanks.

Rule: only this codec reads or writes these words.
Neighbours: the request reader writes a style, the writers of streams and replies follow it.
"""

import msgspec


class GeminiClientOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What the client asked to see."""

    array: bool = False
    """A stream is one JSON array instead of server-sent events."""
    thoughts: bool = False
    """Parts that are thoughts."""

    def to_text(self) -> str:
        """Give the words for `Request.style`."""
        return " ".join(name for name in ("array", "thoughts") if getattr(self, name))


def read_client_options(text: str) -> GeminiClientOptions:
    """Read the words of `Request.style`; another codec's words mean nothing here."""
    words = text.split()
    return GeminiClientOptions(array="array" in words, thoughts="thoughts" in words)
