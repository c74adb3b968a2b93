r"""Read the content of one Python string literal: quotes, triple quotes, prefixes, escapes.

Rule: a valid literal has its Python value; raw newlines, unescaped quotes (`it's`) and invalid escapes are taken
literally, where only one reading is possible.
"""

import functools
import re
import unicodedata
from collections.abc import Callable
from typing import TypeAlias

from fcshim.parse.limits import Limits
from fcshim.parse.literals.python_quotes import StringContext, fast_string_ends
from fcshim.parse.literals.quoted_strings import QuotedString, QuotedStringSyntax
from fcshim.parse.markers import MAX_RUNS, EndMarkers, compile_end_markers

PREFIX = re.compile(r"(?:[rR][fF]?|[fF][rR]?|[uU])(?=[\"'])")
PARTIAL_PREFIX = re.compile(r"(?:[rR][fF]?|[fF][rR]?|[uU])\Z")

_ESCAPE = re.compile(
    r"""\\(?:\r\n|[\r\n\\'"abfnrtv]|[0-7]{1,3}|x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}"""
    r"""|N\{[A-Za-z0-9 -]{1,99}\})"""
)
_PARTIAL_ESCAPE = re.compile(
    r"\\(?:\r|[0-7]{1,2}|x[0-9a-fA-F]?|u[0-9a-fA-F]{0,3}|U[0-9a-fA-F]{0,7}|N(?:\{[A-Za-z0-9 -]{0,99})?)?\Z"
)
_ONE_LETTER_ESCAPES = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "\r": "", "\n": ""}
_JSON_ESCAPES = {"\\'": "'", '\\"': '\\"', "\\\\": "\\\\", "\\n": "\\n", "\\t": "\\t", "\\b": "\\b", "\\f": "\\f"}
"""Frequent escapes, each with the JSON for its character."""
_LOW_SURROGATE = re.compile(r"\\u([dD][c-fC-F][0-9a-fA-F]{2})")
_PARTIAL_LOW_SURROGATE = re.compile(r"(?:\\(?:u(?:[dD](?:[c-fC-F][0-9a-fA-F]?)?)?)?)?\Z")
_REPLACEMENT = "\ufffd"

Matcher: TypeAlias = Callable[[str, int], "re.Match[str] | None"]


class PythonStringSyntax(QuotedStringSyntax):
    """Compiled patterns for the literals with one prefix and one kind of quotes.

    `extra_marker` is a token that may follow a literal, besides the end markers.
    """

    def __init__(self, prefix: str, quote: str, markers: EndMarkers, extra_marker: str) -> None:
        flags = prefix.lower()
        self.is_raw, self.is_formatted = "r" in flags, "f" in flags
        self.quote = quote
        self.following_markers = compile_end_markers((*markers.markers, extra_marker)) if extra_marker else markers
        special = rf"\\{quote[0]}{'{}' if self.is_formatted else ''}"
        strict, piece = rf'[^"{special}\x00-\x1f]*+', rf'[^"{special}\x00-\x1f{markers.first_chars}]*+'
        if not self.is_raw:
            strict, piece = (rf'{run}(?:\\[\\"nrtbf]{run}){{0,{MAX_RUNS}}}' for run in (strict, piece))
        self.match_content: Matcher = re.compile(f"[^{special}]++").match
        """Matches content other than quotes, escapes and braces of an f-string."""
        self.match_json_content: Matcher = re.compile(strict).match
        """Matches content that needs no JSON escape."""
        ends = f"(?:{quote}{fast_string_ends(self.following_markers.markers)}|)" if len(quote) == 1 else ""
        self.match_run: Matcher = re.compile(f"(?P<run>{piece}){ends}").match
        """Matches such content, without a possible start of an end marker, and then the quote with a usual ending."""
        plain_piece = re.compile(f"[^{special}{markers.first_chars}]++")
        super().__init__(markers, re.compile(piece).fullmatch, plain_piece.fullmatch)


@functools.lru_cache(maxsize=256)
def python_string_syntax(prefix: str, quote: str, markers: EndMarkers, extra_marker: str = "") -> PythonStringSyntax:
    """Return the syntax for this prefix and these quotes (cached)."""
    return PythonStringSyntax(prefix, quote, markers, extra_marker)


