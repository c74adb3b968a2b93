"""How an Ollama client spoke, kept in `Request.style` as words apart by blanks.

Rule: only this codec reads or writes these words; nothing here changes what is asked, only how the reply is written.
Neighbours: the request reader writes a style, the writers of streams and replies follow it.
"""

import msgspec


class OllamaClientOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What the client's own spelling was."""

    generate: bool = False
    """`/api/generate`: one prompt, and a reply in `response` instead of a message."""
    thinking: bool = True
    """Whether reasoning is written; a client says no by `think: false`."""
    unload: bool = False
    """A request without a prompt that wants the model's memory back."""

    def to_text(self) -> str:
        """Give the words for `Request.style`."""
        words = [name for name in ("generate", "unload") if getattr(self, name)]
        return " ".join(words if self.thinking else [*words, "thoughtless"])


def read_client_options(text: str) -> OllamaClientOptions:
    """Read the words of `Request.style`; another codec's words mean nothing here."""
    words = text.split()
    return OllamaClientOptions(
        generate="generate" in words, thinking="thoughtless" not in words, unload="unload" in words
    )
