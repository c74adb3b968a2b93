"""How a client of Ollama's API wants its reply, encoded in `Request.style` as words separated by spaces.

Rule: only this codec reads or writes the encoding. The options change only how the reply is written, never the upstream
request.
"""

import msgspec


class OllamaClientOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What the client requested."""

    generate: bool = False
    """`/api/generate`: one prompt, and a reply in `response` instead of a message."""
    thinking: bool = True
    """Whether reasoning is written; a client turns it off with `think: false`."""
    unload: bool = False
    """A request without a prompt that asks to unload the model."""

    def to_text(self) -> str:
        """Encode for `Request.style`."""
        words = [name for name in ("generate", "unload") if getattr(self, name)]
        return " ".join(words if self.thinking else [*words, "thoughtless"])


def read_client_options(text: str) -> OllamaClientOptions:
    """Decode `Request.style`; the words of other codecs are ignored."""
    words = text.split()
    return OllamaClientOptions(
        generate="generate" in words, thinking="thoughtless" not in words, unload="unload" in words
    )
