"""Words that are `true`, `false` or `null` with a mistake, so that they are no strings without quotes.

Rule: words much like one of them, several of them in one, and words with a character that no text has.
"""

import re
from difflib import SequenceMatcher

_LITERALS = ("true", "false", "null", "none")
_RUN = re.compile(r"(?:true|false|null|none)+")
_NO_TEXT = re.compile(r"[\ufffd\u200b-\u200f\u2028\u2029\ufeff\x00-\x08\x0b\x0c\x0e-\x1f]")
_LONGEST = 12
_MUCH_ALIKE = 0.7
"""The share of common characters from which a word is rather a literal: `fales`, `nll`, `truee`; not `open`."""


def is_damaged_word(word: str) -> bool:
    """Say whether a word without quotes is rather a damaged literal than a string."""
    lower = word.lower()
    if _NO_TEXT.search(word) or _RUN.fullmatch(lower):
        return True
    return len(word) <= _LONGEST and any(
        SequenceMatcher(None, lower, literal, autojunk=False).ratio() >= _MUCH_ALIKE for literal in _LITERALS
    )
