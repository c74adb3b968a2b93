"""Decide what a marker inside a value is: its end, or content that looks like markup.

Theory of operation. A closing tag ends the value only if another parameter or the end of the call follows. Markers
inside a complete call that the value quotes are content. Where the closing tag is missing, the opening of another
parameter ends the value if the tool has that parameter, it was not given yet, and its own closing tag does not show
that the pair is quoted. Where both readings are possible, the role is `ambiguous`: the call must not run.

Rule: the role of a marker depends only on a bounded number of characters after it, never on how the text was split
(`MoreNeeded` is raised before anything is counted).
"""

from collections.abc import Set as AbstractSet
from typing import Literal

from fcshim.parse.scanner import MoreNeeded, Scanner
from fcshim.parse.tagged.damage import begins_like_opening
from fcshim.parse.tagged.markup import CallMarkup
from fcshim.parse.tagged.tag_reading import MarkerKind, NamedTag

MarkerRole = Literal["end", "before", "content", "drop", "ambiguous"]
"""What a marker does: it closes the value, it follows the value, it is content, it is superfluous, or its role is
unknown."""
_LOOK_AHEAD = 512
"""Characters after a parameter's opening in which its closing tag is looked for."""
_SHORTEST_TAG = 3
"""Shorter closing tags (of a custom dialect) are characters that content may have."""
_MAX_REPEATED = 4
"""Closing tags in a row that are looked at."""


class MarkerRoles:
    """Classifies the markers of one value; `seen_keys` are the keys so far, the last of them is this value's own."""

    def __init__(self, markup: CallMarkup, key: str, seen_keys: AbstractSet[str]) -> None:
        self._markup = markup
        self._compiled = markup.compiled
        self._key = key
        self._seen_keys = seen_keys
        self.quoted_depth = 0
        """Number of open calls that the value quotes."""
        self.quotes_call = False
        self.open_tags = 0
        """Number of openings that are content, without their closing tags: those that this value's own tag closes."""
        self.stray_closers = 0
        """Number of closing tags that are content, without their openings."""
        self.has_closers = False
        """True where a closing tag of a parameter or call is content: the value must end with its own closing tag."""
        self.opening_end = 0
        """The end of a doubled opening, which is dropped."""

    def classify(self, text: str, start: int, marker: str, *, empty: bool, may_end: bool | None) -> MarkerRole:
        """Return the role of the marker at `start`.

        `empty` says that the value has no text yet; `may_end` says whether JSON may end here, None for a string.
        """
        if self._compiled.value_markers.is_partial(text, start):
            raise MoreNeeded
        self.opening_end = 0
        end, at = start + len(marker), start + (marker[0] == "\n")
        kind = self._compiled.value_marker_kinds[marker]
        if kind in {"call", "open"}:
            if self._compiled.read_confirmed_call(text, at if kind == "call" else end) is not None:
                self.quoted_depth += 1
                self.quotes_call = True
            return "content"
        if self.quoted_depth:
            self.quoted_depth -= kind == ("call_close" if self._compiled.tags.call.head else "close")
            return "content"
        if kind == "parameter":
            return self._classify_parameter(text, at, on_new_line=at > start, empty=empty, may_end=may_end)
        if kind == "value_close":
            return self._classify_value_close(text, end, is_text=may_end is None)
        return self._classify_closing(kind, text, end)

    # Closing tags.

    def _classify_value_close(self, text: str, end: int, *, is_text: bool) -> MarkerRole:
        count, is_followed = self._closers_after(text, end)
        if is_followed and not count:
            return "end"
        if is_followed and not self.open_tags:
            return "ambiguous" if is_text else "drop"
        prefix, after = self._compiled.tags.parameter.prefix, self._compiled.skip_space(text, end)
        opens = not is_followed and len(prefix) >= _SHORTEST_TAG and begins_like_opening(text, after, prefix)
        self.has_closers |= not is_followed
        if self.open_tags:
            self.open_tags -= 1
        else:
            self.stray_closers += 1
        return "ambiguous" if opens else "content"

    def _closers_after(self, text: str, end: int) -> tuple[int, bool]:
        """Return the number of further closing tags after a closing tag, and whether markup follows them."""
        close = self._compiled.tags.parameter_close
        for count in range(_MAX_REPEATED):
            scan = Scanner(text, self._compiled.skip_space(text, end))
            if self._markup.kind_at(text, scan.pos) is not None:
                return count, True
            if len(close) < _SHORTEST_TAG or not scan.skip(close):
                return count, False
            end = scan.pos
        return _MAX_REPEATED, False

    def _classify_closing(self, kind: MarkerKind, text: str, end: int) -> MarkerRole:
        following = self._markup.kind_after_space(text, end)
        if following in {"call", "open"} or (kind == "call_close" and following == "close"):
            return "before"
        self.has_closers |= kind == "call_close"
        return "content"

    # Openings of further parameters.

    def _classify_parameter(
        self, text: str, at: int, *, on_new_line: bool, empty: bool, may_end: bool | None
    ) -> MarkerRole:
        found = self._markup.read_parameter(text, at)
        if found is None:
            return "content"
        role: MarkerRole
        # The tool has this parameter; if its parameters are not known, a line begins with it.
        may_follow = found.name in self._markup.keys if self._markup.keys else on_new_line or empty
        if found.name == self._key and empty:
            role = "ambiguous" if may_end is None else "drop"
            self.opening_end = found.end
        elif found.name in self._seen_keys or not may_follow:
            role = "content"
        elif may_end is not None:
            role = "ambiguous" if empty else "before" if may_end else "content"
        elif found.is_unclosed or found.is_empty:
            role = "before"
        else:
            role = self._role_before_closer(text, found, on_new_line=on_new_line)
        if role == "content":
            self.open_tags += found.close in {"", self._compiled.tags.parameter_close}
        return role

    def _role_before_closer(self, text: str, found: NamedTag, *, on_new_line: bool) -> MarkerRole:
        """Decide by the next marker: a closing tag that further content follows shows that the pair is quoted."""
        limit, markers = found.end + _LOOK_AHEAD, self._compiled.value_markers
        closer = markers.search(text, found.end, limit)
        if closer is None or markers.is_partial(text, closer.start()):
            if len(text) < limit:
                raise MoreNeeded
        elif self._compiled.value_marker_kinds[closer[0]] == "value_close":
            return "content" if self._markup.kind_after_space(text, closer.end()) is None else "before"
        return "before" if on_new_line else "ambiguous"
