"""The variant of the Messages API that a client speaks, kept in `Request.style`.

Rule: only this codec reads or writes it.
Neighbours: the request reader writes a style, the writers of streams and replies follow it.
"""

import msgspec


class AnthropicClientOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What the client asked to see."""

    thinking: bool = False
    """Thinking blocks. Who has not asked for them takes the first block of a reply for its text."""

    def to_text(self) -> str:
        """Give the word for `Request.style`."""
        return "thinking" if self.thinking else ""


def read_client_options(text: str) -> AnthropicClientOptions:
    """Read `Request.style`; another codec's words mean nothing here."""
    return AnthropicClientOptions(thinking=text == "thinking")
