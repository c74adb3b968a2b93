r"""Strings: quotes, triple quotes, prefixes and escapes of Python, and the quote tokens of Gemma.

Rule: a valid Python literal has its Python value; raw newlines and invalid escapes are content.
"""

import functools
import json
import re
from collections.abc import Callable
from typing import TypeAlias

from fcshim.events import CallErrorKind
from fcshim.parse.arguments.escapes import read_escape
from fcshim.parse.limits import Limits
from fcshim.parse.literals.call import LiteralCall
from fcshim.parse.markers import MAX_RUNS, EndMarkers

RAW_PREFIX = "r"
"""The prefix of a string, in lower case: JSON has no bytes, and nothing is evaluated."""
JSON_ESCAPES = {"\\'": "'", '\\"': '"', "\\\\": "\\", "\\n": "\n", "\\t": "\t", "\\b": "\b", "\\f": "\f"}
"""Frequent escapes, each with its character."""
_ESCAPE = re.compile(
    r"""\\(?:\r\n|[\r\n\\'"abfnrtv]|[0-7]{1,3}|x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}"""
    r"""|N\{[A-Za-z0-9 -]{1,99}\})"""
)
_PARTIAL_ESCAPE = re.compile(
    r"\\(?:\r|[0-7]{1,2}|x[0-9a-fA-F]?|u[0-9a-fA-F]{0,3}|U[0-9a-fA-F]{0,7}|N(?:\{[A-Za-z0-9 -]{0,99})?)?\Z"
)
_NEEDS_NO_ESCAPE = re.compile(r'[^"\\\x00-\x1f]*+').fullmatch

Matcher: TypeAlias = Callable[[str, int], "re.Match[str] | None"]


class LiteralError(Exception):
    """The text at `pos` is not in the syntax, not allowed there, or beyond a limit.

    `after_body` is the text after a body that has ended although its call has not: at an end marker inside a string
    that is not closed, or at its last bracket if its quotes are doubtful.
    """

    def __init__(
        self, message: str, pos: int, kind: CallErrorKind = "malformed", after_body: str | None = None
    ) -> None:
        super().__init__(message)
        self.pos = pos
        self.kind = kind
        self.after_body = after_body


class LiteralStringSyntax:
    """Compiled patterns for the strings between `quote`s; a string between tokens has no escapes.

    `fullmatch_json_content` matches content that needs no JSON escape, `fullmatch_content` any content. Neither
    matches text that may start an end marker.
    """

    def __init__(self, prefix: str, quote: str, markers: EndMarkers) -> None:
        self.quote = quote
        self.is_token = quote[0] not in "\"'"
        self.is_raw = prefix == RAW_PREFIX
        special = rf"{'' if self.is_token else chr(92) * 2}{re.escape(quote[0])}{markers.first_chars}"
        run = rf'[^"\\{special}\x00-\x1f]*+'
        if not (self.is_raw or self.is_token):
            run = rf'{run}(?:\\[\\"nrtbf]{run}){{0,{MAX_RUNS}}}'
        self.match_run: Matcher = re.compile(run).match
        """Matches content that needs no JSON escape."""
        self.match_other: Matcher = re.compile(rf"[\s\S][^{special}]*+").match
        """Matches a character and the content after it, without quotes and escapes."""
        self.fullmatch_json_content = re.compile(run).fullmatch
        self.fullmatch_content = re.compile(f"[^{special}]++").fullmatch

    def read_special(self, text: str, pos: int, *, final: bool) -> tuple[int, str] | None:
        """Return the end and the content of what stands at `pos`; None if more text is needed to decide."""
        if text[pos] != "\\" or self.is_token:
            found = self.match_other(text, pos)
            assert found is not None
            return found.end(), found[0]
        if not self.is_raw:
            return _read_escape(text, pos, final)
        if pos + 1 == len(text) and not final:
            return None
        end = pos + (2 if text[pos + 1 : pos + 2] in {"\\", self.quote[0]} else 1)  # a quote after it ends nothing
        return end, text[pos:end]


@functools.lru_cache(maxsize=256)
def string_syntax(prefix: str, quote: str, markers: EndMarkers) -> LiteralStringSyntax:
    """Return the syntax for this prefix (in lower case) and these quotes (cached)."""
    return LiteralStringSyntax(prefix, quote, markers)


