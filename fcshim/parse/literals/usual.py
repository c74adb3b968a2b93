"""What usually stands between two values of a literal notation, to be read in one search: comma, key, colon, number.

Theory of operation. A pattern finds the whole of it, with an `atom` (a number or literal that has ended) or a `value`
(whose first character is seen) last; or as much of it as there is at the end of the text. That must wait: it would be
held anyway, and is short. What is found in no such way is unusual, or long; the states of the reader are for that.

Rule: what is found means the same to the states.
Neighbours: `body` searches, `python_values` and `gemma_body` have the patterns of their languages.
"""

import re
from collections.abc import Iterable

GAP = r"[ \t\r\n]{0,16}+"
_NUMBER = r"-?(?:0|[1-9][0-9]{0,14})(?:\.[0-9]{1,15})?"
_NUMBER_BEGUN = r"-?[0-9]{0,15}(?:\.[0-9]{0,15})?"


def value_pattern(literals: Iterable[str], *, behind: str, never: str = "") -> str:
    """Write a pattern for an atom with one of the characters `behind` it, or for the place of any other value.

    `literals` are the words that are atoms, `never` further characters (as in a set) with which no value begins.
    """
    words = sorted(literals)
    begun = sorted({word[:size] for word in words for size in range(1, len(word) + 1)}, key=len, reverse=True)
    atom = rf"(?P<atom>{_NUMBER}|{'|'.join(words)})(?=[{behind}])"
    return rf"(?:{atom}|(?:{_NUMBER_BEGUN}|{'|'.join(begun)})\Z|(?P<value>(?=[^ \t\r\n\f,:)\]}}{never}])))"


def complete(found: re.Match[str]) -> bool:
    """Say whether all of it was found; else it has only begun."""
    return found.lastgroup in _LAST


_LAST = frozenset({"atom", "value"})
