"""The prefix of a JSON body: white space, the opening line of a code fence, or an introductory line of words.

Rule: a bounded number of characters is examined; None means that more text is needed to tell.
"""

import functools
import re

from fcshim.parse.arguments.entities import QUOTE_ENTITIES

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
    rf"{_SPACE}{_FENCE}(?:[\[［]{_SPACE})?(?:[{{｛]{_SPACE}(?:{_PARTIAL_QUOTE}\w{{0,32}}{_PARTIAL_QUOTE}{_SPACE})?)?\Z"
)


def skip_space(text: str, pos: int) -> int:
    """Return the end of the white space at `pos`."""
    found = _SPACES.match(text, pos)
    assert found is not None
    return found.end()


def json_begins(text: str, pos: int, keys: frozenset[str] = frozenset()) -> bool | None:
    """Return whether JSON begins at `pos`, possibly after a prefix; None if more text is needed to tell.

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


@functools.lru_cache(maxsize=32)
def _object_with_key(keys: frozenset[str]) -> re.Pattern[str]:
    names = "|".join(map(re.escape, sorted(keys)))
    entity = "|".join(map(re.escape, QUOTE_ENTITIES))
    key = rf"(?:([\"']?)(?:{names})\1|[“”](?:{names})”|({entity})(?:{names})\2)"
    return re.compile(rf"{_SPACE}{_FENCE}(?:[\[［]{_SPACE})?[{{｛]{_SPACE}{key}{_SPACE}[:：]")
