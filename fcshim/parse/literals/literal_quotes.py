"""Escape the quotes that a model forgot to escape, in calls whose arguments are literals.

Rule: the rules of `quote_escaping`, with the syntax of keyword arguments, of calls, and of Python's expressions.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from typing import ClassVar

from fcshim.parse.arguments.quote_escaping import ARRAY_VALUE, QuoteEscaper, follows_key
from fcshim.parse.arguments.quoted_content import KEY, AmbiguousQuotesError, Follows
from fcshim.parse.arguments.scopes import ANYTHING, Members, Scope
from fcshim.parse.arguments.tokens import OpenContainer
from fcshim.parse.literals.brackets import ARGUMENTS, ARRAY, BRACE, DICT, SPREAD, OpenBracket

_SKIPPED = re.compile(r"(?:\s++|(?P<comment>\#[^\n]*+))*")
_PREFIX = re.compile(r"(?:[rR][fF]?|[fF][rR]?|[uU])(?=[\"'])")
_STRING = re.compile(r"(?:[rR][fF]?|[fF][rR]?|[uU])?[\"']")
_STRING_KEY = re.compile(
    r"""(?:[rRbBfFuU]{1,2})?(?:\"\"\"[\s\S]{0,1024}?\"\"\"|'''[\s\S]{0,1024}?'''"""
    r"""|"(?:[^"\\]|\\[\s\S]){0,1024}"|'(?:[^'\\]|\\[\s\S]){0,1024}')\s{0,64}[:：]"""
)
"""A key in any spelling of a string."""
_CALL = re.compile(r"(?:call\s{0,16}:\s{0,16})?([^\W\d][\w.-]{0,255})[ \t]{0,16}[({]")
_NEXT_CALL = re.compile(r"[)\]}\"'](?>(?:\s|\\n){0,64})[,;]?(?>(?:\s|\\n){0,64})([^\W\d][\w.-]{0,127}+)[ \t]{0,16}\(")
_QUOTE = re.compile(r"[\"']")
_BEFORE_CLOSER = re.compile(r"\s{0,64}+,?\s{0,64}+")
_END_OF_LINE = re.compile(r"[ \t)\]};,]{0,16}+(?:\n|\Z)")
_SEPARATOR = re.compile(r"[\s,，;)）\]］}｝`]*+")
_MARKER_STARTS = ("<|", "</")
"""How an end-of-text token or a stray end marker begins."""
_KEYWORD = r"(?:if|for|in|not|or|and|is|else)"
_OPERATOR = rf"(?:\s*(?:[-+*/%@&|^<>(\[\"']|[=!]=|\.\s*[^\W\d])|\s*{_KEYWORD}\b"
_OPERAND = rf"(?:[\s\S]*(?:[-+*/%@&|^<>(\[{{,=:\"']|\b{_KEYWORD}|\W[rRfFuU]{{1,2}}))?\s*|\s*[rRfFuU]{{0,2}}"
_EXPRESSION = re.compile(rf"{_OPERATOR}|\s*,\s*[^\W\d]\w*\s*=){_OPERAND}")
"""What stands between two strings of an expression, or of an argument that is one and the next argument."""
_STRING_OPERATOR = re.compile(r"\s*(?:[+%,.\[\"']|\*(?!\s*[rRfFuU]{0,2}\Z)|(?:if|or|and|for)\b|\Z)")
"""What follows the first string of an expression that is a string, or another argument."""
_ITEMS = re.compile(rf"{_OPERATOR}|\s*[,:]){_OPERAND}")
"""The same in an array or a dict."""


_WRITTEN_KINDS = frozenset({ARGUMENTS, DICT, ARRAY})
"""Brackets that are written where they open; the others wait until their kind is known."""


class CallListMembers(Members):
    """What may stand in a list of calls: calls."""

    holds_calls = True


_CALL_LIST = CallListMembers()


