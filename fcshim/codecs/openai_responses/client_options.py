"""The client's tools that the model sees in another form, kept in `Request.style` as words separated by blanks.

Rule: only this codec reads or writes these words; calls are returned to the client under its own names and in its own
forms.
"""

import msgspec


class ResponsesClientOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The client's own form of its tools, by the names that the model sees."""

    custom: frozenset[str] = frozenset()
    """Names of custom tools, which take free text."""
    namespaces: dict[str, str] = {}
    """The namespaces of the tools that have one."""

    def to_text(self) -> str:
        """Return the words for `Request.style`."""
        words = [f"custom:{name}" for name in sorted(self.custom)]
        return " ".join(words + [f"within:{name}={space}" for name, space in self.namespaces.items()])

    def client_name(self, name: str) -> dict[str, str]:
        """Return the client's own `name` of a tool, and its `namespace` if it has one."""
        space = self.namespaces.get(name)
        return {"name": name} if space is None else {"name": name[len(flat_name(space, "")) :], "namespace": space}


def flat_name(namespace: str, name: str) -> str:
    """Return the name under which the model sees a tool, with the namespace if there is one."""
    return f"{namespace}__{name}" if namespace else name


def read_client_options(text: str) -> ResponsesClientOptions:
    """Parse the words of `Request.style`; those of other codecs are ignored."""
    words = text.split()
    pairs = [word.removeprefix("within:").partition("=") for word in words if word.startswith("within:")]
    return ResponsesClientOptions(
        custom=frozenset(word.removeprefix("custom:") for word in words if word.startswith("custom:")),
        namespaces={name: space for name, _, space in pairs},
    )
