r"""Escape the quotes that a model forgot to escape, in a body that is held until its end.

Theory of operation. The text is read bracket by bracket, with what the schema says about each. A quote may end a string
only if what follows it can follow a value there: a comma and the next key with its colon (in an array, the next value),
or closing brackets and then the same, or the end of the body. If the first quote of a string can, it does. Otherwise
the string contains quotes, and every quote that could end it is examined up to the end of the body:

- Quotes inside a string come in pairs, so the ends that fit the true reading have the same number of quotes, modulo
  two, before them. Ends of both kinds are two readings: the text is ambiguous.
- A key that cannot come there (not offered, or there already) ends no string. It is content only between the quotes of
  a pair, in a string whose quotes are paired; else it may be an invented key, and the text is ambiguous.
- A string that contains quotes is checked once its end is found (`quoted_content`).

Rule: an ambiguous text raises `AmbiguousQuotesError`; nothing is guessed. The number of examined quotes is limited.
"""

import re
from collections.abc import Iterator, Sequence
from typing import ClassVar

from fcshim.parse.arguments.quoted_content import (
    CLOSERS,
    ENDS,
    KEY,
    MAX_BEFORE,
    STRAIGHT_END,
    AmbiguousQuotesError,
    Follows,
    QuotedContentChecks,
    written_key,
)
from fcshim.parse.arguments.scopes import Members, Scope

_MAX_EXAMINED = 20_000
"""Quotes that are examined in one body: about 0.05 s, for text with many strings that contain quotes."""
FULL_WIDTH = {"，": ",", "：": ":", "｛": "{", "｝": "}", "［": "[", "］": "]", "（": "(", "）": ")"}
"""Punctuation as Chinese and Japanese keyboards write it, and what it stands for outside strings."""
_CLOSING = frozenset(CLOSERS.values())
_QUOTES = {'"': '"', "'": "'", "“": "”", "”": "”", '"""': '"""', "'''": "'''"}
_SKIPPED = re.compile(r"(?:\s++|(?P<comment>//[^\n]*+|\#[^\n]*+|/\*(?:[^*]|\*(?!/))*\*/))*")
_QUOTE = re.compile(r"[\"']")
_COMMENT_LIKE_STRING = re.compile(r"[\"']\s*(?:[,}\])]|\Z)")
_END_OF_KEY = re.compile(r"[\"']\s{0,64}[:：]")
_WORD = re.compile(r"\w")
_QUOTE_RUN = re.compile(r"\"++|'*+")
ARRAY_VALUE = re.compile(
    r"""(?:[rRbBfFuU]{1,2})?["']|[“”{\[(｛［（]|[+-]?\.?\d|(?:true|false|null|True|False|None)\b"""
)
_SURPLUS = re.compile(r"[\s}\])｝］）`,;.]*+")
_FENCE_AT_END = re.compile(r"`{3,8}\s*\Z")
_TOKEN = re.compile(r"""(?P<quote>\"{3,}|'{3,}|["'“”])|(?P<word>[\w$][\w$.+-]*+)|(?P<char>[\s\S])""")
_LITERAL_COMMA = re.compile(
    r"(?<!\\)([\"'])(?:(?<=[\s(\[{<>=:,;!&|+*/%\"'-][\"'])|(?<=\W[rRbBfFuU][\"']))\s{0,16}+,\s{0,16}+\1(?=[.)\]}+,:;%*\[=!|&\\])|(?<!\\)([\"']),\2(?=[\s<>?'\"-])"
)
"""A comma between quotes, and what precedes and follows a literal in code."""
_CALL_IN_STRING = re.compile(r"(?:\n|\\n)[ \t]*(?:\[\s{0,16})?\{\s{0,16}\\?[\"'](\w{1,64})\\?[\"']\s{0,16}:")
"""A line in a string, written as JSON, which begins like a call without markers."""
_TWO_PLACES = "a string with unescaped quotes may end at two places"
_OPENS_QUOTATION = re.compile(r"(?:[\s(\[{<>=:,;!&|+*/%\"'-]|\\[nrt])\Z")
"""What precedes a quotation in text or code, where it does not begin the string."""
_CLOSES_QUOTATION = re.compile(r"[\s)\]}>=:,;.!?&|+*/%\"'-]|\\[nrt]")
_QUOTE_IN_KEY = re.compile(r"[\"']\s{0,64}[:：,]")


