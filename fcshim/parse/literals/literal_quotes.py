"""Escape the quotes that a model forgot to escape, in calls whose arguments are literals.

Rule: the rules of `quote_escaping`, with the syntax of keyword arguments, of calls, and of Python's expressions.
"""

import re
from collections.abc import Callable
from typing import ClassVar

from fcshim.parse.arguments.quote_escaping import ANYTHING, AmbiguousQuotesError, Follows, Members, QuoteEscaper, Scope

_SKIPPED = re.compile(r"(?:\s++|\#[^\n]*+)*+")
_PREFIX = re.compile(r"(?:[rR][bBfF]?|[bBfF][rR]?|[uU])(?=[\"'])")
_RAW_PREFIX = re.compile(r"(?i:r[bf]?|[bf]r)[\"']")
_ARGUMENT = re.compile(r"([^\W\d][\w-]{0,127})\s{0,64}[=:](?!=)")
_SPREAD = re.compile(r"\*\*\s{0,16}\{")
_CALL = re.compile(r"(?:call\s{0,16}:\s{0,16})?([^\W\d][\w.-]{0,255})[ \t]{0,16}([({])")
_CALL_NAME = re.compile(r"([^\W\d][\w.-]{0,255})[ \t]{0,16}\Z")
_SEPARATOR = re.compile(r"[\s,;)\]}]*+")
_KEYWORD = r"(?:if|for|in|not|or|and|is|else)"
_EXPRESSION = re.compile(
    rf"(?:\s*(?:[+%<>\[]|[=!]=|\*\s*\w|\.\s*\w+\s*\()|\s+{_KEYWORD}\s)"
    rf"(?:[\s\S]*(?:[+%*<>(\[,=:]|\s{_KEYWORD}\s|[\s(,\[][rRbBfFuU]{{1,2}}))?\s*|\s*"
)
"""What stands between two strings of an expression, or of an argument that is one."""


class LiteralQuoteEscaper(QuoteEscaper):
    """Escapes the quotes inside the strings of one text; `token` is a quote that is never content of a string."""

    _skipped: ClassVar[re.Pattern[str]] = _SKIPPED
    _expression: ClassVar[re.Pattern[str]] = _EXPRESSION

    def __init__(self, text: str, scopes: list[Scope], arguments_of: Callable[[str], Members | None], token: str) -> None:
        super().__init__(text, scopes, ANYTHING)
        self._arguments_of = arguments_of
        self._token = token
        self._is_raw = False

    def escape_from_string(self, quote: str, *, is_raw: bool) -> str:
        """Return the text, which begins inside a string that `quote` opened, with inner quotes escaped."""
        self._is_raw = is_raw
        return self.escape(quote)
