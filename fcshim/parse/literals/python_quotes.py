"""Which quote ends a Python string: models forget to escape (`'it's'`).

Theory of operation. A quote ends the string if what stands behind it could follow a string in Python. That includes
operators and method calls, although nobody evaluates them: what Python reads as an expression must never be taken
for another string. Any other quote is content.

Rule: decided by a bounded look ahead, the same however the text is cut; None while it is not known yet.
Neighbours: `python_strings` asks at each quote.
"""

import re

from fcshim.parse.end_markers import EndMarkers

LOOK_AHEAD = 64
"""Characters of white space, and of a word, that are looked at; more white space than this stands between values."""

_SPACE = re.compile(rf"[ \t\r\n]{{0,{LOOK_AHEAD}}}")
_WORD = re.compile(rf"[\w.-]{{1,{LOOK_AHEAD}}}")
FAST_STRING_ENDS = (
    r"""(?P<comma>, ?(?:["'\[({]|-?[0-9]|(?:True|False|None)[,)\]}]|[^\W\d]\w{0,40}+=[^=]))|(?P<bracket>[)\]}]),"""
    r"|(?P<begun>(?:, ?(?:[^\W\d]\w{0,40}+=?)?)?\Z)"
)
"""What usually follows a string: the next value or argument, the end of what it stands in, or the beginning of it."""
_KEYWORDS = frozenset({"if", "for", "in", "not", "or", "and", "is", "else"})
_LITERALS = frozenset({"True", "False", "None", "true", "false", "null"})
_OPERATORS = (*"+-*/%@&|^<>([", "==", "!=")
PREFIXES = frozenset({"r", "b", "f", "u", "rb", "br", "rf", "fr"})
"""What may stand before a string, in small letters."""


def ends_string(
    text: str, pos: int, closing_brackets: str, end_markers: EndMarkers, *, may_be_key: bool
) -> bool | None:
    """Say whether the quote before `text[pos:]` ends its string.

    `closing` are the brackets that close what the string stands in, innermost first; `key` says that a colon may
    follow.
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
    """Say whether what stands behind a string makes it part of an expression."""
    if text[at] in "=!" and at + 1 == len(text):
        return None
    if text[at] == ".":
        return _is_attribute(text, at + 1)
    return text.startswith(_OPERATORS, at) or _is_operator_or_prefix(text, at)


def _is_attribute(text: str, pos: int) -> bool | None:
    """Say whether a name stands behind a full stop: behind white space, one that is called."""
    at = _skip_space(text, pos)
    word = _word_at(text, at)
    if at == len(text) or word is None:
        return None
    if at == pos or not word:
        return word[:1].isidentifier()
    behind = _skip_space(text, at + len(word))
    return None if behind == len(text) else text[behind] == "("


def _word_at(text: str, at: int) -> str | None:
    """Give the word that begins here, which may be none; None while it may be longer."""
    found = _WORD.match(text, at)
    if found is None:
        return ""
    if found.end() == len(text) and found.end() - at < LOOK_AHEAD:
        return None
    return found[0]


def _is_operator_or_prefix(text: str, at: int) -> bool | None:
    """Say whether a word behind a string makes it part of an expression, or is the prefix of a further string."""
    word = _word_at(text, at)
    if word is None:
        return None
    return word in _KEYWORDS or (word.lower() in PREFIXES and text[at + len(word)] in "\"'")


def _is_next_item(text: str, pos: int, closing_brackets: str, end_markers: EndMarkers) -> bool | None:
    """Say whether behind this comma stands the next value, key or argument."""
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
    """Say whether a number, or `**`, begins here."""
    if at + 1 == len(text):
        return None
    return text[at + 1] == "*" if text[at] == "*" else text[at + 1].isdigit() or text[at + 1] == "."


def _is_next_name(text: str, at: int, closing_brackets: str) -> bool | None:
    """Say whether a word behind a comma is an argument's name, a key, a literal, or a lone name at the end."""
    word = _word_at(text, at)
    if not word:
        return None if word is None else False
    end = at + len(word)
    behind = _skip_space(text, end)
    if behind == len(text):
        return None
    char = text[behind]
    if char == "=":
        return None if behind + 1 == len(text) else text[behind + 1] != "="
    if word.lower() in PREFIXES and char in "\"'":
        return behind == end
    ends = char == closing_brackets[:1] or (char == ":" and closing_brackets[:1] == "}")
    return ends or (word in _LITERALS and char in ",)]}")


def _closes_brackets(text: str, at: int, closing_brackets: str, end_markers: EndMarkers) -> bool | None:
    """Say whether these brackets close what the string stands in, and what follows fits what is left open."""
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
