"""Decide which quote ends a Python string, because models forget to escape quotes (`'it's'`).

Theory of operation. A quote ends the string if the text after it can follow a string in Python. That includes
operators and method calls, although they are never evaluated: an expression must be rejected, not read as a longer
string with other content. Any other quote is content.

Rule: a bounded look-ahead decides, the same for every split of the text; the answer is None while more text is needed.
"""

import re

from fcshim.parse.end_markers import EndMarkers

LOOK_AHEAD = 64
"""Maximum characters of white space, or of a word, to look at; longer white space counts as space between values."""

_SPACE = re.compile(rf"[ \t\r\n]{{0,{LOOK_AHEAD}}}")
_WORD = re.compile(rf"[\w.-]{{1,{LOOK_AHEAD}}}")
FAST_STRING_ENDS = (
    r"""(?P<comma>, ?(?:["'\[({]|-?[0-9]|(?:True|False|None)[,)\]}]|[^\W\d]\w{0,40}+=[^=]))|(?P<bracket>[)\]}]),"""
    r"|(?P<partial>(?:, ?(?:[^\W\d]\w{0,40}+=?)?)?\Z)"
)
"""Fast pattern for what usually follows a string's quote.

The groups: `comma` (then the next value or argument), `bracket` (which may close the container), `partial` (the text
ends too early to tell).
"""
_KEYWORDS = frozenset({"if", "for", "in", "not", "or", "and", "is", "else"})
_LITERALS = frozenset({"True", "False", "None", "true", "false", "null"})
_OPERATORS = (*"+-*/%@&|^<>([", "==", "!=")
PREFIXES = frozenset({"r", "b", "f", "u", "rb", "br", "rf", "fr"})
"""String prefixes, in lower case."""


def ends_string(
    text: str, pos: int, closing_brackets: str, end_markers: EndMarkers, *, may_be_key: bool
) -> bool | None:
    """Say whether the quote before `text[pos:]` ends its string; None while more text is needed.

    `closing_brackets` close the containers of the string, innermost first; `may_be_key` allows a colon to follow.
    """
    at = _skip_space(text, pos)
    if at == len(text) or end_markers.is_partial(text, at):
        return None
    char = text[at]
    if at - pos == LOOK_AHEAD or char in "\"'#" or end_markers.marker_at(text, at):
        return True
    if char == ",":
        return _is_next_item(text, at + 1, closing_brackets, end_markers)
    if char in ")]}":
        return _closes_brackets(text, at, closing_brackets, end_markers)
    return may_be_key if char == ":" else _is_expression(text, at)


def _skip_space(text: str, pos: int) -> int:
    found = _SPACE.match(text, pos)
    assert found is not None
    return found.end()


def _is_expression(text: str, at: int) -> bool | None:
    """Say whether the text after a string makes the string part of an expression."""
    if text[at] in "=!" and at + 1 == len(text):
        return None
    if text[at] == ".":
        return _is_attribute(text, at + 1)
    return text.startswith(_OPERATORS, at) or _is_operator_or_prefix(text, at)


def _is_attribute(text: str, pos: int) -> bool | None:
    """Say whether an attribute name follows a full stop; after white space only a method call counts (`. upper(`)."""
    at = _skip_space(text, pos)
    word = _word_at(text, at)
    if at == len(text) or word is None:
        return None
    if at == pos or not word:
        return word[:1].isidentifier()
    after = _skip_space(text, at + len(word))
    return None if after == len(text) else text[after] == "("


def _word_at(text: str, at: int) -> str | None:
    """Return the word at `at`, which may be empty; None while it may continue."""
    found = _WORD.match(text, at)
    if found is None:
        return ""
    if found.end() == len(text) and found.end() - at < LOOK_AHEAD:
        return None
    return found[0]


def _is_operator_or_prefix(text: str, at: int) -> bool | None:
    """Say whether the word after a string is an operator (`if`, `in`, ...) or the prefix of another string."""
    word = _word_at(text, at)
    if word is None:
        return None
    return word in _KEYWORDS or (word.lower() in PREFIXES and text[at + len(word)] in "\"'")


def _is_next_item(text: str, pos: int, closing_brackets: str, end_markers: EndMarkers) -> bool | None:
    """Say whether the next value, key or argument follows this comma."""
    at = _skip_space(text, pos)
    if at == len(text) or end_markers.is_partial(text, at):
        return None
    char = text[at]
    if at - pos == LOOK_AHEAD or char in "\"'[({#" or char.isdigit() or end_markers.marker_at(text, at):
        return True
    if char in ")]}":
        return char == closing_brackets[:1]
    if char in "+-.*":
        return _is_number_or_spread(text, at)
    return _is_next_name(text, at, closing_brackets)


def _is_number_or_spread(text: str, at: int) -> bool | None:
    """Say whether a signed number, a number such as `.5`, or `**` starts at `at`."""
    if at + 1 == len(text):
        return None
    return text[at + 1] == "*" if text[at] == "*" else text[at + 1].isdigit() or text[at + 1] == "."


def _is_next_name(text: str, at: int, closing_brackets: str) -> bool | None:
    """Say whether the word after a comma is an argument name, a key, a literal or a last name before the bracket."""
    word = _word_at(text, at)
    if not word:
        return None if word is None else False
    end = at + len(word)
    after = _skip_space(text, end)
    if after == len(text):
        return None
    char = text[after]
    if char == "=":
        return None if after + 1 == len(text) else text[after + 1] != "="
    if word.lower() in PREFIXES and char in "\"'":
        return after == end
    ends = char == closing_brackets[:1] or (char == ":" and closing_brackets[:1] == "}")
    return ends or (word in _LITERALS and char in ",)]}")


def _closes_brackets(text: str, at: int, closing_brackets: str, end_markers: EndMarkers) -> bool | None:
    """Say whether these brackets close the string's containers and the text after them fits the one that stays open."""
    depth = 0
    while at < len(text) and text[at] == closing_brackets[depth]:
        depth += 1
        at += 1
        if depth == len(closing_brackets):
            return None if at == len(text) else text[at] not in "\"'"
        at = _skip_space(text, at)
    if at == len(text) or end_markers.is_partial(text, at):
        return None
    if text[at] == "]" and closing_brackets[depth:] == ")]":
        return True
    return depth > 0 and (text[at] in ",:;#" or bool(end_markers.marker_at(text, at)))