class QuoteEscaper(QuotedContentChecks):
    """Escapes the quotes inside the strings of one text; see `QuotedContentChecks` for the arguments."""

    _skipped: ClassVar[re.Pattern[str]] = _SKIPPED
    """White space and comments, the last one in the group `comment`."""

    def __init__(
        self,
        text: str,
        scopes: Sequence[Scope],
        root: Members,
        call_markers: Sequence[str] = (),
        *,
        has_end_marker: bool = True,
    ) -> None:
        super().__init__(text, scopes, root, call_markers, has_end_marker=has_end_marker)
        self._out: list[str] = []
        self._copied = 0
        self._examined = 0
        self._has_wrong_key = any(scope.has_wrong_key() for scope in scopes)
        self._comment_end = -1
        """The end of the last comment with quotes that was skipped after a quote; negative if there is none."""
        self._after_string = True
        """True after a string and closing brackets, where a comment may be content of the string."""
        self._delimiters = {'"'}
        """The quotes around strings and keys; those of what was sent are double ones."""

    def escape(self, quote: str = "", *, at_string_start: bool = False, before: str = "") -> str:
        """Return the text with its strings' inner quotes escaped.

        `quote` opened the string in which the text begins, `at_string_start` if right before the text; `before` is the
        JSON before the text.
        """
        text, pos = self._text, 0
        if quote:
            opening = self._opening_quote(quote, -1) if at_string_start else quote
            self._before = after_last_quote(before)
            self._is_continued_string = not at_string_start and bool(self._before)
            pos = self._read_string(opening, len(opening) - len(quote))
            self._before, self._is_continued_string = "", False
            self._end_string(pos)
        size, scopes, skip = len(text), self._scopes, self._skipped.match
        while pos < size:
            inside, skipped = bool(scopes), skip(text, pos)
            assert skipped is not None
            if skipped.lastgroup:
                self._check_skipped(pos, skipped.end())
            pos = self._read_token(skipped.end())
            if inside and not scopes and self._is_over(pos):
                break
        if self._has_quotes and self._has_wrong_key:
            raise AmbiguousQuotesError("a key that the tool does not have, and unescaped quotes")
        self._out.append(text[self._copied :])
        return "".join(self._out)

    def _check_skipped(self, start: int, end: int) -> None:
        """Raise `AmbiguousQuotesError` where the comments between two tokens may be content of a string."""
        if end == len(self._text) and self._scopes and _ends_with_member(self._text[start:]):
            raise AmbiguousQuotesError("a comment with the end of the body in it")
        if self._after_string and _COMMENT_LIKE_STRING.search(self._text, start, end):
            raise AmbiguousQuotesError("a comment, or the end of a string with unescaped quotes")

    def check_whole(self, escaped: str) -> None:
        """Raise `AmbiguousQuotesError` where the whole text with escaped quotes has a second reading.

        A comma between two strings may be a literal in code: `s = ",".join(x)`. A line that begins like a call, in a
        body without an end marker, may be the call begun again. Where no quote was escaped, it is what the model wrote.
        """
        if not self._has_quotes:
            return
        commas = _LITERAL_COMMA.finditer(escaped)
        if any((found[1] or found[2]) in self._delimiters for found in commas):
            raise AmbiguousQuotesError("a comma between two strings, or in a string with unescaped quotes")
        if self._has_end_marker or not self._root.holds_calls:
            return
        if any(self._root.lists_member(found[1]) for found in _CALL_IN_STRING.finditer(escaped)):
            raise AmbiguousQuotesError("a string with unescaped quotes, or a call that was begun again")

    def _skip(self, pos: int) -> int:
        """Skip white space and comments."""
        found = self._skipped.match(self._text, pos)
        assert found is not None
        return found.end()

    def _is_over(self, _pos: int) -> bool:
        """Return whether the body ends here, outside all brackets."""
        return False

    # Structure.

    def _read_token(self, pos: int) -> int:
        found = _TOKEN.match(self._text, pos)
        if found is None:
            return pos
        if found.lastgroup == "quote":
            return self._read_quoted(found[0], pos)
        if found.lastgroup == "word":
            return self._read_word(found)
        char = FULL_WIDTH.get(found[0], found[0])
        if char != found[0]:
            self._write_ascii(pos, char)
        self._read_char(char)
        return found.end()

    def _write_ascii(self, pos: int, char: str) -> None:
        """Write `char` for the full-width character at `pos`, if it is one."""
        if self._text[pos] != char:
            self._out += (self._text[self._copied : pos], char)
            self._copied = pos + 1

    def _read_char(self, char: str) -> None:
        self._after_string = self._after_string and char in "}])"
        scope = self._scopes[-1] if self._scopes else None
        if char in CLOSERS:
            members = self._root if scope is None else scope.inner_members()
            self._scopes.append(Scope(CLOSERS[char], members, keyed=char == "{"))
        elif scope is None:
            return
        elif char in _CLOSING:
            self._close(char)
        elif char == ",":
            scope.index += 1
            scope.expects_value = False

    def _close(self, char: str) -> None:
        """Close the brackets up to the one that `char` closes; a surplus bracket closes nothing."""
        if any(scope.closer == char for scope in self._scopes):
            while self._scopes.pop().closer != char:
                pass
        if self._scopes:
            self._scopes[-1].expects_value = False

    def _read_word(self, found: re.Match[str]) -> int:
        scope = self._scopes[-1] if self._scopes else None
        key = KEY.match(self._text, found.start()) if scope is not None and scope.expects_key else None
        if scope is not None and key is not None:
            self._begin_member(scope, key["word"])
            self._write_ascii(key.end() - 1, FULL_WIDTH.get(key[0][-1], key[0][-1]))
            return key.end()
        if scope is not None:
            scope.expects_value = False
        self._after_string = False
        return found.end()

    def _begin_member(self, scope: Scope, key: str) -> None:
        scope.keys.add(key)
        scope.key, scope.expects_value, scope.has_keyword = key, True, True

    # Strings.

    def _read_quoted(self, quotes: str, pos: int) -> int:
        """Read the string that begins at `pos` with `quotes`: one of them, or three and more."""
        scope = self._scopes[-1] if self._scopes else None
        if scope is not None and self._is_key(scope, pos):
            opening = quotes[:3] if len(quotes) > 2 else quotes[0]
            return self._read_key(scope, opening, pos + len(opening))
        quote = self._opening_quote(quotes[0], pos)
        start = pos + len(quote)
        end = self._read_string(quote, start)
        if scope is not None:
            scope.members = scope.members.after(scope.key, self._text[start : end - len(quote)])
            scope.expects_value = False
        return end

    def _end_string(self, _end: int) -> None:
        """Act on the end of a string that is a value."""

    def _is_key(self, scope: Scope, _pos: int) -> bool:
        """Return whether a string that begins here is a key."""
        return scope.expects_key

    def _opening_quote(self, quote: str, pos: int) -> str:
        """Return the quote or the triple quote that opens a string at `pos`, which may be before the text.

        After more than three quotes, either may be meant.
        """
        found = _QUOTE_RUN.match(self._text, pos + 1)
        assert found is not None
        count = 1 + (found.end() - pos - 1 if found[0].startswith(quote) else 0)
        triple = quote * 3
        if count in {1, 2, 3, 6}:
            return triple if count > 2 else quote
        end = next(self._quotes(triple, pos + 3), None)
        if end is not None and self.follows(end + 3) in ENDS:
            raise AmbiguousQuotesError("a string in triple quotes, or one that begins with quotes")
        return quote

    def _read_key(self, scope: Scope, quote: str, start: int) -> int:
        self._delimiters.add(quote[0])
        end = next(self._quotes(_QUOTES[quote], start), None)
        if end is None:
            raise AmbiguousQuotesError("a key is not closed", unclosed=True)
        if (_QUOTES[quote] == "”" and '"' in self._text[start:end]) or _QUOTE_IN_KEY.search(self._text, start, end):
            raise AmbiguousQuotesError("a key may end with a quote of another kind", unclosed=True)
        self._write_string(end, [])
        self._begin_member(scope, self._text[start:end])
        return end + len(quote)

    def _quotes(self, quote: str, pos: int) -> Iterator[int]:
        """Yield the positions of the quotes that are not escaped."""
        for found in _UNESCAPED[quote](self._text, pos):
            if found[0][0] != "\\":
                yield found.start()

    def _read_string(self, quote: str, start: int) -> int:
        """Read a string from after its opening quote, write it, and return the position after its end."""
        closing = _QUOTES[quote]
        self._delimiters.add(closing[0])
        inner, end = self._find_end(closing, start)
        if inner:
            self._check_content(closing, start, end, inner)
        elif closing == "”" and STRAIGHT_END.search(self._text, start, end):
            raise AmbiguousQuotesError("a string may end with a quote of another kind")
        self._write_string(end, inner)
        self._after_string = True
        return end + len(closing)

    def _write_string(self, end: int, inner: list[int]) -> None:
        for at in inner:
            self._out += (self._text[self._copied : at].replace("\x00", _NUL), "\\")
            self._copied = at
        self._out.append(self._text[self._copied : end].replace("\x00", _NUL))
        self._copied = end

    def _find_end(self, quote: str, start: int) -> tuple[list[int], int]:
        """Return the positions of the quotes inside the string, and that of the quote that ends it."""
        quotes = self._quotes(quote, start)
        first = next(quotes, None)
        if first is None:
            raise AmbiguousQuotesError("a string is not closed", unclosed=True)
        follows = self.follows(first + len(quote))
        after = first + len(quote)
        if follows in ENDS or self._is_continued(after) or self._is_valid_end(after):
            return [], first
        if follows is Follows.WRONG_KEY:
            self._has_wrong_key = True
            if (self._before + self._text[start:first]).count(quote) % 2:
                raise AmbiguousQuotesError("a string with an unpaired quote before a key that the tool does not have")
            return [], first
        return self._find_later_end(quote, [first, *quotes])

    def _is_continued(self, _end: int) -> bool:
        """Return whether another string continues the one that the quote ends."""
        return False

    def _is_valid_end(self, _end: int) -> bool:
        """Return whether the calls are valid as they stand if the first quote of a string ends it."""
        return False

    def _find_later_end(self, quote: str, quotes: list[int]) -> tuple[list[int], int]:
        is_array = len(quote) == 1 and bool(self._scopes) and not self._scopes[-1].keyed
        candidates = _EndCandidates(is_triple=len(quote) == 3, is_array=is_array)
        comment_end = -1
        outside = set(self._outside_triples(quotes))
        for number, at in enumerate(quotes):
            follows = self.follows(at + len(quote))
            if follows in ENDS and at < comment_end:
                raise AmbiguousQuotesError("a string with unescaped quotes may end in a comment")
            if follows is Follows.END_AFTER_COMMENT:
                comment_end, follows = self._comment_end, Follows.NEXT
            candidates.add(number, follows, in_triple=at not in outside)
            if quote != "'" or not self._is_apostrophe(at):
                candidates.count(in_triple=at not in outside)
        end = candidates.choose()
        if candidates.has_both_kinds and not self._are_quotations(quotes[: end + 1]):
            raise AmbiguousQuotesError(_TWO_PLACES)
        return quotes[:end], quotes[end]

    def _are_quotations(self, quotes: Sequence[int]) -> bool:
        """Return whether the quotes inside a string open and close quotations in turn; the last one ends the string."""
        if len(quotes) % 2 == 0:
            return False
        shown = self._before[-2:]  # what precedes the text in the same string
        text, shift = shown + self._text, len(shown)
        return all(_OPENS_QUOTATION.search(text, max(0, at + shift - 2), at + shift) for at in quotes[:-1:2]) and all(
            _CLOSES_QUOTATION.match(text, at + shift + 1) for at in quotes[1::2]
        )

    # What follows a string.

    def follows(self, pos: int) -> Follows:
        """Say what follows the quote before `pos`."""
        self._examined += 1
        if self._examined > _MAX_EXAMINED:
            raise AmbiguousQuotesError("too many quotes")
        self._comment_end = -1
        found = self._find_follows(pos)
        return Follows.END_AFTER_COMMENT if self._comment_end >= 0 and found in ENDS else found

    def _find_follows(self, pos: int) -> Follows:
        text, scopes = self._text, self._scopes
        depth, exact, after_comma, comment = len(scopes), True, False, False
        while True:
            start, pos = pos, self._skip(pos)
            if _QUOTE.search(text, start, pos) is not None:
                comment, self._comment_end = True, pos
            char = self._structural_char(pos)
            if char and char in _CLOSING and depth:
                if char != scopes[depth - 1].closer:
                    if after_comma or depth < 2 or char != scopes[depth - 2].closer:
                        return Follows.NOTHING_FITTING
                    depth, exact = depth - 1, False
                depth -= 1
                after_comma = False
            elif char == "," and depth:
                after_comma = True
            elif char and depth:
                return self._follows_in(scopes[depth - 1], pos, after_comma=after_comma)
            elif char:
                return self._follows_body(pos, exact=exact)
            elif depth and comment:
                return Follows.COMMENT
            else:
                return Follows.END if exact and not depth else Follows.INEXACT_END
            pos += 1

    def _structural_char(self, pos: int) -> str:
        """Return the character at `pos`; an empty string at the end, or at a code fence there."""
        char = self._text[pos : pos + 1]
        if char == "`" and _FENCE_AT_END.match(self._text, pos):
            return ""
        return FULL_WIDTH.get(char, char)

    def _follows_in(self, scope: Scope, pos: int, *, after_comma: bool) -> Follows:
        """Say what follows in a bracket that stays open, after a comma or without one."""
        text = self._text
        if not after_comma and not text[pos - 1].isspace():
            return Follows.NOTHING_FITTING
        if scope.keyed:
            key = KEY.match(text, pos)
            return Follows.NOTHING_FITTING if key is None else follows_key(scope, key, after_comma=after_comma)
        if ARRAY_VALUE.match(text, pos) is None or (scope.members.holds_calls and text[pos] not in "{｛"):
            return Follows.NOTHING_FITTING
        if not after_comma and text[pos] in "\"'" and text[pos - 1] != "\n":
            return Follows.NO_COMMA
        if text[pos] in "{｛":
            key = KEY.match(text, self._skip(pos + 1))
            if key is not None and scope.members.item(0).lists_member(written_key(key)) is False:
                return Follows.WRONG_KEY
        return Follows.NEXT

    def _follows_body(self, pos: int, *, exact: bool) -> Follows:
        """Say what follows after the last closing bracket."""
        found = _SURPLUS.match(self._text, pos)
        assert found is not None
        end = found.end()
        if end == len(self._text):
            surplus = any(FULL_WIDTH.get(char, char) in _CLOSING for char in found[0])
            return Follows.END if exact and not surplus else Follows.INEXACT_END
        if self._text[end] not in "{｛":
            return Follows.NOTHING_FITTING
        key = KEY.match(self._text, self._skip(end + 1))
        return (
            Follows.NEXT if key is not None and self._root.lists_member(written_key(key)) else Follows.NOTHING_FITTING
        )


