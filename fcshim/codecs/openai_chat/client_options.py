"""The variant of the Chat API that a client speaks, kept in `Request.style` as words apart by blanks.

Rule: only this codec reads or writes these words; nothing here changes what is asked, only how it is spelled.
Neighbours: the request reader writes a style, the writers of requests, streams and replies follow it.
"""

import msgspec

CUSTOM_ARGUMENT = "input"
"""A custom tool takes one text; as a function it has this single string argument."""


class ChatClientOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What the client's own spelling was."""

    functions: bool = False
    """The legacy `functions` and `function_call` instead of `tools` and `tool_calls`."""
    max_completion_tokens: bool = False
    """The newer name of `max_tokens`."""
    custom: frozenset[str] = frozenset()
    """Names of the tools that were offered as custom tools."""

    def to_text(self) -> str:
        """Give the words for `Request.style`."""
        words = [name for name in ("functions", "max_completion_tokens") if getattr(self, name)]
        return " ".join(words + [f"custom:{name}" for name in sorted(self.custom)])


def read_client_options(text: str) -> ChatClientOptions:
    """Read the words of `Request.style`; another codec's words mean nothing here."""
    words = text.split()
    return ChatClientOptions(
        functions="functions" in words,
        max_completion_tokens="max_completion_tokens" in words,
        custom=frozenset(word.removeprefix("custom:") for word in words if word.startswith("custom:")),
    )
