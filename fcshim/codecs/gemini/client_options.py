"""How a client of the Gemini API wants its reply, encoded in `Request.style` as words separated by spaces.

Rule: only this codec reads or writes the encoding.
"""

import msgspec


class GeminiClientOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What the client wants to see."""

    array: bool = False
    """The stream is one JSON array instead of server-sent events."""
    thoughts: bool = False
    """The reply includes thoughts."""

    def to_text(self) -> str:
        """Encode for `Request.style`."""
        return " ".join(name for name in ("array", "thoughts") if getattr(self, name))


def read_client_options(text: str) -> GeminiClientOptions:
    """Decode `Request.style`; the words of other codecs are ignored."""
    words = text.split()
    return GeminiClientOptions(array="array" in words, thoughts="thoughts" in words)
