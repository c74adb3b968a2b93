"""How a body of JSON begins: white space, a code fence's line or one of words, the first key where that alone tells.

Rule: a bounded number of characters is looked at; None says that more of them must be seen.
Neighbours: `body` begins with it, and asks it where dialects share an opening marker.
"""

import functools
import re

_SPACE = r"[ \t\r\n]{0,64}"
_FENCE = rf"(?:```\w{{0,16}}{_SPACE})?"
_INTRO_LINE = r"[^\s<{\[`][^\n<{\[`]{0,80}"
_NEW_LINE = rf"[ \t]{{0,8}}\r?\n{_SPACE}"
_PLAIN = re.compile(rf"{_SPACE}{_FENCE}(?=[{{\[])")
_PARTIAL_PLAIN = re.compile(rf"{_SPACE}(?:`{{1,2}}|```\w{{0,16}}{_SPACE})?\Z")
_INTRO_AND_JSON = re.compile(rf"{_INTRO_LINE}\n{_SPACE}(?=[{{\[]{_SPACE}[\"'{{])")
_PARTIAL_INTRO = re.compile(rf"{_INTRO_LINE}(?:\n{_SPACE}(?:[{{\[]{_SPACE})?)?\Z")
_NEW_LINE_INTRO = re.compile(_NEW_LINE + _INTRO_AND_JSON.pattern)
_PARTIAL_NEW_LINE_INTRO = re.compile(rf"{_NEW_LINE}(?:{_PARTIAL_INTRO.pattern})")
_FENCE_LINE = re.compile(rf"```\w{{0,16}}{_SPACE}(?=[{{\[])")
_PARTIAL_FENCE_LINE = re.compile(rf"(?:`{{1,2}}|```\w{{0,16}}{_SPACE})\Z")
_PARTIAL_KEY = re.compile(rf"{_SPACE}{_FENCE}(?:\[{_SPACE})?(?:\{{{_SPACE}(?:[\"']?\w{{0,32}}[\"']?{_SPACE})?)?\Z")


def json_begins(text: str, pos: int, keys: frozenset[str] = frozenset()) -> bool | None:
    """Say whether JSON begins here, perhaps behind a line of words or in a fence.

    Given `keys`, only an object with one of them first counts.
    """
    if pos < len(text) and text[pos] not in " \t\r\n{[`":
        return False
    whole = (_object_with_key(keys),) if keys else (_PLAIN, _NEW_LINE_INTRO)
    if any(pattern.match(text, pos) for pattern in whole):
        return True
    begun = (_PARTIAL_PLAIN, _PARTIAL_KEY) if keys else (_PARTIAL_PLAIN, _PARTIAL_NEW_LINE_INTRO)
    return None if any(pattern.match(text, pos) for pattern in begun) else False


def fence_end(text: str, pos: int) -> int | None:
    """Give the end of the fence line at `pos`, with JSON behind it: `pos` where there is none, None if unknown yet."""
    found = _FENCE_LINE.match(text, pos)
    if found is not None:
        return found.end()
    return None if _PARTIAL_FENCE_LINE.match(text, pos) else pos


def intro_line_end(text: str, pos: int) -> int | None:
    """Give the end of a line of words before the JSON: `pos` where there is none, None if that is not known yet."""
    found = _INTRO_AND_JSON.match(text, pos)
    if found is not None:
        return found.end()
    return None if _PARTIAL_INTRO.match(text, pos) else pos


@functools.lru_cache(maxsize=32)
def _object_with_key(keys: frozenset[str]) -> re.Pattern[str]:
    words = "|".join(map(re.escape, sorted(keys)))
    return re.compile(rf"{_SPACE}{_FENCE}(?:\[{_SPACE})?\{{{_SPACE}([\"']?)(?:{words})\1{_SPACE}:")
