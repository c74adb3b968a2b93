"""Which of the client's tools are functions only for the model, kept in `Request.style` as words apart by blanks.

Rule: only this codec reads or writes these words; calls go back to the client under the names and in the forms that it
used.
Neighbours: `request_tools` writes a style, `items` follows it.
"""

import msgspec


class ResponsesClientOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What the client's own form of its tools was, by the name that the model knows."""

    custom: frozenset[str] = frozenset()
    """Tools that take free text."""
    namespaces: dict[str, str] = {}
    """Tools that stand in a namespace, and in which."""

    def to_text(self) -> str:
        """Give the words for `Request.style`."""
        words = [f"custom:{name}" for name in sorted(self.custom)]
        return " ".join(words + [f"within:{name}={space}" for name, space in self.namespaces.items()])

    def client_name(self, name: str) -> dict[str, str]:
        """Give `name`, and `namespace` where there is one, as the client knows them."""
        space = self.namespaces.get(name)
        return {"name": name} if space is None else {"name": name[len(flat_name(space, "")) :], "namespace": space}


def flat_name(namespace: str, name: str) -> str:
    """Give the name by which the model knows a tool in a namespace."""
    return f"{namespace}__{name}" if namespace else name


def read_client_options(text: str) -> ResponsesClientOptions:
    """Read the words of `Request.style`; another codec's words mean nothing here."""
    words = text.split()
    pairs = [word.removeprefix("within:").partition("=") for word in words if word.startswith("within:")]
    return ResponsesClientOptions(
        custom=frozenset(word.removeprefix("custom:") for word in words if word.startswith("custom:")),
        namespaces={name: space for name, _, space in pairs},
    )
