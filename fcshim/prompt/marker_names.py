"""The names of tags and tokens in a text, and which texts have none that could be a marker.

Rule: the test is necessary, not sufficient: it ignores how long a name, a gap or a row of underscores is, and how a tag
ends. Most text has brackets, but few different names after them, so that each name is judged once, and the names that
cannot be a marker's are remembered, up to a limit.
"""

import itertools
import re
from collections.abc import Callable, Iterable, Sequence

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
_SKIPPED = rf"[\s_/\\{INVISIBLE}]*+"
"""A gap, a slash and a gap as one class: most of the time is spent here. It may skip an opening with a backslash."""
_TAG_NAME = rf"{_SKIPPED}([\w:\-|｜{INVISIBLE}]++)"
_TAG_NAMES = {
    "<": f"<{_TAG_NAME}",
    "＜": f"＜{_TAG_NAME}",
    "&": rf"&(?i:lt|#0{{0,4}}60|#x0{{0,4}}3c);{_TAG_NAME}",
    "\\": rf"\\(?i:u003c|x3c){_BEFORE_NAME}([\w:\-|｜{INVISIBLE}]++)",
}
# By their first character: a search for one character takes a tenth of the time of one for a set of characters.
_FIND_TAG_NAMES = {first: re.compile(pattern).findall for first, pattern in _TAG_NAMES.items()}


_MAX_NAMES, _MAX_LENGTH = 4_096, 64
"""How many ordinary names are remembered, and how long they may be: some 0.5 MB, and more than a conversation has."""


class MarkerNames:
    """The names of markers: keys of tags and of tokens in square brackets, and how tags begin that have no end.

    A bar begins a token whatever follows it.
    """

    def __init__(self, tags: Iterable[str], brackets: Iterable[str], beginnings: Sequence[str]) -> None:
        self._tags = frozenset(tags)
        self._brackets = frozenset(brackets)
        names = (re.match(_NAME, beginning.lower().lstrip("_")) for beginning in beginnings)
        self._beginnings = tuple({name[0] for name in names if name is not None})
        # Numbers (`x[0]`, the times of a log) are in brackets in all text, and each would be another name to remember.
        no_number = "" if any(key.isdecimal() for key in self._brackets) else r"(?!\d++[\s\]])"
        self._find_brackets = re.compile(rf"\[{_SKIPPED}{no_number}({_NAME})[\s{INVISIBLE}]*+\]").findall
        self._ordinary_tags = OrdinaryNames(self._may_begin_tag)
        self._ordinary_brackets = OrdinaryNames(lambda name: name_key(name) in self._brackets)

    def may_occur_in(self, text: str) -> bool:
        """Return false only if no marker that begins with a bracket occurs in the text, escaped or not."""
        for first, find_names in _FIND_TAG_NAMES.items():
            if first in text and not self._ordinary_tags.contain(find_names(text)):
                return True
        return "[" in text and not self._ordinary_brackets.contain(self._find_brackets(text))

    def _may_begin_tag(self, name: str) -> bool:
        name = name.partition("|")[0]
        if not name or not name.isascii() or name.lower().startswith(self._beginnings):
            return True
        return name_key(name) in self._tags


class OrdinaryNames:
    """Names that are known not to be markers; `may_be_marker` judges a new one."""

    def __init__(self, may_be_marker: Callable[[str], bool]) -> None:
        self._may_be_marker = may_be_marker
        self._known: set[str] = set()

    def contain(self, names: Sequence[str]) -> bool:
        """Return whether all names are ordinary."""
        if self._known.issuperset(names):
            return True
        new = set(names) - self._known
        if any(map(self._may_be_marker, new)):
            return False
        if len(self._known) + len(new) > _MAX_NAMES:
            self._known.clear()
        self._known.update(name for name in itertools.islice(new, _MAX_NAMES) if len(name) <= _MAX_LENGTH)
        return True
