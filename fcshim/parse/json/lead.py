"""How a body of JSON begins: white space, a code fence's line or one of words, the first key where that alone tells.

Rule: a bounded number of characters is looked at; None says that more of them must be seen.
Neighbours: `body` begins with it, and asks it where dialects share an opening marker.
"""

import functools
import re

_SPACE = r"[ \t\r\n]{0,64}"
_FENCE = rf"(?:```\w{{0,16}}{_SPACE})?"
_WORDS = r"[^\s<{\[`][^\n<{\[`]{0,80}"
_NEW_LINE = rf"[ \t]{{0,8}}\r?\n{_SPACE}"
_PLAIN = re.compile(rf"{_SPACE}{_FENCE}(?=[{{\[])")
_PLAIN_BEGUN = re.compile(rf"{_SPACE}(?:`{{1,2}}|```\w{{0,16}}{_SPACE})?\Z")
_LINE = re.compile(rf"{_WORDS}\n{_SPACE}(?=[{{\[]{_SPACE}[\"'{{])")
_LINE_BEGUN = re.compile(rf"{_WORDS}(?:\n{_SPACE}(?:[{{\[]{_SPACE})?)?\Z")
_INTRODUCED = re.compile(_NEW_LINE + _LINE.pattern)
_INTRODUCED_BEGUN = re.compile(rf"{_NEW_LINE}(?:{_LINE_BEGUN.pattern})")
_FENCE_LINE = re.compile(rf"```\w{{0,16}}{_SPACE}(?=[{{\[])")
_FENCE_LINE_BEGUN = re.compile(rf"(?:`{{1,2}}|```\w{{0,16}}{_SPACE})\Z")
_KEY_BEGUN = re.compile(rf"{_SPACE}{_FENCE}(?:\[{_SPACE})?(?:\{{{_SPACE}(?:[\"']?\w{{0,32}}[\"']?{_SPACE})?)?\Z")


def begins(text: str, pos: int, keys: frozenset[str] = frozenset()) -> bool | None:
    """Say whether JSON begins here, perhaps behind a line of words or in a fence.

    Given `keys`, only an object with one of them first counts.
    """
    if pos < len(text) and text[pos] not in " \t\r\n{[`":
        return False
    whole = (_keyed(keys),) if keys else (_PLAIN, _INTRODUCED)
    if any(pattern.match(text, pos) for pattern in whole):
        return True
    begun = (_PLAIN_BEGUN, _KEY_BEGUN) if keys else (_PLAIN_BEGUN, _INTRODUCED_BEGUN)
    return None if any(pattern.match(text, pos) for pattern in begun) else False


def fence_end(text: str, pos: int) -> int | None:
    """Give the end of the fence line at `pos`, with JSON behind it: `pos` where there is none, None if unknown yet."""
    found = _FENCE_LINE.match(text, pos)
    if found is not None:
        return found.end()
    return None if _FENCE_LINE_BEGUN.match(text, pos) else pos


def words_end(text: str, pos: int) -> int | None:
    """Give the end of a line of words before the JSON: `pos` where there is none, None if that is not known yet."""
    found = _LINE.match(text, pos)
    if found is not None:
        return found.end()
    return None if _LINE_BEGUN.match(text, pos) else pos


@functools.lru_cache(maxsize=32)
def _keyed(keys: frozenset[str]) -> re.Pattern[str]:
    words = "|".join(map(re.escape, sorted(keys)))
    return re.compile(rf"{_SPACE}{_FENCE}(?:\[{_SPACE})?\{{{_SPACE}([\"']?)(?:{words})\1{_SPACE}:")
