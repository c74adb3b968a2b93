"""What surrounds JSON in its body: a fence line or an introduction before it, further calls and trailing text after it.

Rule: a bounded number of characters before the JSON is examined; None means that more text is needed to decide.
Only short trailing text may stand between a complete call and the end marker; without an end marker after it, it is
emitted as text.
"""

import functools
import re
from collections.abc import Callable, Sequence

from fcshim.parse.arguments.entities import QUOTE_ENTITIES
from fcshim.parse.body import TrailingStatus, TrailingText
from fcshim.parse.call_keys import ARGUMENT_KEYS
from fcshim.parse.dialect import Dialect, compiled_call_markers
from fcshim.parse.limits import Limits
from fcshim.parse.markers import EndMarkers

_SPACES = re.compile(r"[ \t\r\n\ufeff]*+")  # also a byte order mark
_SPACE = r"[ \t\r\n\ufeff]{0,64}"
_FENCE = rf"(?:```\w{{0,16}}{_SPACE})?"
_INTRO_LINE = r"[^\s<{\[`｛［][^\n<{\[`｛［]{0,80}"
_NEW_LINE = rf"[ \t]{{0,8}}\r?\n{_SPACE}"
_PLAIN = re.compile(rf"{_SPACE}{_FENCE}(?=[{{\[｛［])")
_PARTIAL_PLAIN = re.compile(rf"{_SPACE}(?:`{{1,2}}|```\w{{0,16}}{_SPACE})?\Z")
_INTRO_AND_JSON = re.compile(rf"{_INTRO_LINE}\n{_SPACE}(?=[{{\[｛［]{_SPACE}[\"'{{“”｛&])")
_PARTIAL_INTRO = re.compile(rf"{_INTRO_LINE}(?:\n{_SPACE}(?:[{{\[｛［]{_SPACE})?)?\Z")
_NEW_LINE_INTRO = re.compile(_NEW_LINE + _INTRO_AND_JSON.pattern)
_PARTIAL_NEW_LINE_INTRO = re.compile(rf"{_NEW_LINE}(?:{_PARTIAL_INTRO.pattern})")
_FENCE_LINE = re.compile(rf"```\w{{0,16}}{_SPACE}(?=[{{\[｛［])")
_PARTIAL_FENCE_LINE = re.compile(rf"(?:`{{1,2}}|```\w{{0,16}}{_SPACE})\Z")
_PARTIAL_QUOTE = r"(?:[\"'“”]|&[#\w]{0,6};?)?"
_PARTIAL_KEY = re.compile(
    rf"{_SPACE}{_FENCE}(?:[\[［]{_SPACE})?(?:[{{｛]{_SPACE}(?:{_PARTIAL_QUOTE}\w{{0,32}}{_PARTIAL_QUOTE}{_SPACE}=?)?)?\Z"
)


def skip_space(text: str, pos: int) -> int:
    """Return the end of the white space at `pos`."""
    found = _SPACES.match(text, pos)
    assert found is not None
    return found.end()


def json_begins(text: str, pos: int, keys: frozenset[str] = frozenset()) -> bool | None:
    """Return whether JSON begins at `pos`, possibly after a prefix; None if more text is needed to decide.

    With `keys`, only an object whose first key is one of them counts.
    """
    if keys:
        return _keyed_json_begins(text, pos, keys)
    if pos < len(text) and text[pos] not in " \t\r\n\ufeff{[`｛［":
        return False
    if _PLAIN.match(text, pos) or _NEW_LINE_INTRO.match(text, pos):
        return True
    return None if _PARTIAL_PLAIN.match(text, pos) or _PARTIAL_NEW_LINE_INTRO.match(text, pos) else False


def _keyed_json_begins(text: str, pos: int, keys: frozenset[str]) -> bool | None:
    if pos < len(text) and text[pos] not in " \t\r\n\ufeff{[`｛［":
        return False
    if _object_with_key(keys).match(text, pos):
        return True
    return None if _PARTIAL_KEY.match(text, pos) or _PARTIAL_PLAIN.match(text, pos) else False


