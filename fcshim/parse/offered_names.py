"""Finds the offered tool that a written name means.

Rule: the exact name comes first. Otherwise the tool with the same letters and digits is meant, also after a namespace.
If two tools could be meant, none is: a lost call is asked for again, a wrong one runs.
"""

import re
from collections.abc import Iterable, Iterator

_MAX_NAME = 256
"""Characters of a name that are compared: the names of tools have at most 128."""
_MAX_NAMESPACES = 4
_AROUND = " \t\r\n\"'`*"
"""White space, quotes and Markdown around a name."""
_SEPARATORS = re.compile(r"[\s\-_./:\\\u2010-\u2015\uff0d\uff3f]+")
r"""What stands between the words of a name, also escaped for Markdown (`read\_file`). Everything else distinguishes
tools, such as the vowel signs of Hindi."""
_ARGUMENT = re.compile(r"(?:\s[-./:\\*\u2010-\u2015\uff0d]*[-./\\*\u2010-\u2015\uff0d]|\.\.)\s*\Z")
"""Signs behind a name that may be its argument, or stand for its arguments (`list_files ..`, `list_files ...`)."""
_LEAKED_TOKENS = re.compile(
    r"(?:\s{0,4}<\|(?:message|channel|constrain|start|end|call|return|eom|eot|sep|im_end)\|>"
    r"\s{0,4}(?:assistant|commentary|analysis|final|json)?){1,4}\s{0,4}\Z"
)
"""Tokens of a chat template that models write behind a name (`read<|message|>`, `read<|channel|>commentary`)."""
_RECIPIENT = re.compile(r"(?:assistant[ \t]{1,4})?to=(\S++)(?:[ \t]{1,4}json)?")
"""A name in a header of harmony without its tokens (`assistant to=functions.read json`)."""
_NAMESPACE = re.compile(
    r"(?:functions?|tools?|default_api|api)(?:\.|::?|/)"  # words that name no tool and no server
    r"|\w{1,64}::"
    r"|mcp__\w{1,64}?__"  # an MCP server, as Claude Code names its tools
)
"""Prefixes of a name. `web.search` has none: it may be another tool than the `search` that is offered."""


class OfferedNames:
    """The names of the offered tools, compiled once."""

    def __init__(self, names: Iterable[str]) -> None:
        self._names = frozenset(names)
        self._by_letters: dict[str, str | None] = {}
        """The tool with these letters and digits; None if several have them."""
        for name in self._names:
            letters = _letters(name)
            self._by_letters[letters] = None if letters in self._by_letters else name
        self._by_letters.pop("", None)

    def find(self, name: str) -> str | None:
        """Return the one tool that `name` can mean, or None."""
        if name in self._names:
            return name
        written = name[: _MAX_NAME + 1]
        if _ARGUMENT.search(written):
            return None
        bare = written.strip(_AROUND).removesuffix("()")
        if "<|" in bare:
            bare = _LEAKED_TOKENS.sub("", bare)
        if "to=" in bare and (recipient := _RECIPIENT.fullmatch(bare)):
            bare = recipient[1]
        if len(bare) > _MAX_NAME:
            return None
        readings = list(_without_namespaces(bare))
        found = {self._same_letters(reading) for reading in readings} - {None}
        namespace = bare[: len(bare) - len(readings[-1])].rstrip(":./")
        return found.pop() if len(found) == 1 and self._same_letters(namespace) is None else None

    def _same_letters(self, name: str) -> str | None:
        return name if name in self._names else self._by_letters.get(_letters(name))


def _letters(name: str) -> str:
    return _SEPARATORS.sub("", name).casefold()


def _without_namespaces(name: str) -> Iterator[str]:
    """Yield the name, then the name without its first namespace, and so on."""
    yield name
    pos = 0
    for _ in range(_MAX_NAMESPACES):
        found = _NAMESPACE.match(name, pos)
        if found is None:
            return
        pos = found.end()
        yield name[pos:]