def open_scopes(
    brackets: Sequence[OpenBracket],
    arguments: Members,
    names: set[str],
    containers: Sequence[OpenContainer],
    *,
    seen_keyword: bool,
) -> list[Scope]:
    """Return the scopes of the open brackets of a call; `names` are the arguments that were read.

    `containers` are the open containers that were written, the arguments first. After a keyword (`seen_keyword`) no
    argument without a name may follow.
    """
    enclosing = [Scope(closer, _CALL_LIST, keyed=False) for closer in reversed(brackets[0].closing_brackets[1:])]
    written = iter(containers)
    scopes = enclosing + [_scope(bracket, arguments, names, written) for bracket in brackets]
    scopes[len(enclosing)].has_keyword = seen_keyword
    return scopes


def _scope(bracket: OpenBracket, arguments: Members, names: set[str], written: Iterator[OpenContainer]) -> Scope:
    kind = bracket.kind
    container = next(written, None) if kind in _WRITTEN_KINDS else None
    key = "" if container is None else container.key
    if kind is ARGUMENTS or kind is SPREAD:
        is_arguments = kind is ARGUMENTS
        return Scope(bracket.closer, arguments, keyed=True, keys=set(names), key=key, is_arguments=is_arguments)
    members = ANYTHING if container is None else container.members
    keys = set() if container is None else set(container.keys)
    return Scope(bracket.closer, members, keyed=kind is DICT or kind is BRACE, keys=keys, key=key)


