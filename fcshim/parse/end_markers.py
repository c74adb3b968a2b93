"""The markers that may end a body, as its reader looks for them: inside strings, too.

Rule: made once per set of markers, whatever number of bodies they end.
Neighbours: `markers` searches them, `arguments.strict` passes over strings up to them, the body readers end at them.
"""

import functools
import re

from fcshim.parse.markers import MarkerSet

MAX_RUNS = 4_096
"""Repetitions of one search, which is continued after them: each takes memory. (A possessive group takes none, but
before Python 3.11.5 it ends in the wrong place: https://github.com/python/cpython/issues/106052.)"""


class EndMarkers(MarkerSet):
    """The closing markers of one body; there may be none.

    `run` matches what goes on inside a JSON string: neither its end, nor an escape that needs a look, nor a closing
    marker. `piece` matches the same without any character that may begin a marker.
    """

    def __init__(self, markers: tuple[str, ...]) -> None:
        super().__init__(markers)
        self.markers = markers
        leads = self.first_chars = re.escape("".join(sorted({marker[0] for marker in markers})))
        plain = rf'[^"\\\x00-\x1f{leads}]++|\\["\\/bfnrt]'
        decoys = [_non_marker_char(lead, markers) for lead in sorted({marker[0] for marker in markers})]
        self.string_run = re.compile(f"(?:{'|'.join([plain, *decoys])}){{0,{MAX_RUNS}}}")
        self.plain_run = re.compile(f"(?:{plain}){{0,{MAX_RUNS}}}")

    def marker_at(self, text: str, pos: int) -> str:
        """Give the marker that stands at `pos`, or an empty string."""
        found = self.match(text, pos)
        return found[0] if found else ""

    def end_of_marker(self, text: str, pos: int) -> int | None:
        """Give the end of the marker that stands at `pos`: `pos` where there is none, None if that is not known yet."""
        found = self.match(text, pos)
        if found is not None:
            return found.end()
        return None if self.is_partial(text, pos) else pos


def _non_marker_char(first_char: str, markers: tuple[str, ...]) -> str:
    rests = [re.escape(marker[1:]) for marker in markers if marker[0] == first_char]
    return f"{re.escape(first_char)}(?!{'|'.join(rests)})"


@functools.lru_cache(maxsize=256)
def compile_end_markers(markers: tuple[str, ...]) -> EndMarkers:
    """Give the closers of these markers."""
    return EndMarkers(markers)
