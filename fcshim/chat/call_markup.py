"""Finds the markup of calls in a reply's text: calls that could not run.

Rule: markup is never shown as an answer. From the first tag of a call on, outside code, a reply's text is set aside;
the user can read it with `/raw` or `--json`.
"""

import functools

import msgspec

from fcshim.parse.dialects import DIALECTS
from fcshim.parse.markers import MarkerSet

_ENDS_OF_TURNS = ("<|end|>", "<|return|>", "<|end_message|>", "<|message_model|>")
"""Markers of dialects that also occur in messages without calls."""
_SHORTEST = 6
"""Characters of the shortest tag; shorter markers (`>>>`) are ordinary text."""
_FENCES = ("```", "~~~")


class MarkupSetAside(msgspec.Struct, frozen=True, tag="markup_set_aside", tag_field="type"):
    """A fragment of a reply's text that is the markup of a call which did not run, and what follows it."""

    text: str


class ReplyText:
    """The text of one reply while it streams; `set_aside` is true once a part of it is not shown."""

    def __init__(self) -> None:
        self.set_aside = False
        self._waiting = ""  # it may begin a tag
        self._line_start = ""
        self._backticks = 0  # in the current line
        self._in_fence = False

    def feed(self, text: str) -> tuple[str, str]:
        """Return the text to show, and the text to set aside."""
        if self.set_aside:
            return "", text
        tags = _call_tags()
        text, pos = self._waiting + text, 0
        self._waiting = ""
        while (found := tags.search(text, pos)) is not None:
            self._pass(text[pos : found.start()])
            in_code = self._in_fence or self._begins_with_fence() or self._backticks % 2 == 1
            if not in_code:
                self.set_aside = True
                return text[: found.start()], text[found.start() :]
            self._pass(found[0])
            pos = found.end()
        end = tags.partial_start(text, pos)
        self._pass(text[pos:end])
        self._waiting = text[end:]
        return text[:end], ""

    def close(self) -> str:
        """Return the rest of the text to show."""
        rest, self._waiting = self._waiting, ""
        return rest

    def _pass(self, text: str) -> None:
        *lines, rest = text.split("\n")
        for line in lines:
            self._add_to_line(line)
            self._in_fence ^= self._begins_with_fence()
            self._line_start, self._backticks = "", 0
        self._add_to_line(rest)

    def _add_to_line(self, text: str) -> None:
        self._line_start = (self._line_start + text)[:80].lstrip()
        self._backticks += text.count("`")

    def _begins_with_fence(self) -> bool:
        return self._line_start.startswith(_FENCES)


def without_markup(text: str) -> str:
    """Return a whole reply's text without the markup of calls."""
    reply = ReplyText()
    shown, _ = reply.feed(text)
    return shown + reply.close()


@functools.cache
def _call_tags() -> MarkerSet:
    """Return the tags of all dialects, including end tags, since a stray one is not an answer."""
    markers = (
        marker.strip()
        for dialect in DIALECTS.values()
        for marker in (*dialect.openers(), *dialect.section.openers(), *dialect.closers())
    )
    return MarkerSet(
        marker
        for marker in markers
        if marker[:1] in ("<", "[", "]", "✿") and len(marker) >= _SHORTEST and marker not in _ENDS_OF_TURNS
    )
