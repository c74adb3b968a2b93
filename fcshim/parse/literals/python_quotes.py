"""Decide while text arrives whether a quote ends a Python string, because models forget to escape quotes.

Theory of operation. A quote ends its string if what follows can follow a value in the open brackets: the next argument
with its equals sign, the next item, or closing brackets and then the same, or the end of the body. Any other quote
leaves the decision to the end of the body (`readings`).

Rule: a bounded look-ahead decides, the same for every split of the text; the answer is None while more text is needed.
"""

import re
from collections.abc import Callable, Iterable, Set
from dataclasses import dataclass

from fcshim.parse.markers import EndMarkers
from fcshim.parse.readings.literals import Follows

LOOK_AHEAD = 256
"""Maximum characters to look at after a quote: a long name and some white space fit."""

_COLON = re.compile(r"\s{0,64}[:：]")
_FAST_CLOSERS = r"(?P<closers>[\])}]{0,8}+)"
_FAST_FOLLOWERS = (
    r"""(?:, ?(?:(?P<argument>(?P<name>[^\W\d]\w{0,40}+)[=:][^=])"""
    r"""|(?P<quote>["'])(?:(?P<key>[\w -]{0,40}+)(?P=quote) ?:|(?P<string>))"""
    r"""|\{(?P<inner>["'])(?P<object>[\w -]{0,40}+)(?P=inner) ?:"""
    r"""|(?P<item>[\[(]|\{(?!(?:["'][\w -]{0,40}+(?:["'] ?)?)?\Z)|-?[0-9]|(?:True|False|None)[,)\]}]))"""
    r"""|(?P<partial>(?:, ?(?:[^\W\d]\w{0,40}+=?|\{?["'][\w -]{0,40}+["']? ?|\{|)|)\Z))"""
)


def fast_string_ends(markers: Iterable[str]) -> str:
    """Return a fast pattern for what usually follows a string's quote, where these markers may end the body.

    The groups: `closers` (brackets), then `argument`, `key`, `object`, `string` and `item` (a comma and the next one;
    `key` and `object` hold the next key), `partial` (the text ends too early to tell).
    """
    return ("(?P<closers>)" if any(marker[0] in "])}" for marker in markers) else _FAST_CLOSERS) + _FAST_FOLLOWERS


_PARTIAL_KEY = re.compile(r"""[\w -]{0,40}+["']? ?\Z""")
PREFIXES = frozenset({"r", "f", "u", "rf", "fr"})
"""String prefixes, in lower case; JSON has no bytes."""


class OuterBrackets:
    """The open brackets around a string; this base class knows none, so that no fast pattern decides."""

    def fast_end(self, _closers: str) -> str:
        """Return the group that ends a string in the bracket which stays open after `closers`; empty for none."""
        return ""

    def admits_key(self, _closers: str, _key: str) -> bool:
        """Return whether the bracket that stays open admits this key next."""
        return False

    def admits_object_with(self, _closers: str, _key: str) -> bool:
        """Return whether the array that stays open admits an object with this key."""
        return False


_NO_BRACKETS = OuterBrackets()


@dataclass(slots=True)
class StringContext:
    """Where a string stands.

    `fast_end` is the group of the fast pattern that ends it, `names` are the arguments that may come (None: any) and
    `seen` those that came. `what_follows` reads the text after the string, in the open brackets (`outer`).
    With `may_be_key` a colon may follow. With `escaped` every quote ends its string, because inner quotes were
    escaped.
    """

    fast_end: str
    names: Set[str] | None
    seen: Set[str]
    what_follows: Callable[[str], Follows]
    may_be_key: bool = False
    escaped: bool = False
    outer: OuterBrackets = _NO_BRACKETS

    def ends_fast(self, found: re.Match[str]) -> bool:
        """Return whether the fast pattern's match shows that the quote ends the string."""
        if found["closers"]:
            return not self.may_be_key and self._ends_before_closers(found)
        group = found.lastgroup
        if group in {"string", "object"}:
            return self.fast_end == "item"
        if group != self.fast_end:
            return False
        return group != "argument" or self.admits_argument(found["name"])

    def _ends_before_closers(self, found: re.Match[str]) -> bool:
        """Return whether what follows after closing brackets can follow in the bracket that stays open."""
        group, closers = found.lastgroup, found["closers"]
        fast_end = self.outer.fast_end(closers)
        if group == "key" and fast_end == group:
            return self.outer.admits_key(closers, found[group])
        if group == "object" and fast_end == "item":
            return self.outer.admits_object_with(closers, found[group])
        if group == "item":
            return fast_end == group and "{" not in found[group]
        return fast_end == "item" if group == "string" else group == fast_end and self.admits_argument(found["name"])

    def admits_argument(self, name: str) -> bool:
        """Return whether an argument may come."""
        return (self.names is None or name in self.names) and name not in self.seen

    def may_be_next_key(self, found: re.Match[str]) -> bool:
        """Return whether the string that the fast pattern matched after the quote may be the next key of a dict."""
        closers = found["closers"]
        fast_end = self.outer.fast_end(closers) if closers else self.fast_end
        partial = fast_end == "key" and found.lastgroup == "string"
        return partial and _PARTIAL_KEY.match(found.string, found.start("string")) is not None

    def ends_string(self, text: str, pos: int, end_markers: EndMarkers, *, final: bool) -> bool | None:
        """Return whether the quote before `text[pos:]` ends its string; None while more text is needed."""
        if self.escaped:
            return True
        marker = end_markers.search(text, pos, pos + LOOK_AHEAD)
        following = text[pos : marker.start() if marker else pos + LOOK_AHEAD]
        closed = marker is not None or (final and pos + len(following) == len(text))
        if self.may_be_key and _COLON.match(following):
            return True
        follows = self.what_follows(following)
        if follows == "next":
            # A shorter text must give the same answer: then a longer one does, too.
            return True if closed or self.what_follows(following[:-1]) == "next" else None
        if closed or len(following) == LOOK_AHEAD:
            return follows == "end"
        return None
