"""Find where a body without an end marker ends, if its quotes are doubtful and it has no certain reading.

Rule: only where every string as it stands is a literal in its place, between brackets, commas and the signs of a key.
Elsewhere a quote may be content, and what follows it may not be text outside the call.
"""

import re

_SIGN = re.compile(r"[\"'()\[\]{}#]")
_BEFORE_STRING = re.compile(r"[(\[{,=:]\s*[rRbBfFuU]{0,2}\Z")
_LONGEST_BEFORE = 64
_AFTER_STRING = re.compile(r"\s*[,)\]}:]")
_CLOSERS = {"(": ")", "[": "]", "{": "}"}
_STRINGS = {
    quote: re.compile(rf"(?>(?:[^{quote}\\]++|\\[\s\S])*){quote}" if len(quote) == 1 else rf"[\s\S]*?{quote}")
    for quote in ('"', "'", '"""', "'''")
}


def end_as_it_stands(text: str, quote: str, closers: str) -> int:
    """Return the end of the body's last bracket, or -1.

    `text` begins inside a string that `quote` ends; `closers` close the open brackets, innermost first.
    """
    open_closers = list(reversed(closers))
    pos = _end_of_string(text, quote, 0)
    while pos >= 0 and (found := _SIGN.search(text, pos)):
        sign, pos = found[0], found.end()
        if sign in _CLOSERS:
            open_closers.append(_CLOSERS[sign])
        elif sign in "\"'":
            before = text[max(0, found.start() - _LONGEST_BEFORE) : found.start()]
            quote = sign * 3 if text.startswith(sign * 3, found.start()) else sign
            is_literal = _BEFORE_STRING.search(before) is not None
            pos = _end_of_string(text, quote, found.start() + len(quote)) if is_literal else -1
        elif sign == "#" or sign != open_closers.pop():
            return -1
        if not open_closers:
            return pos
    return -1


def _end_of_string(text: str, quote: str, pos: int) -> int:
    """Return the end of the string whose content begins at `pos`, or -1 if it is no literal in its place."""
    found = _STRINGS[quote].match(text, pos)
    return found.end() if found is not None and _AFTER_STRING.match(text, found.end()) else -1
