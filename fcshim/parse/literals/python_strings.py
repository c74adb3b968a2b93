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

from fcshim.parse.end_markers import MAX_RUNS, EndMarkers, compile_end_markers
from fcshim.parse.limits import Limits
from fcshim.parse.literals.python_quotes import USUAL_ENDS, ends_string
from fcshim.parse.literals.quoted import QuotedString, Spelling

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
_DIRECT = {"\\'": "'", '\\"': '\\"', "\\\\": "\\\\", "\\n": "\\n", "\\t": "\\t", "\\b": "\\b", "\\f": "\\f"}
"""Escapes of one letter that are usual, with JSON's spelling."""
_OTHER_HALF = re.compile(r"\\u([dD][c-fC-F][0-9a-fA-F]{2})")
_OTHER_HALF_BEGUN = re.compile(r"(?:\\(?:u(?:[dD](?:[c-fC-F][0-9a-fA-F]?)?)?)?)?\Z")
_LOST = "\ufffd"

Matcher: TypeAlias = Callable[[str, int], "re.Match[str] | None"]


class Quotation(Spelling):
    """How one kind of literal is written: its prefix, its quotes, what may end the body in it or follow it."""

    def __init__(self, prefix: str, quote: str, markers: EndMarkers, also: str) -> None:
        flags = prefix.lower()
        self.raw, self.formatted = "r" in flags, "f" in flags
        self.quote = quote
        self.followers = compile_end_markers((*markers.markers, also)) if also else markers
        special = rf"\\{quote[0]}{'{}' if self.formatted else ''}"
        strict, piece = rf'[^"{special}\x00-\x1f]*+', rf'[^"{special}\x00-\x1f{markers.first_chars}]*+'
        if not self.raw:
            strict, piece = (rf'{run}(?:\\[\\"nrtbf]{run}){{0,{MAX_RUNS}}}' for run in (strict, piece))
        self.plain: Matcher = re.compile(f"[^{special}]++").match
        """Matches content."""
        self.strict: Matcher = re.compile(strict).match
        """Matches content that JSON spells the same."""
        ends = f"(?:{quote}(?:{USUAL_ENDS}))?" if len(quote) == 1 else ""
        self.run: Matcher = re.compile(f"(?P<run>{piece}){ends}").match
        """Matches the same where no marker can begin, perhaps with a quote behind it, and what usually follows one."""
        plain_piece = re.compile(f"[^{special}{markers.first_chars}]++")
        super().__init__(markers, re.compile(piece).fullmatch, plain_piece.fullmatch)


@functools.lru_cache(maxsize=256)
def quotation_of(prefix: str, quote: str, markers: EndMarkers, also: str = "") -> Quotation:
    """Give the quotation with this prefix and these quotes; `also` is a further token that may follow it."""
    return Quotation(prefix, quote, markers, also)


class PythonString(QuotedString):
    """One literal, read from behind its opening quote.

    `closing` are the brackets that close what the string stands in, innermost first; `key` says that it may be a key of
    a dict.
    """

    spelling: Quotation

    def __init__(self, quotation: Quotation, closing: str, limits: Limits, *, key: bool = False) -> None:
        super().__init__(quotation, limits)
        self._closing = closing
        self._key = key

    def read(self, text: str, pos: int, *, final: bool = False) -> int:
        """Read `text[pos:]` up to the end of the string; `final` says that nothing comes behind the text."""
        self.wait = False
        run, size = self.spelling.run, len(text)
        while pos < size and not (self.wait or self.closed or self.broken):
            found = run(text, pos)
            assert found is not None
            end = found.end(1)
            if end > pos:
                self._take(found[1], found[1])
                pos = end
            follows = found.lastgroup
            if follows == "comma" or (follows == "bracket" and found["bracket"] == self._closing[0]):
                self.close()
                pos += 1
            elif follows == "begun" and not final:
                self.wait = True
            elif pos < size:
                pos = self._unusual(text, pos, final=final)
        return pos

    def _unusual(self, text: str, pos: int, *, final: bool) -> int:
        """Read what is no content or may be none, content in which a marker may begin or that JSON spells otherwise."""
        if text[pos] == self.spelling.quote[0]:
            return self._at_quote(text, pos, final=final)
        if text[pos] == "\\":
            return self._escape(text, pos, final=final)
        strict = self.spelling.strict(text, pos)
        if strict is not None and strict.end() > pos:
            return self._content(text, pos, strict.end(), strict=True)
        plain = self.spelling.plain(text, pos)
        return self._at_brace(text, pos, final=final) if plain is None else self._content(text, pos, plain.end())

    def _at_quote(self, text: str, pos: int, *, final: bool) -> int:
        if len(self.spelling.quote) == 3:
            return self._at_triple(text, pos, final=final)
        ends = ends_string(text, pos + 1, self._closing, self.spelling.followers, key=self._key)
        if ends is None and not final:
            self.wait = True
            return pos
        if ends is False:
            self._mend(text[pos])
            return pos if self.broken else pos + 1
        self.close()
        return pos + 1

    def _at_triple(self, text: str, pos: int, *, final: bool) -> int:
        if text.startswith(self.spelling.quote, pos):
            self.close()
            return pos + 3
        if self.spelling.quote.startswith(text[pos : pos + 3]) and not final:
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
        if self.spelling.raw:
            return self._raw_escape(text, pos, final=final)
        simple = _DIRECT.get(text[pos : pos + 2])
        if simple is not None:
            self._take(text[pos : pos + 2], simple)
            return pos + 2
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
        quoted = text[pos + 1 : pos + 2] in {"\\", self.spelling.quote[0]}
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
