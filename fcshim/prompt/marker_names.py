"""The names of tags and tokens in a text, and which texts have none that could be a marker.

Rule: the test is necessary, not sufficient: it ignores how long a name, a gap or a row of underscores is, and how a tag
ends. Most text has brackets, but few different names after them, so that each name is judged once.
"""

import re
from collections.abc import Iterable, Sequence

# Invisible characters, which a model or a lenient parser ignores.
INVISIBLE = (
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164"
    "\ufe00-\ufe0f\ufeff\uffa0\U000e0000-\U000e007f"
)
_IGNORED = re.compile(rf"[_\-{INVISIBLE}]+")


def name_key(name: str) -> str:
    """Normalise a marker's name for comparison."""
    return _IGNORED.sub("", name).rpartition(":")[2].casefold()


_NAME = rf"[\w:\-{INVISIBLE}]++"
_GAP = rf"[\s_{INVISIBLE}]*+"
_BEFORE_NAME = rf"{_GAP}(?:\\?/{_GAP})?"
_TAG_NAME = rf"{_BEFORE_NAME}({_NAME}|[|｜])"
_OPENINGS = {"<": "<", "＜": "＜", "&": r"&(?i:lt|#0{0,4}60|#x0{0,4}3c);", "\\": r"\\(?i:u003c|x3c)"}
# By their first character: a search for one character takes a tenth of the time of one for a set of characters.
_TAG_NAMES = {first: re.compile(f"{opening}{_TAG_NAME}") for first, opening in _OPENINGS.items()}
_BRACKET_NAMES = re.compile(rf"\[{_BEFORE_NAME}({_NAME})[\s{INVISIBLE}]*+\]")


class MarkerNames:
    """The names of markers: keys of tags and of tokens in square brackets, and how tags begin that have no end.

    A bar begins a token whatever follows it.
    """

    def __init__(self, tags: Iterable[str], brackets: Iterable[str], beginnings: Sequence[str]) -> None:
        self._tags = frozenset(tags)
        self._brackets = frozenset(brackets)
        names = (re.match(_NAME, beginning.lower().lstrip("_")) for beginning in beginnings)
        self._beginnings = tuple({name[0] for name in names if name is not None})

    def may_occur_in(self, text: str) -> bool:
        """Return false only if no marker that begins with a bracket occurs in the text, escaped or not."""
        for first, pattern in _TAG_NAMES.items():
            if first in text and any(map(self._may_begin_tag, set(pattern.findall(text)))):
                return True
        return "[" in text and any(name_key(name) in self._brackets for name in set(_BRACKET_NAMES.findall(text)))

    def _may_begin_tag(self, name: str) -> bool:
        if name in "|｜" or name.lower().startswith(self._beginnings):
            return True
        return name_key(name) in self._tags or not name.isascii()