class PythonString(QuotedString):
    """Reads one literal, from after its opening quote."""

    syntax: PythonStringSyntax
    has_escape = False
    """True if an escape was read that JSON does not have."""
    line_breaks = 0
    """Line breaks that are not escaped."""

    def __init__(self, syntax: PythonStringSyntax, context: StringContext, limits: Limits) -> None:
        super().__init__(syntax, limits)
        self.context = context
        self.at_start = False
        """True where a doubtful quote follows the opening one."""

    def read(self, text: str, pos: int, *, final: bool = False) -> int:
        """Read `text[pos:]` up to the end of the string; `final` says that no more text follows."""
        self.wait = False
        if self.doubtful:
            self.at_start = True
            return pos
        run, size = self.syntax.match_run, len(text)
        while pos < size:
            found = run(text, pos)
            assert found is not None
            end = found.end(1)
            if end > pos:
                piece = found[1]
                self._add_escaped(piece, piece)
                pos = end
            follows = found.lastgroup
            if follows != "run":
                if follows != "partial" and self.context.ends_fast(found):
                    self.close()
                    return pos + 1
                if not final and (follows == "partial" or self.context.may_be_next_key(found)):
                    self.wait = True
                    return pos
            if pos < size:
                pos = self._read_special(text, pos, final=final)
                if self.wait or self.closed or self.defect or self.doubtful:
                    break
        return pos

    def _read_special(self, text: str, pos: int, *, final: bool) -> int:
        """Read what the fast run stops at: a quote, an escape, a brace, a control character or a possible marker."""
        if text[pos] == self.syntax.quote[0]:
            return self._read_quote(text, pos, final=final)
        if text[pos] == "\\":
            return self._read_escape(text, pos, final=final)
        strict = self.syntax.match_json_content(text, pos)
        if strict is not None and strict.end() > pos:
            return self._add_content(text, pos, strict.end(), strict=True)
        plain = self.syntax.match_content(text, pos)
        if plain is None:
            return self._read_brace(text, pos, final=final)
        end = self._add_content(text, pos, plain.end())
        self.line_breaks += text.count("\n", pos, end)
        return end

    def _read_quote(self, text: str, pos: int, *, final: bool) -> int:
        if len(self.syntax.quote) == 3:
            return self._read_triple_quote(text, pos, final=final)
        return self._end_at(text, pos, pos + 1, final=final)

    def _end_at(self, text: str, pos: int, end: int, *, final: bool) -> int:
        """End the string at the quote between `pos` and `end`, if what follows confirms it."""
        ends = self.context.ends_string(text, end, self.syntax.following_markers, final=final)
        if ends is None:
            self.wait = True
        elif ends:
            self.close()
            return end
        elif self.streams:
            self.doubtful = True
        else:
            self.defect = "a string is not closed"
        return pos

    def _read_triple_quote(self, text: str, pos: int, *, final: bool) -> int:
        if text.startswith(self.syntax.quote, pos):
            return self._end_at(text, pos, pos + 3, final=final)
        if self.syntax.quote.startswith(text[pos : pos + 3]) and not final:
            self.wait = True
            return pos
        self._add_decoded(text[pos])
        return pos + 1

    def _read_brace(self, text: str, pos: int, *, final: bool) -> int:
        """Read a brace of an f-string: only doubled braces are content."""
        if pos + 1 == len(text) and not final:
            self.wait = True
            return pos
        if text[pos : pos + 2] != text[pos] * 2:
            self.defect = "an f-string with something to evaluate"
            return pos
        self._add_decoded(text[pos : pos + 2], text[pos])
        return pos + 2

    def _read_escape(self, text: str, pos: int, *, final: bool) -> int:
        if self.syntax.is_raw:
            return self._read_raw_escape(text, pos, final=final)
        simple = _JSON_ESCAPES.get(text[pos : pos + 2])
        if simple is not None:
            self._add_escaped(text[pos : pos + 2], simple)
            return pos + 2
        if not final and _PARTIAL_ESCAPE.match(text, pos):
            self.wait = True
            return pos
        self.has_escape = True
        found = _ESCAPE.match(text, pos)
        if found is None:
            self.has_backslash = True
            self._add_decoded("\\")
            return pos + 1
        if found[0][1] == "u":
            return self._read_utf16_escape(text, pos, found.end(), final=final)
        self._add_decoded(found[0], _decode_escape(found[0]))
        return found.end()

    def _read_raw_escape(self, text: str, pos: int, *, final: bool) -> int:
        """Read a backslash of a raw string as content, with the quote after it, which then does not end the string."""
        if pos + 1 == len(text) and not final:
            self.wait = True
            return pos
        quoted = text[pos + 1 : pos + 2] in {"\\", self.syntax.quote[0]}
        self._add_decoded(text[pos : pos + 2] if quoted else "\\")
        return pos + 2 if quoted else pos + 1

    def _read_utf16_escape(self, text: str, pos: int, end: int, *, final: bool) -> int:
        r"""Read `\uXXXX`; join a surrogate pair written as in JSON (`\ud83d\ude42`), replace a lone surrogate."""
        unit = int(text[pos + 2 : end], 16)
        if not 0xD800 <= unit < 0xE000:
            self._add_decoded(text[pos:end], chr(unit))
            return end
        other = _LOW_SURROGATE.match(text, end) if unit < 0xDC00 else None
        if other is not None:
            low = int(other[1], 16)
            self._add_decoded(text[pos : other.end()], chr(0x10000 + ((unit - 0xD800) << 10) + (low - 0xDC00)))
            return other.end()
        if unit < 0xDC00 and not final and _PARTIAL_LOW_SURROGATE.match(text, end):
            self.wait = True
            return pos
        self._add_decoded(text[pos:end], _REPLACEMENT)
        return end


def _decode_escape(escape: str) -> str:
    """Return the character that an escape means."""
    kind = escape[1]
    if kind in _ONE_LETTER_ESCAPES:
        return _ONE_LETTER_ESCAPES[kind]
    if kind == "N":
        try:
            return unicodedata.lookup(escape[3:-1])
        except KeyError:
            return escape
    if kind in "xU":
        return _code_point(int(escape[2:], 16))
    return _code_point(int(escape[1:], 8)) if kind in "01234567" else kind


def _code_point(code: int) -> str:
    return _REPLACEMENT if code > 0x10FFFF or 0xD800 <= code < 0xE000 else chr(code)
