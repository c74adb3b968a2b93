"""Patterns for the fast path of a reader: the usual text between two values (comma, key, colon, number) in one match.

Theory of operation. A pattern matches all of that text, up to an `atom` (a number or literal that has ended) or a
`value` (at its first character). At the end of the text it also matches an incomplete beginning, which must wait for
more text; it is short, and would be buffered anyway. Text that does not match is unusual or long, and is read by the
reader's states.

An optional group is written as an alternative, `(?:x|)`: `(?:x)?` is a loop to `re`, and takes a third longer.

Rule: the fast path and the states give a matched text the same meaning.
"""

from collections.abc import Collection

SPACE = r"[ \t\r\n]{0,16}+"
COMPLETE_GROUPS = frozenset({"atom", "value"})
"""The last group of a complete match is one of these; any other match is an incomplete beginning."""
_NUMBER = r"-?(?:0|[1-9][0-9]{0,15}+)(?:\.[0-9]{1,16}+|)"


def value_pattern(literals: Collection[str], *, value_starts: str, after_atom: str) -> str:
    """Return a pattern for an atom, or for the position of any other value.

    `literals` are the words that are atoms. Other values begin with one of the characters in `value_starts`, and one
    of those in `after_atom` follows an atom (both written as in a regular expression's set).
    """
    starts = "".join(sorted({word[0] for word in literals}))
    atom = rf"(?P<atom>{_NUMBER}|{'|'.join(literals)})(?=[{after_atom}])"
    return rf"(?:(?P<value>(?=[{value_starts}]))|{atom}|(?:[0-9{starts}-][\w.+-]{{0,24}}+|)\Z)"
