"""The interface of a parser that is tested, and what a client makes of its deltas.

Rule: results are compared as a client sees them, so a parser may work in any way.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol, TypeAlias

import msgspec

from fcshim.errors import ModelOutputError
from fcshim.events import JSON, Event, StopReason
from fcshim.openai import ChoiceEncoder
from fcshim.parse.stream import StreamParser
from fcshim.testing.conformance import Call, ReaderResult


class TextParser(Protocol):
    """Reads one reply. Its deltas are those of the Chat API: `{content}`, `{tool_calls: [{index, id, function}]}`."""

    def feed(self, text: str) -> Iterable[dict[str, JSON]]:
        """Take the next piece of the model's text; return the deltas that it completes."""
        ...

    def close(self, stop_reason: StopReason) -> Iterable[dict[str, JSON]]:
        """Take the end of the text: `complete`, or `max_tokens` where the token limit cut it off."""
        ...


MakeParser: TypeAlias = Callable[[list[dict[str, JSON]], str], TextParser]
"""Makes a parser for one reply from the tools, as dicts of the Chat API, and the name of the dialect."""


def read(
    make: MakeParser, tools: list[dict[str, JSON]], dialect: str, pieces: Iterable[str], stop_reason: StopReason
) -> ReaderResult:
    """Read a reply that comes in pieces; return the calls that a client would run, and the text.

    A client runs a call whose arguments, joined, are a JSON object.
    """
    parser = make(tools, dialect)
    text: list[str] = []
    calls: dict[int, tuple[list[str], list[str]]] = {}
    deltas = [delta for piece in pieces for delta in parser.feed(piece)]
    for delta in (*deltas, *parser.close(stop_reason)):
        text.append(delta.get("content") or "")
        for part in delta.get("tool_calls") or ():
            function = part.get("function") or {}
            names, arguments = calls.setdefault(part["index"], ([], []))
            names.append(function.get("name") or "")
            arguments.append(function.get("arguments") or "")
    found = [(_joined(names), _read_arguments("".join(arguments))) for names, arguments in calls.values()]
    return ReaderResult(
        [{"name": name, "arguments": arguments} for name, arguments in found if arguments is not None], "".join(text)
    )


def _joined(names: Sequence[str]) -> str:
    """Return a name that came once, in parts, or whole with each delta."""
    return names[0] if len(set(filter(None, names))) == 1 else "".join(names)


def _read_arguments(text: str) -> Call | None:
    try:
        arguments = msgspec.json.decode(text or "{}")
    except (ValueError, RecursionError):
        return None
    return arguments if isinstance(arguments, dict) else None


class OwnParser:
    """fcshim's parser behind this interface, with the defaults of the proxy; `make_own_parser` makes it."""

    def __init__(self, tools: list[dict[str, JSON]], dialect: str) -> None:
        self._parser = StreamParser(dialect, tools, rescue=True)
        self._encoder = ChoiceEncoder()

    def feed(self, text: str) -> list[dict[str, JSON]]:
        """Take the next piece of the model's text; return the deltas that it completes."""
        return self._deltas(self._parser.feed(text))

    def close(self, stop_reason: StopReason) -> list[dict[str, JSON]]:
        """Take the end of the text."""
        return self._deltas(self._parser.close(stop_reason))

    def _deltas(self, events: list[Event]) -> list[dict[str, JSON]]:
        try:
            return [choice["delta"] for choice in self._encoder.encode(events)]
        except ModelOutputError:  # all calls have failed; a client would see an error
            return []


make_own_parser: MakeParser = OwnParser