class LiteralQuoteEscaper(QuoteEscaper):
    """Escapes the quotes inside the strings of one text.

    `arguments_of` returns what may stand in the arguments of a tool, None if it is not offered. Between two `token`s,
    if there is such a token, stands a string whose quotes are content.
    """

    _skipped: ClassVar[re.Pattern[str]] = _SKIPPED

    def __init__(
        self, text: str, scopes: Sequence[Scope], arguments_of: Callable[[str], Members | None], token: str = ""
    ) -> None:
        super().__init__(text, scopes, _CALL_LIST)
        self._arguments_of = arguments_of
        self._token = token
        self._is_raw = self._multiline = self._is_joined = False
        self._name = ""
        """The word that was read last."""

    def escape_from_string(
        self, quote: str, *, is_raw: bool, at_string_start: bool, multiline: bool, before: str
    ) -> str:
        """Return the text, which begins inside a string that `quote` opened, with inner quotes escaped.

        `multiline` says that a line break precedes the text in that string.
        """
        self._is_raw, self._multiline = is_raw, multiline
        return self.escape(quote, at_string_start=at_string_start, before=before)

    # Structure.

    def _read_token(self, pos: int) -> int:
        if self._token and self._text.startswith(self._token, pos):
            end = self._text.find(self._token, pos + len(self._token))
            return len(self._text) if end < 0 else end + len(self._token)
        return super()._read_token(pos)

    def _write_ascii(self, pos: int, char: str) -> None:
        """Leave full-width punctuation to the reader of the values."""

    def _read_char(self, char: str) -> None:
        self._is_joined = self._is_joined and char != ","
        outside = not self._scopes or self._scopes[-1].members.holds_calls
        if outside and char in "({":
            members = self._arguments_of(self._name) or ANYTHING
            self._scopes.append(Scope(")" if char == "(" else "}", members, keyed=True, is_arguments=True))
        else:
            super()._read_char(char)

    def _read_word(self, found: re.Match[str]) -> int:
        prefix = _PREFIX.match(self._text, found.start())
        if prefix is not None and prefix.end() == found.end():
            self._is_raw = "r" in prefix[0].lower()
            return found.end()
        self._name = found["word"]
        return super()._read_word(found)

    def _is_key(self, scope: Scope, pos: int) -> bool:
        is_key = KEY.match(self._text, pos) or _STRING_KEY.match(self._text, pos)
        return scope.expects_key and is_key is not None

    def _read_quoted(self, quotes: str, pos: int) -> int:
        self._multiline = False
        end = super()._read_quoted(quotes, pos)
        self._is_raw = False
        self._end_string(end)
        return end

    def _end_string(self, end: int) -> None:
        if self._scopes and self._is_continued(end):
            self._scopes[-1].expects_value = True

    def _is_continued(self, end: int) -> bool:
        """Return whether a string follows on another line: Python joins the two.

        On the same line the quotes may be content: `"print(" ")"`.
        """
        after = self._skip(end)
        joined = "\n" in self._text[end:after] and _STRING.match(self._text, after) is not None
        self._is_joined = self._is_joined or joined
        return joined

    def _is_valid_end(self, end: int) -> bool:
        """Return whether the open brackets close one by one, and the list of calls or the line ends there."""
        pos, text = end, self._text
        for scope in reversed(self._scopes):
            found = _BEFORE_CLOSER.match(text, pos)
            assert found is not None
            if not text.startswith(scope.closer, found.end()):
                return False
            pos = found.end() + 1
        is_list = bool(self._scopes) and self._scopes[0].closer == "]"
        return _END_OF_LINE.match(text, pos) is not None or (is_list and text[pos : pos + 1].isspace())

    def _may_be_string(self, content: str) -> bool:
        """Return whether this may stand between single quotes: Python admits no line breaks there."""
        return not self._multiline and "\n" not in content

    def _is_gap(self, gap: str) -> bool:
        if self._token:
            return super()._is_gap(gap)
        in_call = not self._scopes or self._scopes[-1].is_arguments
        return (_EXPRESSION if in_call else _ITEMS).fullmatch(gap) is not None

    def _may_be_expression(self, gaps: Sequence[str]) -> bool:
        if not super()._may_be_expression(gaps):
            return False
        only_strings = bool(self._scopes) and self._scopes[-1].inner_members().admits_only_strings
        return not only_strings or _STRING_OPERATOR.match(gaps[0]) is not None

    def _check_content(self, quote: str, start: int, end: int, inner: list[int]) -> None:
        super()._check_content(quote, start, end, inner)
        self._check_calls(self._before + self._text[start:end])
        if self._is_joined:
            raise AmbiguousQuotesError("unescaped quotes in strings that are joined")
        if self._is_raw:
            raise AmbiguousQuotesError("unescaped quotes in a raw string")

    def _check_calls(self, content: str) -> None:
        """Raise `AmbiguousQuotesError` if another call may begin in a string: its own quote may be missing."""
        if any(self._arguments_of(found[1]) is not None for found in _NEXT_CALL.finditer(content)):
            raise AmbiguousQuotesError("a call, or a string with unescaped quotes")

    # What follows a string.

    def _follows_in(self, scope: Scope, pos: int, *, after_comma: bool) -> Follows:
        if scope.members.holds_calls:
            return self._follows_call(pos)
        if not after_comma:
            return Follows.NOTHING_FITTING
        if not scope.is_arguments:
            follows = super()._follows_in(scope, pos, after_comma=True)
            is_key = scope.keyed and follows is Follows.NOTHING_FITTING and _STRING_KEY.match(self._text, pos)
            return Follows.NEXT if is_key else follows
        key = KEY.match(self._text, pos)
        if key is not None:
            return follows_key(scope, key, after_comma=True)
        if self._token and self._text.startswith(self._token, pos):
            return Follows.NEXT
        is_value = self._text.startswith("**{", pos) or (not scope.has_keyword and ARRAY_VALUE.match(self._text, pos))
        return Follows.NEXT if is_value else Follows.NOTHING_FITTING

    def _follows_end(self, pos: int, end: int, *, exact: bool) -> Follows:
        """Say what follows after the brackets at `pos` and the separators up to `end`: another call, or text."""
        text = self._text
        stands_apart = text[pos - 1].isspace() or text.startswith(_MARKER_STARTS, end)
        if exact and stands_apart and _QUOTE.search(text, end) is None:
            return Follows.END
        return self._follows_call(end)

    def _is_over(self, pos: int) -> bool:
        found = _SEPARATOR.match(self._text, pos)
        assert found is not None
        return self._follows_call(found.end()) is not Follows.NEXT

    def _follows_call(self, pos: int) -> Follows:
        found = _CALL.match(self._text, pos)
        offered = found is not None and self._arguments_of(found[1]) is not None
        return Follows.NEXT if offered else Follows.NOTHING_FITTING

    def _follows_body(self, pos: int, *, exact: bool) -> Follows:
        found = _SEPARATOR.match(self._text, pos)
        assert found is not None
        if found.end() < len(self._text):
            return self._follows_end(pos, found.end(), exact=exact)
        surplus = any(char in ")]}" for char in found[0])
        return Follows.END if exact and not surplus else Follows.INEXACT_END