def fence_end(text: str, pos: int) -> int | None:
    """Return the end of a fence line before JSON: `pos` if there is none, None if more text is needed."""
    found = _FENCE_LINE.match(text, pos)
    if found is not None:
        return found.end()
    return None if _PARTIAL_FENCE_LINE.match(text, pos) else pos


def intro_line_end(text: str, pos: int) -> int | None:
    """Return the end of an introductory line before JSON: `pos` if there is none, None if more text is needed."""
    found = _INTRO_AND_JSON.match(text, pos)
    if found is not None:
        return found.end()
    return None if _PARTIAL_INTRO.match(text, pos) else pos


def _named_object_begins(text: str, pos: int, keys: frozenset[str]) -> bool | None:
    """Return whether an object whose first key is one of `keys` begins at `pos`; None if more text is needed."""
    if text[pos : pos + 1] in {"[", "［", "`"}:
        return False
    return _keyed_json_begins(text, pos, keys)


@functools.lru_cache(maxsize=32)
def _object_with_key(keys: frozenset[str]) -> re.Pattern[str]:
    names = "|".join(map(re.escape, sorted(keys)))
    entity = "|".join(map(re.escape, QUOTE_ENTITIES))
    key = rf"(?:([\"']?)(?:{names})\1|[“”](?:{names})”|({entity})(?:{names})\2)"
    return re.compile(rf"{_SPACE}{_FENCE}(?:[\[［]{_SPACE})?[{{｛]{_SPACE}{key}{_SPACE}(?:[:：]|=>)")


_SEPARATOR = re.compile(r"[ \t\r\n]{0,32};[ \t\r\n]{0,32}")
_STRING_END = re.compile(r"[\"'][\s\S]*[}\])]")
_STRING_END_ALONE = re.compile(r"[\"'](?:\S|\s{0,64}[}\])])|\\[nrtu\"'/]\s{0,64}[^\s{\[<]")
"""The end of a string, or an escape, and what follows them in a string: not a line break written out, and a call."""
_PARTIAL_STRING_END = re.compile(r"(?:[\"']|\\[nrtu\"'/]?)\s{0,64}\Z")
_QUOTED_KEY = r"(?:\"[^\"\n]{1,128}\"|'[^'\n]{1,128}'|[\"'][^\"'\n]{1,128}[\"'])"
_PARTIAL_QUOTED_KEY = r"(?:\"[^\"\n]{0,128}\"?|'[^'\n]{0,128}'?|[\"'][^\"'\n]{0,128}[\"']?)"
_MEMBER = re.compile(
    rf"(?:\s{{0,64}}(?:[,，]\s{{0,64}}|(?=[\"']))(?:{_QUOTED_KEY}|\w{{1,64}})"
    rf"|\s{{0,64}}[{{｛]\s{{0,64}}[\"'](?:{'|'.join(ARGUMENT_KEYS)})[\"']"
    r"|[ \t]{0,64}(?:[,，]\s{0,64})?"
    rf"[{{｛]\s{{0,64}}(?![\"']?(?:name|function|type|tool))(?:{_QUOTED_KEY}|\w{{1,64}}))"
    r"\s{0,64}[:：=]"
)
"""A member after the end of the arguments, alone or, in the same line or behind a comma, in an object of its own."""
_SURPLUS_MEMBER = re.compile(rf"[}}\]]?{_MEMBER.pattern}")
_ELLIPSIS = re.compile(r"\s*(?:\.\.|…)")
_OBJECT_AFTER_CALL = re.compile(rf"[}}\]]?\s{{0,64}}[{{｛]\s{{0,64}}(?P<key>{_QUOTED_KEY})\s{{0,64}}[:：]")
"""An object after the end of the arguments: their rest, if its first key is a parameter that has not come yet."""
_PARTIAL_SURPLUS_MEMBER = re.compile(
    rf"[}}\]]?\s{{0,64}}(?:(?:[,，]\s{{0,64}}[{{｛]?|[{{｛])\s{{0,64}}(?:{_PARTIAL_QUOTED_KEY}|\w{{0,64}})\s{{0,64}}"
    rf"|{_PARTIAL_QUOTED_KEY}\s{{0,64}})?\Z"
)
_PARAMETER_TAG = re.compile(r"\s{0,64}<(?:arg_key|arg|param|parameter|argument)[\s=>]")
"""A parameter in tags: the arguments are in both notations."""
_BEFORE_MEMBER = frozenset("}],，{｛\n ")
_PARTIAL_SEPARATOR = re.compile(r"[ \t\r\n]{0,32}(?:;[ \t\r\n]{0,32})?\Z")
_REST_OF_CALL = re.compile(rf"{_SPACE}(?:[,，]|{_QUOTED_KEY}\s{{0,64}}[:：])")
_ESCAPED_KEY = r"&quot;[^\n&]{1,128}&quot;"
_PARTIAL_ESCAPED_KEY = r"&[quot]{0,4}(?:;[^\n&]{0,128}(?:&[quot]{0,4};?)?)?"
_BEFORE_NEXT_MEMBER = rf"{_SPACE}(?:[}}\]]{_SPACE}){{0,8}}(?:[,，]{_SPACE})?"
_NEXT_MEMBER = re.compile(rf"{_BEFORE_NEXT_MEMBER}(?:{_QUOTED_KEY}|{_ESCAPED_KEY})\s{{0,64}}[:：]")
_PARTIAL_NEXT_MEMBER = re.compile(
    rf"{_BEFORE_NEXT_MEMBER}(?:(?:{_PARTIAL_QUOTED_KEY}|{_PARTIAL_ESCAPED_KEY})\s{{0,64}})?\Z"
)
_PARTIAL_REST_OF_CALL = re.compile(rf"{_SPACE}(?:{_PARTIAL_QUOTED_KEY}\s{{0,64}})?\Z")
_GAP_BEFORE_BODY = re.compile(_SPACE)


