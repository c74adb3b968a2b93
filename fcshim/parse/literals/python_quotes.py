"""Decide while text arrives whether a quote ends a Python string, because models forget to escape quotes.

Theory of operation. A quote ends its string if what follows can follow a value in the open brackets: the next argument
with its equals sign, the next item, or closing brackets and then the same, or the end of the body. Any other quote
leaves the decision to the end of the body (`literal_quotes`).

Rule: a bounded look-ahead decides, the same for every split of the text; the answer is None while more text is needed.
"""

import re
from collections.abc import Callable, Set
from dataclasses import dataclass

from fcshim.parse.arguments.quoted_content import Follows
from fcshim.parse.literals.literal_quotes import LiteralQuoteEscaper
from fcshim.parse.markers import EndMarkers

LOOK_AHEAD = 256
"""Maximum characters to look at after a quote: a long name and some white space fit."""

_COLON = re.compile(r"\s{0,64}[:：]")
FAST_STRING_ENDS = (
    r"""(?P<argument>, ?(?P<name>[^\W\d]\w{0,40}+)[=:][^=])|(?P<key>, ?(?:"[\w -]{0,40}+"|'[\w -]{0,40}+') ?:)"""
    r"""|(?P<string>, ?["'])|(?P<item>, ?(?:[\[({]|-?[0-9]|(?:True|False|None)[,)\]}]))"""
    r"""|(?P<partial>(?:, ?(?:[^\W\d]\w{0,40}+=?|["'][\w -]{0,40}+["']? ?)?)?\Z)"""
)
"""Fast pattern for what usually follows a string's quote.

The groups: `argument`, `key`, `string` and `item` (a comma and the next one), `partial` (the text ends too early to
tell).
"""
_PARTIAL_KEY = re.compile(r""", ?["'][\w -]{0,40}+["']? ?\Z""")
PREFIXES = frozenset({"r", "b", "f", "u", "rb", "br", "rf", "fr"})
"""String prefixes, in lower case."""


@dataclass(slots=True)
class StringContext:
    """Where a string stands.

    `fast_end` is the group of the fast pattern that ends it, `names` are the arguments that may come (None: any) and
    `seen` those that came. `escaper` makes the scanner of the text after the string, in the open brackets. With
    `may_be_key` a colon may follow. With `escaped` every quote ends its string, because inner quotes were escaped.
    """

    fast_end: str
    names: Set[str] | None
    seen: Set[str]
    escaper: Callable[[str], LiteralQuoteEscaper]
    may_be_key: bool = False
    escaped: bool = False

    def ends_fast(self, found: re.Match[str]) -> bool:
        """Return whether the fast pattern's match shows that the quote ends the string."""
        group = found.lastgroup
        if group == "string":
            return self.fast_end == "item"
        if group != self.fast_end:
            return False
        return group != "argument" or (
            (self.names is None or found["name"] in self.names) and found["name"] not in self.seen
        )

    def may_be_next_key(self, found: re.Match[str]) -> bool:
        """Return whether the string that the fast pattern matched after the quote may be the next key of a dict."""
        partial = self.fast_end == "key" and found.lastgroup == "string"
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
        follows = self.escaper(following).follows(0)
        if follows is Follows.NEXT:
            # A shorter text must give the same answer: then a longer one does, too.
            return True if closed or self.escaper(following[:-1]).follows(0) is Follows.NEXT else None
        if closed or len(following) == LOOK_AHEAD:
            return follows is Follows.END
        return None
