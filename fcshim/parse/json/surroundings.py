"""What surrounds JSON in its body: a fence line or an introduction before it, further calls and trailing text after it.

Rule: a bounded number of characters before the JSON is examined; None means that more text is needed to decide.
Only short trailing text may stand between a complete call and the end marker; without an end marker after it, it is
emitted as text.
"""

import re
from collections.abc import Callable, Sequence
from typing import Literal

from fcshim.parse.arguments.entities import QUOTE_ENTITIES
from fcshim.parse.body import TrailingStatus, TrailingText
from fcshim.parse.call_keys import ARGUMENT_KEYS
from fcshim.parse.dialect import Dialect, compiled_call_markers
from fcshim.parse.json.call import JsonCalls
from fcshim.parse.limits import Limits
from fcshim.parse.markers import EndMarkers

_SPACES = re.compile(r"[ \t\r\n\ufeff]*+")  # also a byte order mark
_SPACE = r"[ \t\r\n\ufeff]{0,64}"
_FENCE = rf"(?:```\w{{0,16}}{_SPACE}|(?:`{{1,2}})?\Z|)"
_BRACKET = re.compile(rf"{_SPACE}{_FENCE}(?:\Z|(?P<bracket>[{{\[｛［]))")
"""The bracket with which JSON begins, or the end of the text before it."""
_FIRST_KEY = re.compile(
    rf"""{_SPACE}{_FENCE}(?:[\[［]{_SPACE})?(?:\Z|[{{｛]{_SPACE}
    (?P<quote>["'“”]|&[\#\w]{{1,6}};|)(?P<key>\w{{0,32}})(?P<close>["'”]|&[\#\w]{{1,6}};|){_SPACE}
    (?:(?:&[\#\w]{{0,6}}|=)?\Z|(?P<colon>[:：]|=>)))""",
    re.VERBOSE,
)
"""The first key of an object, also in an array, up to its colon; or the end of the text before that."""
_QUOTE_ENDS = {quote: quote for quote in ("", '"', "'", *QUOTE_ENTITIES)} | {"“": "”", "”": "”"}


def skip_space(text: str, pos: int) -> int:
    """Return the end of the white space at `pos`."""
    found = _SPACES.match(text, pos)
    assert found is not None
    return found.end()


def json_begins(text: str, pos: int, keys: frozenset[str] = frozenset()) -> bool | None:
    """Return whether JSON begins at `pos`, possibly after a prefix; None if more text is needed to decide.

    With `keys`, only an object whose first key is one of them counts.
    """
    if pos < len(text) and text[pos] not in " \t\r\n\ufeff{[`｛［":
        return False
    found = (_FIRST_KEY if keys else _BRACKET).match(text, pos)
    if found is None:
        return False
    if found.lastgroup not in {"bracket", "colon"}:
        return None
    return not keys or (found["key"] in keys and _QUOTE_ENDS.get(found["quote"]) == found["close"])


def fence_end(text: str, pos: int) -> int | None:
    """Return the end of a fence line before JSON: `pos` if there is none, None if more text is needed."""
    found = _BRACKET.match(text, pos)
    if found is None:
        return pos
    return None if found["bracket"] is None else found.start("bracket")