class _EndCandidates:
    """The quotes that may end a string which contains quotes."""

    def __init__(self, *, is_triple: bool, is_array: bool) -> None:
        self._is_triple = is_triple
        self._is_array = is_array
        self.has_both_kinds = False
        """True in an array where quotes may end the string of which an even and an odd number precede."""
        self._unpaired = self._unpaired_outside = False
        """True after an odd number of quotes; and of those that are not a part of three, a docstring's sign."""
        self._end = -1
        self._end_unpaired = self._end_unpaired_outside = False
        self._end_follows = Follows.NOTHING_FITTING
        self._has_wrong_key = self._has_unpaired_wrong_key = self._has_comment = False

    def count(self, *, in_triple: bool) -> None:
        """Count a quote that was added."""
        self._unpaired = not self._unpaired
        self._unpaired_outside ^= not in_triple

    def add(self, number: int, follows: Follows, *, in_triple: bool) -> None:
        """Add the quote with this number; raises `AmbiguousQuotesError` if both of two may end the string."""
        if follows in ENDS:
            if self._end < 0:
                self._choose(number, follows)
            elif self._unpaired is not self._end_unpaired:
                if not self._is_array:
                    raise AmbiguousQuotesError(_TWO_PLACES)
                self.has_both_kinds = True
                if self._end_unpaired:
                    self._choose(number, follows)
        elif self._end >= 0:
            return
        elif follows is Follows.COMMENT:
            self._has_comment = True
        elif follows is not Follows.NOTHING_FITTING:
            unpaired = self._unpaired if in_triple else self._unpaired_outside
            self._has_wrong_key = self._has_wrong_key or not unpaired
            self._has_unpaired_wrong_key = self._has_unpaired_wrong_key or unpaired

    def _choose(self, number: int, follows: Follows) -> None:
        self._end, self._end_follows = number, follows
        self._end_unpaired, self._end_unpaired_outside = self._unpaired, self._unpaired_outside

    def choose(self) -> int:
        """Return the number of the quote that ends the string. Raises `AmbiguousQuotesError`."""
        if self._end < 0:
            raise AmbiguousQuotesError("a string is not closed", unclosed=True)
        if self._is_triple and self._end_unpaired:
            raise AmbiguousQuotesError("a string in triple quotes that contains them")
        if self._has_wrong_key or (self._has_unpaired_wrong_key and self._end_unpaired_outside):
            raise AmbiguousQuotesError(
                "a string with unescaped quotes may end before a key that the tool does not have"
            )
        if self._end_follows is Follows.INEXACT_END and (self._end_unpaired or self._has_comment):
            raise AmbiguousQuotesError("a string with unescaped quotes, and brackets missing or left over")
        return self._end


