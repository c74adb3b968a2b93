"""Read the content of one string between tokens that stand for quotation marks (`<|"|>`); it has no escapes.

Rule: behind a closing marker a token ends the string only if what follows it fits; else a token was forgotten.
Neighbours: `gemma_body` reads with it, `quoted` holds back what stands behind a closing marker.
"""

import functools
import re

from fcshim.parse.end_markers import EndMarkers, compile_end_markers
from fcshim.parse.limits import Limits
from fcshim.parse.literals.quoted import QuotedString, Spelling

_FOLLOWS = re.compile(r"[ \t\r\n]{0,64}(.?)", re.DOTALL)


@functools.lru_cache(maxsize=64)
def _spelling(quote: str, markers: EndMarkers) -> Spelling:
    leads = re.escape(quote[0]) + markers.first_chars
    piece, plain_piece = re.compile(rf'[^"\\\x00-\x1f{leads}]++'), re.compile(f"[^{leads}]++")
    return Spelling(markers, piece.fullmatch, plain_piece.fullmatch)


class GemmaString(QuotedString):
    """One string, read from behind its opening token."""

    def __init__(self, quote: str, markers: EndMarkers, limits: Limits) -> None:
        super().__init__(_spelling(quote, markers), limits)
        self._quote = compile_end_markers((quote,))
        self._markers = markers
        self._long = len(quote)

    def read(self, text: str, pos: int, *, final: bool = False) -> int:
        """Read `text[pos:]` up to the end of the string; `final` says that nothing comes behind the text."""
        self.wait = False
        while pos < len(text) and not (self.wait or self.closed or self.broken):
            found = self._quote.search(text, pos)
            end = found.start() if found is not None else self._quote.partial_start(text, pos)
            if end > pos:
                pos = self._content(text, pos, end)
            elif found is not None:
                pos = self._at_quote(text, pos, final=final)
            else:
                self.wait = True
        return pos

    def _at_quote(self, text: str, pos: int, *, final: bool) -> int:
        end = pos + self._long
        if not self.streams:
            found = _FOLLOWS.match(text, end)
            assert found is not None
            behind = found.start(1)
            if (behind == len(text) or self._markers.is_partial(text, behind)) and not final:
                self.wait = True
                return pos
            if found[1] not in {"", ",", "}", "]", ":"} and not self._markers.marker_at(text, behind):
                self.broken = "a string is not closed"
                return pos
        self.close()
        return end