_SEPARATOR = re.compile(r"[ \t\r\n]{0,32}(?:\Z|;[ \t\r\n]{0,32}(?:\Z|(?P<next>(?=\{))))")
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
      | \s{{0,64}}[{{｛]\s{{0,64}}["'“](?P<key>[^"'“”\n]{{1,128}})["'”]    # an object that may have arguments
    """,
    re.VERBOSE,
)
"""What begins like a part of the call that precedes it: a bracket of the call may stand too early."""
_PARTIAL_REST_OF_CALL = re.compile(
    r"[\s}\]｝］]{0,64}(?:<[a-z]{0,4}|(?:[,，:：=]\s{0,64})?(?:[{｛]\s{0,64}(?:\w{0,16}|[\"'“][^\"'“”\n]{0,128}))?"
    r"|(?:[\"'“]|&[quot]{0,4};?)[^\"'“”&\n]{0,128}(?:[\"'”]|&[quot]{0,4};?)?\s{0,64})\Z"
)
_CLOSERS = frozenset("}])")


def continues_in_next_body(text: str, pos: int, openers: Sequence[str]) -> bool | None:
    """Return whether the rest of a call follows at `pos`, also after a start marker; None if more text is needed."""
    at = skip_space(text, pos)
    opener = next((opener for opener in openers if text.startswith(opener, at)), "")
    if not opener and any(each.startswith(text[at:]) for each in openers):
        return None
    at = skip_space(text, at + len(opener))
    return False if text[at : at + 1] in {"{", "｛"} else _is_rest_of_call(text, at, lambda _key: False)


def _is_rest_of_call(text: str, pos: int, has_argument: Callable[[str], bool]) -> bool | None:
    """Return whether the rest of a call follows; `has_argument` says whether an object with this key may be one."""
    found = _REST_OF_CALL.match(text, pos)
    if found is not None:
        return found["key"] is None or has_argument(found["key"])
    return None if _PARTIAL_REST_OF_CALL.match(text, pos) else False


class JsonTrailer:
    """Reads the text after a complete call, up to the next call or the end of the body."""

    def __init__(
        self,
        dialect: Dialect,
        end_markers: EndMarkers,
        limits: Limits,
        calls: JsonCalls,
        *,
        name_keys: frozenset[str],
        semicolons: bool,
        takes_all: bool,
    ) -> None:
        """Read after a call; another may follow after a semicolon (`semicolons`), or inside the end marker.

        There, white space may separate them, or a comma if the next one begins with one of `name_keys`; without
        `name_keys` none may follow. An object with a key that the call lacks may be a part of it; with `takes_all`, one
        with any parameter's.
        """
        self.position: Literal["inside", "before_call", "at_end"] = "inside"
        """Whether the next call begins here, or the body ends."""
        self.wait = False
        """True where more text is needed."""
        self.in_text = False
        """True in text that does not belong to the body."""
        self.unread = ""
        self._is_rest = False
        """True where what follows the call may be a part of it."""
        self._calls = calls
        self._has_argument = calls.takes_parameter if takes_all else calls.lacks_parameter
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
            return pos
        if pos == len(text):
            return pos
        at = self._next_call(text, pos)
        if at == len(text):
            at = self._end_markers.end_of_marker(text, pos)
            self.position = "at_end" if at is not None and at > pos else "inside"
            self.in_text = at == pos
            self._check_bracket(text, pos)
        elif at is not None:
            self.position = "before_call"
        self.wait = at is None
        return pos if at is None else at

    def _next_call(self, text: str, pos: int) -> int | None:
        """Return where the next call begins at `pos`; `len(text)` if none does, None if that is not known yet.

        Any other object after a comma, or one whose key the call lacks, may be the rest of its arguments.
        """
        if text[pos] == "{" and self._name_keys:
            return pos
        start = skip_space(text, pos + 1)
        if text[pos] not in ",，" or not self._name_keys or text[start : start + 1] in {"[", "［", "`"}:
            return len(text)
        begins = json_begins(text, start, self._name_keys)
        self._is_rest = bool(begins) and any(map(self._has_argument, self._name_keys))
        return None if begins is None else start if begins and not self._is_rest else len(text)

    def _check_bracket(self, text: str, pos: int) -> None:
        """A bracket too many may have ended an object of the call too early."""
        self._is_rest = self._is_rest or (text[pos] in "}]" and self._calls.has_unlisted_argument())

    def _read_semicolon(self, text: str, pos: int) -> int:
        self._check_bracket(text, pos)
        found = _SEPARATOR.match(text, pos) if self._semicolons else None
        if found is not None and found["next"] is not None:
            self.position = "before_call"
            return found.end()
        is_rest = _is_rest_of_call(text, pos, self._has_argument)
        self._is_rest = self._is_rest or bool(is_rest)
        self.wait = is_rest is None or found is not None
        self.position = "inside" if self.wait else "at_end"
        return pos

    def _read_trailing_text(self, text: str, pos: int) -> int:
        """Search the end marker after text that does not belong to the body."""
        status, end = self._trailing_text.read(text, pos)
        if status is TrailingStatus.OPEN:
            self.wait = end < len(text)
        elif status is TrailingStatus.TEXT:
            self._end_as_text()
        else:
            self.position = "at_end"
        return end

    def may_belong_to_call(self) -> bool:
        """Return whether what follows the call may be a part of it, for example of the string with which it ends."""
        text = self._trailing_text.beginning() if self.in_text else ""
        after_quote = text.replace("'", '"').partition('"')[2]
        ends_string = not _CLOSERS.isdisjoint(after_quote) and self._calls.ends_with_string()
        return self._is_rest or ends_string or bool(_is_rest_of_call(text, 0, self._has_argument))

    def _end_as_text(self) -> None:
        self.unread = self._trailing_text.text()
        self.position = "at_end"

    def close(self, tail: str) -> None:
        """End the reply: set `unread`."""
        if self.in_text:
            self.unread = self._trailing_text.text() + tail
        elif len(tail) < 2 or not self._end_markers.is_partial(tail, 0):
            self.unread = tail
