"""The end markers of a body, with the patterns that find them inside JSON strings too.

Rule: compiled once per set of markers and cached, not once per body.
"""

import functools
import re

from fcshim.parse.markers import MarkerSet

MAX_RUNS = 4_096
"""Repetitions in one match; the caller continues with a further match. The limit bounds memory, because each repetition
of a group takes some. A possessive group takes none, but before Python 3.11.5 it matches the wrong length:
https://github.com/python/cpython/issues/106052."""


class EndMarkers(MarkerSet):
    r"""The end markers of one body; the set may be empty.

    `string_run` matches content of a JSON string up to the closing quote, a `\u` or invalid escape, a control
    character or an end marker. `plain_run` also stops at any character that can begin an end marker.
    """

    def __init__(self, markers: tuple[str, ...]) -> None:
        super().__init__(markers)
        self.markers = markers
        first_chars = self.first_chars = re.escape("".join(sorted({marker[0] for marker in markers})))
        plain = rf'[^"\\\x00-\x1f{first_chars}]++|\\["\\/bfnrt]'
        non_markers = [_non_marker_char(char, markers) for char in sorted({marker[0] for marker in markers})]
        self.string_run = re.compile(f"(?:{'|'.join([plain, *non_markers])}){{0,{MAX_RUNS}}}")
        self.plain_run = re.compile(f"(?:{plain}){{0,{MAX_RUNS}}}")

    def marker_at(self, text: str, pos: int) -> str:
        """Return the marker at `pos`, or an empty string."""
        found = self.match(text, pos)
        return found[0] if found else ""

    def end_of_marker(self, text: str, pos: int) -> int | None:
        """Return the end of the marker at `pos`: `pos` if there is none, None if more text is needed to tell."""
        found = self.match(text, pos)
        if found is not None:
            return found.end()
        return None if self.is_partial(text, pos) else pos


def _non_marker_char(first_char: str, markers: tuple[str, ...]) -> str:
    """Return a pattern for a character that could begin a marker but does not begin one here."""
    remainders = [re.escape(marker[1:]) for marker in markers if marker[0] == first_char]
    return f"{re.escape(first_char)}(?!{'|'.join(remainders)})"


@functools.lru_cache(maxsize=256)
def compile_end_markers(markers: tuple[str, ...]) -> EndMarkers:
    """Compile a set of end markers, once."""
    return EndMarkers(markers)
