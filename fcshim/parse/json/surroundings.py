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
_PLAIN = re.compile(rf"{_SPACE}{_FENCE}(?=[{{\[｛［])")
_PARTIAL_PLAIN = re.compile(rf"{_SPACE}(?:`{{1,2}}|```\w{{0,16}}{_SPACE})?\Z")
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
    if _PLAIN.match(text, pos):
        return True
    return None if _PARTIAL_PLAIN.match(text, pos) else False


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


_SEPARATOR = re.compile(r"[ \t\r\n]{0,32};[ \t\r\n]{0,32}(?=\{)")
_PARTIAL_SEPARATOR = re.compile(r"[ \t\r\n]{0,32}(?:;[ \t\r\n]{0,32})?\Z")
_NAME_KEY = r"\s{0,64}[\"'“]?(?:name|function|type|tool|\w{0,8}\Z)"
"""The first key of another call, or what may become one."""
_REST_OF_CALL = re.compile(
    rf"""[\s}}\]｝］]{{0,64}}(?:
        [,，:：=]\s{{0,64}}(?:[^\s<{{｛]|[{{｛](?!{_NAME_KEY}))       # a further member, also in an object of its own
      | (?:["'“]|&quot;)(?:                                       # a key, a string's end
            [^"'“”&\n]{{1,128}}(?:["'”]|&quot;)\s{{0,64}}[:：] | \s{{0,64}}[,}}\])]
        )
      | \\                                                       # an escape in a string
      | <(?:arg|param)                                            # a parameter in tags
      | [{{｛]\s{{0,64}}["'](?:{"|".join(ARGUMENT_KEYS)})["']     # the arguments behind the call
    ) | [ \t}}\]]{{0,64}}[{{｛](?!{_NAME_KEY})                     # an object in the same line
    """,
    re.VERBOSE,
)
"""What begins like a part of the call that precedes it: a bracket of the call may stand too early."""
_PARTIAL_REST_OF_CALL = re.compile(
    r"[\s}\]｝］]{0,64}(?:<[a-z]{0,4}|(?:[,，:：=]\s{0,64})?(?:[{｛]\s{0,64}[\"'“]?\w{0,16})?"
    r"|(?:[\"'“]|&[quot]{0,4};?)[^\"'“”&\n]{0,128}(?:[\"'”]|&[quot]{0,4};?)?\s{0,64})\Z"
)
_STRING_END = re.compile(r"[\"'][\s\S]*[}\])]")
_OBJECT_AFTER_CALL = re.compile(r"\s{0,64}[{｛]\s{0,64}[\"'“](?P<key>[^\"'“”\n]{1,128})[\"'”]")
_PARTIAL_OBJECT = re.compile(r"\s{0,64}(?:[{｛]\s{0,64}(?:[\"'“][^\"'“”\n]{0,128})?)?\Z")


def continues_in_next_body(text: str, pos: int, openers: Sequence[str]) -> bool | None:
    """Return whether the rest of a call follows at `pos`, also after a start marker; None if more text is needed."""
    at = skip_space(text, pos)
    opener = next((opener for opener in openers if text.startswith(opener, at)), "")
    if not opener and any(each.startswith(text[at:]) for each in openers):
        return None
    at = skip_space(text, at + len(opener))
    return False if text[at : at + 1] in {"{", "｛"} else _is_rest_of_call(text, at)


def _is_rest_of_call(text: str, pos: int) -> bool | None:
    return _REST_OF_CALL.match(text, pos) is not None or (None if _PARTIAL_REST_OF_CALL.match(text, pos) else False)


class JsonTrailer:
    """Reads the text after a complete call, up to the next call or the end of the body."""

    def __init__(
        self,
        dialect: Dialect,
        end_markers: EndMarkers,
        limits: Limits,
        continues_call: Callable[[str], bool],
        *,
        name_keys: frozenset[str],
        semicolons: bool,
    ) -> None:
        """Read after a call; another may follow after a semicolon (`semicolons`), or inside the end marker.

        There, white space may separate them, or a comma if the next one begins with one of `name_keys`; without
        `name_keys` none may follow. `continues_call` says whether an object with this key, behind the call, may be a
        part of it.
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
        self.has_rest = False
        """True where what follows the call may be a part of it."""
        self._continues_call = continues_call
        self._has_end_marker = dialect.closes_bodies
        self._end_markers = end_markers
        self._limits = limits
        self._name_keys = name_keys
        self._semicolons = semicolons
        self._trailing_text = TrailingText(
            end_markers, compiled_call_markers(dialect), markup_only=dialect.call.without_text
        )
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
        if self._trailing_text.size > self._limits.search:
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
        self.has_rest = bool(begins) and any(map(self._continues_call, self._name_keys))
        return None if begins is None else start if begins and not self.has_rest else pos

    def _read_semicolon(self, text: str, pos: int) -> int:
        self.has_surplus_bracket = self.has_surplus_bracket or text[pos] in "}]"
        found = _SEPARATOR.match(text, pos) if self._semicolons else None
        rest = found is None and _is_rest_of_call(text, pos)
        if found is not None:
            self.next_call = True
            return found.end()
        self.wait = rest is None or _PARTIAL_OBJECT.match(text, pos) is not None
        self.wait = self.wait or (self._semicolons and _PARTIAL_SEPARATOR.match(text, pos) is not None)
        self.has_rest = bool(rest) or self._holds_argument(text, pos)
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

    def may_belong_to_call(self, *, ends_with_string: bool) -> bool:
        """Return whether what follows the call may be a part of it, for example of the string with which it ends."""
        text = self._trailing_text.beginning() if self.in_text else ""
        is_rest = _REST_OF_CALL.match(text) or (ends_with_string and _STRING_END.search(text))
        return self.has_rest or bool(is_rest) or self._holds_argument(text, 0)

    def _holds_argument(self, text: str, pos: int) -> bool:
        """Return whether an object with the rest of the arguments follows; any other one is an invented result."""
        found = _OBJECT_AFTER_CALL.match(text, pos)
        return found is not None and self._continues_call(found["key"])

    def _end_as_text(self) -> None:
        self.unread = self._trailing_text.text()
        self.ended = True

    def close(self, tail: str) -> None:
        """End the reply: set `unread`."""
        if self.in_text:
            self.unread = self._trailing_text.text() + tail
        elif len(tail) < 2 or not self._end_markers.is_partial(tail, 0):
            self.unread = tail
