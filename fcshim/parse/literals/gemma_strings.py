"""Read the content of one string between quote tokens (`<|"|>`); it has no escapes.

Rule: after an end marker inside the string, a quote token closes the string only if a comma, bracket or end marker
follows it; otherwise it opens the next string, and the closing token of this one is missing.
"""

import functools
import re

from fcshim.parse.limits import Limits
from fcshim.parse.literals.quoted_strings import QuotedString, QuotedStringSyntax
from fcshim.parse.markers import EndMarkers, compile_end_markers

_NEXT_CHARACTER = re.compile(r"[ \t\r\n]{0,64}(.?)", re.DOTALL)


@functools.lru_cache(maxsize=64)
def _string_syntax(quote: str, end_markers: EndMarkers) -> QuotedStringSyntax:
    leads = re.escape(quote[0]) + end_markers.first_chars
    piece, plain_piece = re.compile(rf'[^"\\\x00-\x1f{leads}]++'), re.compile(f"[^{leads}]++")
    return QuotedStringSyntax(end_markers, piece.fullmatch, plain_piece.fullmatch)


class GemmaString(QuotedString):
    """Reads one string, from after its opening token."""

    def __init__(self, quote: str, end_markers: EndMarkers, limits: Limits) -> None:
        super().__init__(_string_syntax(quote, end_markers), limits)
        self._quote_marker = compile_end_markers((quote,))
        self._following_markers = end_markers
        self._quote_length = len(quote)

    def read(self, text: str, pos: int, *, final: bool = False) -> int:
        """Read `text[pos:]` up to the end of the string; `final` says that no more text follows."""
        self.wait = False
        while pos < len(text) and not (self.wait or self.closed or self.defect):
            found = self._quote_marker.search(text, pos)
            end = found.start() if found is not None else self._quote_marker.partial_start(text, pos)
            if end > pos:
                pos = self._add_content(text, pos, end)
            elif found is not None:
                pos = self._read_quote(text, pos, final=final)
            else:
                self.wait = True
        return pos

    def _read_quote(self, text: str, pos: int, *, final: bool) -> int:
        end = pos + self._quote_length
        if not self.streams:
            found = _NEXT_CHARACTER.match(text, end)
            assert found is not None
            after = found.start(1)
            if (after == len(text) or self._following_markers.is_partial(text, after)) and not final:
                self.wait = True
                return pos
            if found[1] not in {"", ",", "}", "]", ":"} and not self._following_markers.marker_at(text, after):
                self.defect = "a string is not closed"
                return pos
        self.close()
        return end