def follows_key(scope: Scope, key: re.Match[str], *, after_comma: bool) -> Follows:
    """Return whether a key that follows a value can come there."""
    if not after_comma and key["word"] is not None:
        return Follows.NOTHING_FITTING
    written = written_key(key)
    assigned = key["word"] is not None and key[0][-1] == "=" and not scope.is_arguments
    wrong = assigned or written in scope.keys or scope.members.lists_member(written) is False
    return Follows.WRONG_KEY if wrong else Follows.NEXT


def _ends_with_member(comment: str) -> bool:
    """Return whether the last line of a comment contains a member and ends with a closing bracket."""
    line = comment.rstrip().rpartition("\n")[2]
    closer = max(line.rfind("}"), line.rfind("]"), 0)
    return _WORD.search(line, closer) is None and _END_OF_KEY.search(line, 0, closer) is not None


def after_last_quote(text: str) -> str:
    """Return what follows the last quote of JSON that is not escaped: the content of the open string."""
    end = len(text)
    while (at := text.rfind('"', 0, end)) >= 0 and _ODD_BACKSLASHES.search(text, max(0, at - MAX_BEFORE), at):
        end = at
    return text[at + 1 :]


_UNESCAPED = {quote: re.compile(r"\\[\s\S]|" + re.escape(quote)).finditer for quote in _QUOTES.values()}
_ODD_BACKSLASHES = re.compile(r"(?<!\\)(?>(?:\\\\)*)\\\Z")
_NUL = "\\u0000"
