"""How a client of the Messages API wants its reply, encoded in `Request.style`.

Rule: only this codec reads or writes the encoding.
"""

import msgspec


class AnthropicClientOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What the client wants to see."""

    thinking: bool = False
    """Thinking blocks. A client that did not request them takes the first block of a reply for its text."""

    def to_text(self) -> str:
        """Encode for `Request.style`."""
        return "thinking" if self.thinking else ""


def read_client_options(text: str) -> AnthropicClientOptions:
    """Decode `Request.style`; the words of other codecs are ignored."""
    return AnthropicClientOptions(thinking=text == "thinking")
