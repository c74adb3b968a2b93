"""Decide what a marker inside a value is: its end, or content that looks like markup.

Theory of operation. A closing tag ends the value only if another parameter or the end of the call follows. Markers
inside a complete call that the value quotes are content. Where the closing tag is missing, the opening of another
parameter ends the value if the tool has that parameter, it was not given yet, and its own closing tag does not show
that the pair is quoted. Where both readings are possible, the role is `ambiguous`: the call must not run.

Rule: the role of a marker depends only on a bounded number of characters after it, never on how the text was split.
"""

from collections.abc import Set as AbstractSet
from typing import Literal

from fcshim.parse.tagged.damage import begins_like_opening
from fcshim.parse.tagged.markup import BetweenKind, CallMarkup
from fcshim.parse.tagged.tags import MarkerKind, NamedTag

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

    def classify(self, text: str, start: int, marker: str, *, empty: bool, may_end: bool | None) -> MarkerRole | None:
        """Return the role of the marker at `start`; None where more text is needed.

        `empty` says that the value has no text yet; `may_end` says whether JSON may end here, None for a string.
        """
        if self._compiled.value_markers.is_partial(text, start):
            return None
        self.opening_end = 0
        end = start + len(marker)
        at = start + (marker[0] == "\n")
        kind = self._compiled.value_marker_kinds[marker]
        if kind in {"call", "open"}:
            return self._classify_opening(text, at if kind == "call" else end)
        if self.quoted_depth:
            return self._classify_in_quoted_call(kind)
        if kind == "parameter":
            return self._classify_parameter(text, at, on_new_line=at > start, empty=empty, may_end=may_end)
        if kind == "value_close":
            return self._classify_value_close(text, end, is_text=may_end is None)
        return self._classify_closing(kind, self._markup.kind_after_space(text, end))

    # Closing tags.

    def _classify_value_close(self, text: str, end: int, *, is_text: bool) -> MarkerRole | None:
        next_kind = self._kind_after_closers(text, end)
        if next_kind is None:
            return None
        if next_kind == "repeated":
            return self._classify_repeated(is_text=is_text)
        if next_kind:
            return "end"
        prefix, after = self._compiled.tags.parameter.prefix, self._compiled.skip_space(text, end)
        opens = len(prefix) >= _SHORTEST_TAG and begins_like_opening(text, after, prefix)
        if opens is None:
            return None
        self._count_closer()
        return "ambiguous" if opens else "content"

    def _classify_repeated(self, *, is_text: bool) -> MarkerRole:
        """Classify a closing tag that others follow, up to markup: it closes what is quoted, or it is doubled."""
        if self.open_tags:
            self.open_tags -= 1
            return "content"
        return "ambiguous" if is_text else "drop"

    def _kind_after_closers(self, text: str, end: int) -> BetweenKind | Literal[False, "repeated"] | None:
        """Return the kind of the markup after a closing tag, `repeated` if further closing tags precede it."""
        close = self._compiled.tags.parameter_close
        for count in range(_MAX_REPEATED):
            at = self._compiled.skip_space(text, end)
            kind = self._markup.kind_at(text, at)
            if kind is not False:
                return "repeated" if count and kind else kind
            if len(close) < _SHORTEST_TAG:
                return False
            if not text.startswith(close, at):
                return None if close.startswith(text[at:]) else False
            end = at + len(close)
        return False

    def _count_closer(self) -> None:
        self.has_closers = True
        if self.open_tags:
            self.open_tags -= 1
        else:
            self.stray_closers += 1

    def _classify_closing(self, kind: MarkerKind, next_kind: BetweenKind | Literal[False] | None) -> MarkerRole | None:
        if next_kind is None:
            return None
        if kind == "call_close":
            ends = next_kind in {"close", "call", "open"}
            self.has_closers |= not ends
            return "before" if ends else "content"
        return "before" if next_kind in {"call", "open"} else "content"

    # Quoted calls.

    def _classify_opening(self, text: str, at: int) -> MarkerRole | None:
        found = self._compiled.read_confirmed_call(text, at)
        if found:
            self.quoted_depth += 1
            self.quotes_call = True
        return None if found is None else "content"

    def _classify_in_quoted_call(self, kind: MarkerKind) -> MarkerRole:
        if kind == ("call_close" if self._compiled.tags.call.head else "close"):
            self.quoted_depth -= 1
        return "content"

    # Openings of further parameters.

    def _classify_parameter(
        self, text: str, at: int, *, on_new_line: bool, empty: bool, may_end: bool | None
    ) -> MarkerRole | None:
        found = self._markup.read_parameter(text, at)
        if found is None:
            return None
        role: MarkerRole | None = "content"
        if found and found.name == self._key and empty:
            role = "ambiguous" if may_end is None else "drop"
            self.opening_end = found.end
        elif found and self._may_follow(found.name, on_new_line=on_new_line or empty):
            role = self._classify_next(text, found, on_new_line=on_new_line, empty=empty, may_end=may_end)
        if found and role == "content":
            self.open_tags += found.close in {"", self._compiled.tags.parameter_close}
        return role

    def _may_follow(self, name: str, *, on_new_line: bool) -> bool:
        """Return whether a parameter can follow: the tool has it, and it was not given yet."""
        return name not in self._seen_keys and (name in self._markup.keys if self._markup.keys else on_new_line)

    def _classify_next(
        self, text: str, found: NamedTag, *, on_new_line: bool, empty: bool, may_end: bool | None
    ) -> MarkerRole | None:
        if may_end is not None:
            return "ambiguous" if empty else "before" if may_end else "content"
        if found.is_unclosed or found.is_empty:
            return "before"
        return self._role_before_closer(text, found, on_new_line=on_new_line)

    def _role_before_closer(self, text: str, found: NamedTag, *, on_new_line: bool) -> MarkerRole | None:
        """Decide by the next marker: a closing tag that further content follows shows that the pair is quoted."""
        limit = found.end + _LOOK_AHEAD
        next_marker = self._compiled.value_markers.search(text, found.end, limit)
        if next_marker is None or self._compiled.value_markers.is_partial(text, next_marker.start()):
            return None if len(text) < limit else "before" if on_new_line else "ambiguous"
        if self._compiled.value_marker_kinds[next_marker[0]] == "value_close":
            kind = self._markup.kind_after_space(text, next_marker.end())
            return None if kind is None else "before" if kind else "content"
        return "before" if on_new_line else "ambiguous"
