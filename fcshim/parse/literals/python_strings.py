r"""Read the content of one Python string literal: quotes, triple quotes, prefixes, escapes.

Rule: what Python reads is read the same; what it does not (raw newlines, `it's`, broken escapes) is taken as it is
written, where that is the only sense it makes.
Neighbours: `python_quotes` says which quote ends a string, `quoted` holds back what stands behind a closing marker.
"""

import functools
import re
import unicodedata
from collections.abc import Callable
from typing import TypeAlias

from fcshim.parse.closers import MOST_RUNS, Closers, closers
from fcshim.parse.limits import Limits
from fcshim.parse.literals.python_quotes import ends_string
from fcshim.parse.literals.quoted import Piece, QuotedString

PREFIX = re.compile(r"(?:[rR][bBfF]?|[bBfF][rR]?|[uU])(?=[\"'])")
PREFIX_BEGUN = re.compile(r"(?:[rR][bBfF]?|[bBfF][rR]?|[uU])\Z")

_ESCAPE = re.compile(
    r"""\\(?:\r\n|[\r\n\\'"abfnrtv]|[0-7]{1,3}|x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}"""
    r"""|N\{[A-Za-z0-9 -]{1,99}\})"""
)
_ESCAPE_BEGUN = re.compile(
    r"\\(?:\r|[0-7]{1,2}|x[0-9a-fA-F]?|u[0-9a-fA-F]{0,3}|U[0-9a-fA-F]{0,7}|N(?:\{[A-Za-z0-9 -]{0,99})?)?\Z"
)
_SIMPLE = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "\r": "", "\n": ""}
_OTHER_HALF = re.compile(r"\\u([dD][c-fC-F][0-9a-fA-F]{2})")
_OTHER_HALF_BEGUN = re.compile(r"(?:\\(?:u(?:[dD](?:[c-fC-F][0-9a-fA-F]?)?)?)?)?\Z")
_LOST = "\ufffd"

Matcher: TypeAlias = Callable[[str, int], "re.Match[str] | None"]


