"""The markers that may end a body, as its reader looks for them: inside strings, too.

Rule: made once per set of markers, whatever number of bodies they end.
Neighbours: `markers` searches them, `arguments.strict` passes over strings up to them, the body readers end at them.
"""

import functools
import re

from fcshim.parse.markers import MarkerSet

MOST_RUNS = 4_096
"""Repetitions of one search, which is continued after them: each takes memory. (A possessive group takes none, but
before Python 3.11.5 it ends in the wrong place: https://github.com/python/cpython/issues/106052.)"""


class Closers(MarkerSet):
    """The closing markers of one body; there may be none.

    `run` matches what goes on inside a JSON string: neither its end, nor an escape that needs a look, nor a closing
    marker. `piece` matches the same without any character that may begin a marker.
    """

    def __init__(self, markers: tuple[str, ...]) -> None:
        super().__init__(markers)
        self.markers = markers
        leads = self.leads = re.escape("".join(sorted({marker[0] for marker in markers})))
        plain = rf'[^"\\\x00-\x1f{leads}]++|\\["\\/bfnrt]'
        decoys = [_decoy(lead, markers) for lead in sorted({marker[0] for marker in markers})]
        self.run = re.compile(f"(?:{'|'.join([plain, *decoys])}){{0,{MOST_RUNS}}}")
        self.piece = re.compile(f"(?:{plain}){{0,{MOST_RUNS}}}")

    def at(self, text: str, pos: int) -> str:
        """Give the marker that stands at `pos`, or an empty string."""
        found = self.match(text, pos)
        return found[0] if found else ""

    def passed(self, text: str, pos: int) -> int | None:
        """Give the end of the marker that stands at `pos`: `pos` where there is none, None if that is not known yet."""
        found = self.match(text, pos)
        if found is not None:
            return found.end()
        return None if self.begun(text, pos) else pos


def _decoy(lead: str, markers: tuple[str, ...]) -> str:
    rests = [re.escape(marker[1:]) for marker in markers if marker[0] == lead]
    return f"{re.escape(lead)}(?!{'|'.join(rests)})"


@functools.lru_cache(maxsize=256)
def closers(markers: tuple[str, ...]) -> Closers:
    """Give the closers of these markers."""
    return Closers(markers)