def continues_in_next_body(text: str, pos: int, openers: Sequence[str]) -> bool | None:
    """Return whether the rest of a call follows at `pos`, also after a start marker; None if more text is needed."""
    if _NEXT_MEMBER.match(text, pos):
        return True
    found = _GAP_BEFORE_BODY.match(text, pos)
    assert found is not None
    at = found.end()
    opener = next((opener for opener in openers if text.startswith(opener, at)), "")
    if not opener:
        partial = any(each.startswith(text[at:]) for each in openers) or _PARTIAL_NEXT_MEMBER.match(text, pos)
        return None if partial else False
    at += len(opener)
    if _REST_OF_CALL.match(text, at):
        return True
    return None if _PARTIAL_REST_OF_CALL.match(text, at) else False


class JsonTrailer:
    """Reads the text after a complete call, up to the next call or the end of the body."""

    def __init__(
        self,
        dialect: Dialect,
        end_markers: EndMarkers,
        limits: Limits,
        lacks_parameter: Callable[[str], bool],
        *,
        name_keys: frozenset[str],
        semicolons: bool,
    ) -> None:
        """Read after a call; another may follow after a semicolon (`semicolons`), or inside the end marker.

        There, white space may separate them, or a comma if the next one begins with one of `name_keys`; without
        `name_keys` none may follow. `lacks_parameter` says whether the call lacks an argument with this name.
        """
        self.wait = False
        self.ended = False
        """True at the end of the body."""
        self.next_call = False
        """True before the next call."""
        self.in_text = False
        """True in text that does not belong to the body."""
        self.unread = ""
        self.has_surplus_bracket = False
        """True where a closing bracket follows the call."""
        self._ends_string = False
        """True where the end of a string and a bracket follow the call, and no end marker is expected."""
        self._has_member = False
        """True where a member follows the call, and no end marker is expected."""
        self._lacks_parameter = lacks_parameter
        self._has_end_marker = dialect.closes_bodies
        self._end_markers = end_markers
        self._limits = limits
        self._name_keys = name_keys
        self._semicolons = semicolons
        self._trailing_text = TrailingText(end_markers, compiled_call_markers(dialect), markup_only=dialect.calls_only)
        """Text after the call, including white space."""

    def feed(self, text: str, pos: int) -> int:
        """Read `text[pos:]`, and return the position reached."""
        self.wait = False
        if self.in_text:
            return self._read_trailing_text(text, pos)
        return self._read_end(text, pos) if self._has_end_marker else self._read_semicolon(text, pos)

    def _read_end(self, text: str, pos: int) -> int:
        start, pos = pos, skip_space(text, pos)
        self._trailing_text.add(text[start:pos])
        if self._trailing_text.size > self._limits.mend:
            self._end_as_text()
        elif pos < len(text):
            comma_end = self._comma_end(text, pos)
            if comma_end != pos:
                self.wait, self.next_call = comma_end is None, comma_end is not None
                return comma_end or pos
            end = self._end_markers.end_of_marker(text, pos)
            self.wait = end is None
            self.ended = end is not None and end > pos
            self.next_call = end == pos and text[pos] == "{" and bool(self._name_keys)
            self.in_text = end == pos and not self.next_call
            self.has_surplus_bracket = text[pos] in "}]"
            return end or pos
        return pos

    def _comma_end(self, text: str, pos: int) -> int | None:
        """Return where the next call begins after a comma at `pos`; `pos` if none does, None if that is not known yet.

        Any other object after a comma, or one whose key the call lacks, may be the rest of its arguments.
        """
        if text[pos] not in ",，" or not self._name_keys:
            return pos
        start = skip_space(text, pos + 1)
        begins = _named_object_begins(text, start, self._name_keys)
        self._has_member = bool(begins) and any(map(self._lacks_parameter, self._name_keys))
        return None if begins is None else start if begins and not self._has_member else pos

    def _read_semicolon(self, text: str, pos: int) -> int:
        self.has_surplus_bracket = self.has_surplus_bracket or text[pos : pos + 1] in {"}", "]"}
        if not self._has_member and text[pos : pos + 1] in _BEFORE_MEMBER:
            self._has_member = _SURPLUS_MEMBER.match(text, pos) is not None or self._has_rest(text, pos)
            self.wait = not self._has_member and _PARTIAL_SURPLUS_MEMBER.match(text, pos) is not None
            if self.wait:
                return pos
        if text[pos] in "\"'\\":
            self._ends_string = _STRING_END_ALONE.match(text, pos) is not None
            self.wait = _PARTIAL_STRING_END.match(text, pos) is not None
            if self.wait:
                return pos
        found = _SEPARATOR.match(text, pos) if self._semicolons else None
        if found is not None and text.startswith("{", found.end()):
            self.next_call = True
            return found.end()
        self.wait = self._semicolons and _PARTIAL_SEPARATOR.match(text, pos) is not None
        self.ended = not self.wait
        return pos

    def _read_trailing_text(self, text: str, pos: int) -> int:
        """Search the end marker after text that does not belong to the body."""
        status, end = self._trailing_text.read(text, pos)
        if status is TrailingStatus.OPEN:
            self.wait = end < len(text)
        elif status is TrailingStatus.TEXT:
            self._end_as_text()
        else:
            self.ended = True
        return end

    def may_end_string(self) -> bool:
        """Return whether the call's last string may end only in the trailing text: `"')"}}'"}}`."""
        return self._ends_string or (self.in_text and _STRING_END.search(self._trailing_text.beginning()) is not None)

    def begins_with_member(self) -> bool:
        """Return whether the trailing text begins with a member, so that the bracket before it may be one too many."""
        text = self._trailing_text.beginning() if self.in_text else ""
        member = _MEMBER.match(text) or _PARAMETER_TAG.match(text)
        return self._has_member or member is not None or self._has_rest(text, 0)

    def begins_with_ellipsis(self) -> bool:
        """Return whether the trailing text begins with an ellipsis, which may stand for arguments."""
        return self.in_text and _ELLIPSIS.match(self._trailing_text.beginning()) is not None

    def _has_rest(self, text: str, pos: int) -> bool:
        """Return whether an object with the rest of the arguments follows; any other one is an invented result."""
        found = _OBJECT_AFTER_CALL.match(text, pos)
        return found is not None and self._lacks_parameter(found["key"][1:-1])

    def _end_as_text(self) -> None:
        self.unread = self._trailing_text.text()
        self.ended = True

    def close(self, tail: str) -> None:
        """End the reply: set `unread`."""
        if self.in_text:
            self.unread = self._trailing_text.text() + tail
        elif len(tail) < 2 or not self._end_markers.is_partial(tail, 0):
            self.unread = tail