class PythonString(QuotedString):
    """One literal, read from behind its opening quote.

    `closing` are the brackets that close what the string stands in, innermost first; `key` says that it may be a key of
    a dict, `also` which further tokens may follow it.
    """

    def __init__(
        self,
        prefix: str,
        quote: str,
        closing: str,
        markers: Closers,
        limits: Limits,
        *,
        key: bool = False,
        also: tuple[str, ...] = (),
    ) -> None:
        super().__init__(markers, limits)
        flags = prefix.lower()
        self._raw, self._formatted = "r" in flags, "f" in flags
        self._quote = quote
        self._closing = closing
        self._key = key
        self._followers = closers((*markers.markers, *also)) if also else markers
        patterns = _patterns(quote[0], markers.leads, raw=self._raw, formatted=self._formatted)
        self._plain, self._strict, self.plain_piece, self.piece = patterns

    def read(self, text: str, pos: int, *, final: bool = False) -> int:
        """Read `text[pos:]` up to the end of the string; `final` says that nothing comes behind the text."""
        self.wait = False
        while pos < len(text) and not (self.wait or self.closed or self.broken):
            strict = self._strict(text, pos)
            plain = None if strict else self._plain(text, pos)
            if strict is not None:
                pos = self._content(text, pos, strict.end(), strict=True)
            elif plain is not None:
                pos = self._content(text, pos, plain.end())
            elif text[pos] == "\\":
                pos = self._escape(text, pos, final=final)
            elif text[pos] == self._quote[0]:
                pos = self._at_quote(text, pos, final=final)
            else:
                pos = self._at_brace(text, pos, final=final)
        return pos

    def _at_quote(self, text: str, pos: int, *, final: bool) -> int:
        if len(self._quote) == 3:
            return self._at_triple(text, pos, final=final)
        ends = ends_string(text, pos + 1, self._closing, self._followers, key=self._key)
        if ends is None and not final:
            self.wait = True
            return pos
        if ends is False:
            self._mend(text[pos])
            return pos if self.broken else pos + 1
        self.close()
        return pos + 1

    def _at_triple(self, text: str, pos: int, *, final: bool) -> int:
        if text.startswith(self._quote, pos):
            self.close()
            return pos + 3
        if self._quote.startswith(text[pos : pos + 3]) and not final:
            self.wait = True
            return pos
        self._say(text[pos])
        return pos + 1

    def _at_brace(self, text: str, pos: int, *, final: bool) -> int:
        """In an f-string only doubled braces are content."""
        if pos + 1 == len(text) and not final:
            self.wait = True
            return pos
        if text[pos : pos + 2] != text[pos] * 2:
            self.broken = "an f-string with something to evaluate"
            return pos
        self._say(text[pos : pos + 2], text[pos])
        return pos + 2

    def _escape(self, text: str, pos: int, *, final: bool) -> int:
        if self._raw:
            return self._raw_escape(text, pos, final=final)
        if not final and _ESCAPE_BEGUN.match(text, pos):
            self.wait = True
            return pos
        found = _ESCAPE.match(text, pos)
        if found is None:
            self._say("\\")
            return pos + 1
        if found[0][1] == "u":
            return self._utf16(text, pos, found.end(), final=final)
        self._say(found[0], _decoded(found[0]))
        return found.end()

    def _raw_escape(self, text: str, pos: int, *, final: bool) -> int:
        """Take a backslash as it is; it keeps a quote behind it from ending the string."""
        if pos + 1 == len(text) and not final:
            self.wait = True
            return pos
        quoted = text[pos + 1 : pos + 2] in {"\\", self._quote[0]}
        self._say(text[pos : pos + 2] if quoted else "\\")
        return pos + 2 if quoted else pos + 1

    def _utf16(self, text: str, pos: int, end: int, *, final: bool) -> int:
        r"""Join `\ud83d\ude42`, as JSON writes it; half of a pair is lost."""
        unit = int(text[pos + 2 : end], 16)
        if not 0xD800 <= unit < 0xE000:
            self._say(text[pos:end], chr(unit))
            return end
        other = _OTHER_HALF.match(text, end) if unit < 0xDC00 else None
        if other is not None:
            low = int(other[1], 16)
            self._say(text[pos : other.end()], chr(0x10000 + ((unit - 0xD800) << 10) + (low - 0xDC00)))
            return other.end()
        if unit < 0xDC00 and not final and _OTHER_HALF_BEGUN.match(text, end):
            self.wait = True
            return pos
        self._say(text[pos:end], _LOST)
        return end


@functools.lru_cache(maxsize=64)
def _patterns(quote: str, leads: str, *, raw: bool, formatted: bool) -> tuple[Matcher, Matcher, Piece, Piece]:
    """Give what matches plain content, and content that JSON spells the same; then both where no marker can begin."""
    special = rf"\\{quote}{'{}' if formatted else ''}"
    strict, piece = rf'[^"{special}\x00-\x1f]++', rf'[^"{special}\x00-\x1f{leads}]++'
    if not raw:
        escape = r'\\[\\"nrtbf]'
        strict, piece = f"(?:{strict}|{escape}){{1,{MOST_RUNS}}}", f"(?:{piece}|{escape}){{1,{MOST_RUNS}}}"
    plain, plain_piece = f"[^{special}]++", f"[^{special}{leads}]++"
    return (
        re.compile(plain).match,
        re.compile(strict).match,
        re.compile(plain_piece).fullmatch,
        re.compile(piece).fullmatch,
    )


def _decoded(escape: str) -> str:
    """Give what an escape stands for."""
    kind = escape[1]
    if kind in _SIMPLE:
        return _SIMPLE[kind]
    if kind == "N":
        try:
            return unicodedata.lookup(escape[3:-1])
        except KeyError:
            return escape
    if kind in "xU":
        return _character(int(escape[2:], 16))
    return _character(int(escape[1:], 8)) if kind in "01234567" else kind


def _character(code: int) -> str:
    return _LOST if code > 0x10FFFF or 0xD800 <= code < 0xE000 else chr(code)
