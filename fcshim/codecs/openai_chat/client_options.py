"""The variant of the Chat API that a client uses, kept in `Request.style` as words separated by blanks.

Rule: only this codec reads or writes these words. They affect the form of requests and replies, never their meaning.
"""

import msgspec

CUSTOM_ARGUMENT = "input"
"""The single string argument of a function that stands for a custom tool, which takes one text."""


class ChatClientOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The forms that the client used."""

    functions: bool = False
    """The legacy `functions` and `function_call` instead of `tools` and `tool_calls`."""
    max_completion_tokens: bool = False
    """The newer name of `max_tokens`."""
    custom: frozenset[str] = frozenset()
    """Names of the tools that were offered as custom tools."""

    def to_text(self) -> str:
        """Return the words for `Request.style`."""
        words = [name for name in ("functions", "max_completion_tokens") if getattr(self, name)]
        return " ".join(words + [f"custom:{name}" for name in sorted(self.custom)])


def read_client_options(text: str) -> ChatClientOptions:
    """Parse the words of `Request.style`; those of other codecs are ignored."""
    words = text.split()
    return ChatClientOptions(
        functions="functions" in words,
        max_completion_tokens="max_completion_tokens" in words,
        custom=frozenset(word.removeprefix("custom:") for word in words if word.startswith("custom:")),
    )
