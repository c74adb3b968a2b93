"""What usually stands between two values, to be read in one search: comma, key, colon, number.

Theory of operation. A pattern finds the whole of it, with an `atom` (a number or literal that has ended) or a `value`
(whose first character is seen) last; or as much of it as there is at the end of the text. That must wait: it
would be held anyway, and is short. What is found in no such way is unusual, or long; the states of the reader are for
that.

Rule: what is found means the same to the states.
Neighbours: `strict` and the readers of literal notations search for what is usual in their languages.
"""

from collections.abc import Collection

SPACE = r"[ \t\r\n]{0,16}+"
COMPLETE_GROUPS = frozenset({"atom", "value"})
"""The groups one of which is the last where all of it was found; else it has only begun."""
_NUMBER = r"-?(?:0|[1-9][0-9]{0,15}+)(?:\.[0-9]{1,16}+)?"


def value_pattern(literals: Collection[str], *, value_starts: str, after_atom: str) -> str:
    """Write a pattern for an atom, or for the place of any other value.

    `literals` are the words that are atoms; other values begin with one of the characters in `first`, behind an atom
    stands one of those in `behind` (both as in a set).
    """
    starts = "".join(sorted({word[0] for word in literals}))
    atom = rf"(?P<atom>{_NUMBER}|{'|'.join(literals)})(?=[{after_atom}])"
    return rf"(?:(?P<value>(?=[{value_starts}]))|{atom}|(?:[0-9{starts}-][\w.+-]{{0,24}}+)?\Z)"
