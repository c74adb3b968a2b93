"""Words that are no strings without quotes: `true`, `false` or `null` with a mistake or as `nil`, and names of types.

Rule: one character missing, superfluous, wrong or swapped, several such words in one, or a character that no text has.
The name of a type stands for a value (`{"city": string}`): it describes a call.
"""

import re

from fcshim.parse.markers import common_length

_LITERALS = ("true", "false", "null")
_TYPES = frozenset(("string", "str", "number", "integer", "int", "float", "boolean", "bool", "object", "array"))
_NULLS = frozenset(("nil", "undefined", "nan", "infinity", "void", "n/a"))
"""Words of other languages for a value that is missing."""
_RUN = re.compile(r"(?:true|false|null|none)+")
_NO_TEXT = re.compile(r"[\ufffd\u200b-\u200f\u2028\u2029\ufeff\x00-\x08\x0b\x0c\x0e-\x1f]")


def is_damaged_word(word: str) -> bool:
    """Return whether a word without quotes is rather a damaged literal, or a type, than a string."""
    lower = word.lower()
    if _NO_TEXT.search(word) or lower in _TYPES or lower in _NULLS or _RUN.fullmatch(lower):
        return True
    for literal in _LITERALS:  # with one character deleted, inserted, replaced or swapped with the next
        at = common_length(lower, literal)
        rest, expected = lower[at:], literal[at:]
        is_swapped = rest[:2] == expected[1::-1] and rest[2:] == expected[2:]
        is_damaged = rest == expected[1:] or rest[1:] == expected or rest[1:] == expected[1:]
        if lower != literal and (is_swapped or is_damaged):
            return True
    return False
