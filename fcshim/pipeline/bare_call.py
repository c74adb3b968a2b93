"""Finds a reply that is nothing but a call in JSON, without tags, of a tool that is not offered.

Rule: only a reply that begins with `{"name": "...", "arguments": {`, or the same with `parameters`, is held back; any
other passes as soon as it differs from that. It is a call only if the whole reply is this object without other keys.
"""

import re
from collections.abc import Set

import msgspec

from fcshim.events import JSON

_BEGIN = '{"name":"'
_NAME = re.compile(r"[A-Za-z_][\w.:/-]{0,127}")
_AFTER_NAME = ('","arguments":{', '","parameters":{')
_MAX_BEGIN = 1_024
"""Characters within which the arguments must begin, white space included."""
_MAX_CALL = 16_384
"""Characters of such a call; a longer text is an answer."""


class _BareCall(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    arguments: dict[str, JSON] | None = None
    parameters: dict[str, JSON] | None = None


_decoder = msgspec.json.Decoder(_BareCall)


class BareCallSearch:
    """Holds the text of one reply back while it may be such a call; `offered` are the names of the tools."""

    __slots__ = ("_begins", "_offered", "_parts", "_size")

    def __init__(self, offered: Set[str]) -> None:
        self._offered = offered
        self._parts: list[str] = []
        self._size = 0
        self._begins = False

    def feed(self, text: str) -> str:
        """Take text; return all that was held back once it cannot be such a call, else nothing."""
        self._parts.append(text)
        self._size += len(text)
        if self._begins:
            return "" if self._size <= _MAX_CALL else self.flush()
        verdict = _begins_call("".join(self._parts)) if self._size <= _MAX_BEGIN else False
        if verdict is False:
            return self.flush()
        self._begins = verdict is True
        return ""

    def flush(self) -> str:
        """Return what is held back."""
        text = "".join(self._parts)
        self._parts.clear()
        self._size = 0
        return text

    def tool_name(self) -> str:
        """Return the name of the tool that the reply calls, which has ended; empty if it is no such call."""
        try:
            call = _decoder.decode("".join(self._parts)) if self._begins else None
        except (ValueError, RecursionError):
            return ""
        return call.name if call is not None and _NAME.fullmatch(call.name) and call.name not in self._offered else ""


def _begins_call(text: str) -> bool | None:
    """Return whether a text begins such a call; None if more is needed to decide."""
    compact = "".join(text.split())
    if not compact.startswith(_BEGIN):
        return None if _BEGIN.startswith(compact) else False
    rest = compact[len(_BEGIN) :]
    name = _NAME.match(rest)
    if name is None:
        return False if rest else None
    rest = rest[name.end() :]
    return True if rest.startswith(_AFTER_NAME) else None if rest in _PREFIXES else False


_PREFIXES = frozenset(text[:size] for text in _AFTER_NAME for size in range(len(text)))