class StringReader:
    """Reads the strings and quoted keys of calls, one after the other.

    From an end marker inside a string on, the content is kept back. If the string is closed later, the marker was
    content. If the reply ends first, or a quote follows that may not be the closing one, the marker ended the call.
    """

    def __init__(self, call: LiteralCall, end_markers: EndMarkers, limits: Limits) -> None:
        self.syntax: LiteralStringSyntax
        """The syntax of the open string, or of the last one."""
        self.key: str | None = None
        """The key that is read, as far as it came; None outside a key."""
        self.has_escape = False
        """True if the string has an escape that JSON does not have."""
        self.line_breaks = 0
        """Line breaks in the string that are not escaped."""
        self._call = call
        self._end_markers = end_markers
        self._limits = limits

    def begin(self, syntax: LiteralStringSyntax) -> None:
        """Begin a string after its opening quote, or its next part."""
        self.syntax = syntax
        self.has_escape, self.line_breaks = False, 0

    def read(self, text: str, pos: int, *, final: bool) -> int:
        """Read up to the next quote, or the end of the text, and return its position.

        An earlier position is that of a part that needs more text. Raises `LiteralError`.
        """
        syntax, size = self.syntax, len(text)
        quote = syntax.quote
        while True:
            found = syntax.match_run(text, pos)
            assert found is not None
            if found.end() > pos:
                pos = found.end()
                self._add(found[0])
            if pos == size or text.startswith(quote, pos):
                return pos
            if not final and (
                quote.startswith(text[pos : pos + len(quote)]) or self._end_markers.is_partial(text, pos)
            ):
                return pos
            marker = self._end_markers.marker_at(text, pos)
            if marker:
                if self.key is not None:
                    raise LiteralError("a key is not closed", pos)
                self._call.writer.buffer.pause()
                self._add(marker)
                pos += len(marker)
                continue
            part = syntax.read_special(text, pos, final=final)
            if part is None:
                return pos
            self._add_special(text[pos : part[0]], part[1])
            pos = part[0]

    def _add_special(self, source: str, content: str) -> None:
        """Add an escape, or characters that need an escape in JSON."""
        if source[0] != "\\":
            self.line_breaks += content.count("\n")
        elif not (self.syntax.is_raw or self.syntax.is_token):
            self.has_escape = self.has_escape or source not in JSON_ESCAPES
            self._call.escapes_doubtful = self._call.escapes_doubtful or source == "\\"
        self._add(source, json_escape(content))

    def _add(self, source: str, escaped: str | None = None) -> None:
        """Add content that the body writes as `source`."""
        if self.key is None:
            self._call.writer.buffer.add_content(source, escaped)
            return
        self.key += source if escaped is None else escaped
        if len(self.key) > self._limits.search:
            raise LiteralError(f"a key of more than {self._limits.search} characters", 0, "limit")


def _read_escape(text: str, pos: int, final: bool) -> tuple[int, str] | None:  # noqa: FBT001 # as in `read_special`
    simple = JSON_ESCAPES.get(text[pos : pos + 2])
    if simple is not None:
        return pos + 2, simple
    if not final and _PARTIAL_ESCAPE.match(text, pos):
        return None
    found = _ESCAPE.match(text, pos)
    if found is None:
        return pos + 1, "\\"
    if found[0][1] != "u":
        return found.end(), _decode_escape(found[0])
    unit = read_escape(text + " " if final else text, pos)
    return unit and (unit[0], json.loads(f'"{unit[1]}"'))


def _decode_escape(escape: str) -> str:
    """Return the character that an escape means."""
    kind = escape[1]
    if kind in "\r\n":
        return ""
    if kind in "01234567":
        return chr(int(escape[1:], 8))
    try:
        char = escape.encode().decode("unicode_escape")
    except UnicodeDecodeError:
        return escape if kind == "N" else "\ufffd"
    return "\ufffd" if "\ud800" <= char < "\ue000" else char


def json_escape(content: str) -> str:
    """Escape content for the inside of a JSON string."""
    return content if _NEEDS_NO_ESCAPE(content) is not None else json.dumps(content, ensure_ascii=False)[1:-1]
