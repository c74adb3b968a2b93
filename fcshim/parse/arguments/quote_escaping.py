r"""Escape the quotes that a model forgot to escape, in a body that is held until its end.

Theory of operation. The text is read bracket by bracket, with what the schema says about each. A quote may end a string
only if what follows it can follow a value there: a comma and the next key with its colon (in an array, the next value),
or closing brackets and then the same, or the end of the body. If the first quote of a string can, it does. Otherwise
the string contains quotes, and every quote that could end it is examined up to the end of the body:

- Quotes inside a string come in pairs, so the ends that fit the true reading have the same number of quotes, modulo
  two, before them. Ends of both kinds are two readings: the text is ambiguous.
- A key that cannot come there (not offered, or there already) ends no string. It is content only between the quotes of
  a pair, in a string whose quotes are paired; else it may be an invented key, and the text is ambiguous.
- An unpaired quote with a missing or a surplus closing bracket is ambiguous: the string's own quote may be missing. So
  is one before which a key or, in an array, an item may begin: `"x, "k": "y"` may be two members.
- Text that is an expression as it stands (`"a" + "b"`) is ambiguous.

Rule: an ambiguous text raises `AmbiguousQuotesError`; nothing is guessed. The number of examined quotes is limited.
"""

import enum
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from fcshim.schema.expect import Expectation

_MAX_TAIL = 1_000
"""Characters after the last string that are looked at for a missing quote."""
_MAX_EXAMINED = 20_000
"""Quotes that are examined in one body: about 0.05 s, for text with many strings that contain quotes."""


class AmbiguousQuotesError(Exception):
    """The end of a string is not certain; `unclosed` if no quote can end it."""

    def __init__(self, message: str, *, unclosed: bool = False) -> None:
        super().__init__(message)
        self.unclosed = unclosed


class Members:
    """What may stand in a container; this base class admits everything."""

    holds_calls = False
    """True if the container holds the parts of calls, not of their arguments."""
    admits_only_strings = False
    """True if this is a value that can only be a string."""

    def lists_member(self, _key: str) -> bool | None:
        """Return whether a key is one of the known ones; None where any key may come."""
        return None

    def member(self, _key: str) -> "Members":
        """Return what may stand in a member."""
        return self

    def item(self, _index: int) -> "Members":
        """Return what may stand in an element."""
        return self

    def take_string(self, key: str, text: str) -> None:
        """Take the text of a string member."""


ANYTHING = Members()


class SchemaMembers(Members):
    """What the schema admits."""

    def __init__(self, expectation: Expectation) -> None:
        self._expectation = expectation

    @property
    def admits_only_strings(self) -> bool:  # type: ignore[override] # a property for a class attribute
        """True if this is a value that can only be a string."""
        return self._expectation.only_strings

    def lists_member(self, key: str) -> bool | None:
        """Return whether a key is one of the known ones; None where any key may come."""
        return self._expectation.lists_member(key)

    def member(self, key: str) -> Members:
        """Return what may stand in a member."""
        return SchemaMembers(self._expectation.member(key))

    def item(self, index: int) -> Members:
        """Return what may stand in an element."""
        return SchemaMembers(self._expectation.item(index))


@dataclass(slots=True)
class Scope:
    """One open bracket."""

    closer: str
    """The bracket that closes it."""
    members: Members
    keyed: bool
    """True if its values have keys."""
    keys: set[str] = field(default_factory=set)
    """The keys that were read."""
    key: str = ""
    """The key of the current value."""
    index: int = 0
    """The number of values before the current one."""
    expects_value: bool = False
    """True after a key."""
    is_arguments: bool = False
    """True if it holds the arguments of a call in Python's syntax."""
    has_keyword: bool = False
    """True after a key."""

    @property
    def expects_key(self) -> bool:
        """True where a key must come."""
        return self.keyed and not self.expects_value

    def inner_members(self) -> Members:
        """Return what may stand in the current value."""
        return self.members.member(self.key) if self.keyed else self.members.item(self.index)

    def has_wrong_key(self) -> bool:
        """Return whether one of its keys is none of the known ones."""
        return not self.members.holds_calls and any(self.members.lists_member(key) is False for key in self.keys)


FULL_WIDTH = {"，": ",", "：": ":", "｛": "{", "｝": "}", "［": "[", "］": "]", "（": "(", "）": ")"}
"""Punctuation as Chinese and Japanese keyboards write it, and what it stands for outside strings."""
_CLOSERS = {"{": "}", "[": "]", "(": ")"}
_CLOSING = frozenset(_CLOSERS.values())
_QUOTES = {'"': '"', "'": "'", "“": "”", "”": "”", '"""': '"""', "'''": "'''"}


class Follows(enum.Enum):
    """What follows a quote."""

    NOTHING_FITTING = enum.auto()
    """Text that cannot follow a string."""
    NEXT = enum.auto()
    """The next key or value."""
    WRONG_KEY = enum.auto()
    """A key that cannot come there."""
    END = enum.auto()
    """Exactly the closing brackets that are open, and the end of the body or the next call."""
    INEXACT_END = enum.auto()
    """The end of the body, with brackets missing or left over."""
    END_AFTER_COMMENT = enum.auto()
    """One of the ends, after a comment with quotes."""
    COMMENT = enum.auto()
    """A comment with quotes, up to the end of the body: the string may end in it."""
    NO_COMMA = enum.auto()
    """Another string of an array on the same line, without a comma."""


ENDS = frozenset({Follows.NEXT, Follows.END, Follows.INEXACT_END})
_SKIPPED = re.compile(r"(?:\s++|//[^\n]*+|\#[^\n]*+|/\*(?:[^*]|\*(?!/))*\*/)*")
KEY = re.compile(
    r"""(?:(?:[A-Za-z]\w{0,20}\s{1,16}){1,4}(?=["']))?"""
    r"""(?:"(?P<double>(?:[^"\\]|\\[\s\S]){0,128})"|'(?P<single>(?:[^'\\]|\\[\s\S]){0,128})'"""
    r"""|[“”](?P<curly>[^“”]{0,128})”|(?P<word>[\w$][\w$.-]{0,127}))\s{0,64}(?:[:：]|=(?!=))"""
    r"""|"(?P<alone>[\w$.-]{1,64})"(?=\s{1,64}(?:["'{\[+.\d-]|(?:true|false|null|True|False|None)\b))"""
)
_QUOTE = re.compile(r"[\"']")
_COMMENT_LIKE_STRING = re.compile(r"[\"']\s*(?:[,}\])]|\Z)")
_MEMBER_IN_COMMENT = re.compile(r"[\"']\s{0,64}[:：][^\n]*[}\]][^\n\w]*\s*\Z")
_QUOTE_RUN = re.compile(r"\"++|'*+")
ARRAY_VALUE = re.compile(
    r"""(?:[rRbBfFuU]{1,2})?["']|[“”{\[(｛［（]|[+-]?\.?\d|(?:true|false|null|True|False|None)\b"""
)
_SURPLUS = re.compile(r"[\s}\])｝］）`,;.]*+")
_FENCE_AT_END = re.compile(r"`{3,8}\s*\Z")
_TOKEN = re.compile(r"""(?P<quote>\"{3,}|'{3,}|["'“”])|(?P<word>[\w$][\w$.+-]*+)|(?P<char>[\s\S])""")
_APOSTROPHE = re.compile(r"(?<=\w)'(?=\w)")
_LITERAL_COMMA = re.compile(
    r"(?<!\\)([\"'])(?:(?<=[\s(\[{<>=:,;!&|+*/%\"'-][\"'])|(?<=\W[rRbBfFuU][\"']))\s{0,16}+,\s{0,16}+\1(?=[.)\]}+,:;%*\[=!|&\\])|(?<!\\)([\"']),\2(?=[\s<>?'\"-])"
)
"""A comma between quotes, and what precedes and follows a literal in code."""
_LAST_LINE = re.compile(r"[\"'](?:\s*[}\])｝］）])+[ \t,，;]*+\n")
_CALL_IN_STRING = re.compile(r"(?:\n|\\n)[ \t]*(?:\[\s{0,16})?\{\s{0,16}\\?[\"'](\w{1,64})\\?[\"']\s{0,16}:")
"""A line in a string, written as JSON, which begins like a call without markers."""
_MAX_GAP = 256
"""Characters between two strings that are looked at as structure."""
_MAX_BEFORE = 200
"""Characters before a quote that are looked at for a key: a long name fits."""
_BEFORE_VALUE = re.compile(
    r"(?:[,，;\n]|\\n|(?P<opener>[{｛\[(]))\s*(?:(?P<word>[\w$][\w$.-]{0,127})\s{0,64}[:：=]\s{0,64}[{\[(]{0,3}"
    r"\s{0,8}[rRbBfFuU]{0,2})?\Z"
)
"""The text before a quote that may begin an item or a key, or a value after the key `word`."""
_OPENS_LITERAL = re.compile(r"[({\[,](?>(?:\s|\\[nrt]){0,64})\Z")
"""The text before a quote that opens a literal in code, but ends no key."""
_COLON = re.compile(r"\s{0,64}[:：]")
_NEXT_MEMBER = re.compile(r"[\s\]})]{0,64}[,，]\s{0,64}(?:[\"']|[\w$][\w$.-]{0,127}(?:[\"']|[\"']?\s{0,64}[:：=]))")
_BEFORE_PARAMETER = re.compile(
    r"[\s\]})]{0,64}+(?:\w(?=[,，]))?[,，]?\s{0,64}+[^\s\w\"']?\s{0,64}+\w?\s{0,64}+"
    r"(?=[\"']|(?<![\w\"'])(?P<word>[\w$][\w$.-]{0,127})[\"'={\[])"
)
_UNCERTAIN_KEY = re.compile(r"[\"'](?P<word>[\w$][\w$.-]{0,127})[\"']\s{0,64}\w?\s{0,64}[\"'\d{\[-]")
"""A key whose colon is missing or wrong."""
_NEXT_ITEM = re.compile(r"\s{0,64}[,，:：]")
"""What follows a quote before a key or an item, one of whose own quotes may be missing."""
_DOUBLED = re.compile(r"([\"'])(?!\1)[\s\S]*(?<!\1)\1")
"""The content of a string in doubled quotes, or of one with quotes around all of it."""
_DOUBLED_AFTER_WORD = re.compile(r"[^\s(\[{=,:;+<>&|\"'\\-]([\"'])\1\Z")
"""Two quotes at the end of a string: in code they are a literal, which follows a blank or an operator."""
_DAMAGED_KEY = re.compile(r"\s{0,64}(?P<comma>,?)\s{0,64}(?P<word>\w{1,128})\s{0,64}(?P<sign>[^\w\s\"']?)\s{0,64}")
_LAST_WORD = re.compile(r"\w*\Z")
_TWO_PLACES = "a string with unescaped quotes may end at two places"
_OPENS_QUOTATION = re.compile(r"(?:[\s(\[{<>=:,;!&|+*/%\"'-]|\\[nrt])\Z")
_OPENS_CODE = re.compile(r"(?:[^\w)\].?]|\\[nrt]|(?:\A|\W|\\[nrt])[rRbBfFuU]{1,2}|[^\x00-\u2e7f])\Z")
"""What precedes a literal in code or a quotation in text; Chinese and Japanese have no blanks."""
_CLOSES_CODE = re.compile(r"\"(?:[^\w]|(?<!\s\")(?:(?:if|else|and|or|in|for|is|not)\b|[^\x00-\u2e7f]))")
"""The end of a literal or quotation, and what follows it; one that ends with a blank stands before a sign."""
"""What precedes a quotation in text or code, where it does not begin the string."""
_CLOSES_QUOTATION = re.compile(r"[\s)\]}>=:,;.!?&|+*/%\"'-]|\\[nrt]")
_BEGINS_TWICE = re.compile(r"\s*[=:]\s*[\"']")
"""A string that is begun again after its equals sign or colon."""
_KEY_LIKE = re.compile(r"[\w$][\w$ .-]{0,64}")
_STRUCTURE = re.compile(
    r"\s{0,64}(?=[,;:.|=\]}){(\[\xa0\u200b-\u200f\u2028\u2029\ufeff\ufffd]|-?\d)"
    r"(?>[^\w\"'\\]|(?:\d+|true|false|null|True|False|None)(?!\w)|\w+(?=\s{0,64}[^\w\s\"'\\,]))*"
    r"|,\s{0,64}[^\"'\\]{1,128},\s{0,64}|,\s{0,64}\w{1,64}\s{1,64}|,\s{0,64}\w{1,2}|\s{0,64}"
)
"""What stands between two strings of a container where one character of it is missing or wrong."""
_OPENS_VALUE = re.compile(r"[,;\]})].*[^\w\s\"'\\,]\s*\Z|,\s*\w{1,64}\s+\Z", re.DOTALL)
"""The text before a string that is the value of a key without quotes, or that stands in a bracket."""
_QUOTE_IN_KEY = re.compile(r"[\"']\s{0,64}[:：,]")
_AFTER_OTHER_QUOTE = re.compile(r"'\s{0,64}[,，]\s{0,64}\"([\w$][\w$.-]{0,127})\"\s{0,64}[:：]")
_CURLY_END = re.compile(r"[“”]\s*[,:}\]]|[,:{\[]\s*[“”]")
_STRAIGHT_END = re.compile(r"(?<!\\)\"\s*[,:}\]]")
"""Where a string ends or begins with quotes of the other kind."""


class QuoteEscaper:
    """Escapes the quotes inside the strings of one text.

    `scopes` are the brackets that are open where the text begins, `root` is what may stand outside all brackets. A
    string with unescaped quotes must not contain one of `call_markers`, nor a line with which the body may end, unless
    an end marker was read after the text (`has_end_marker`).
    """

    _skipped: ClassVar[re.Pattern[str]] = _SKIPPED
    """White space and comments."""

    def __init__(
        self,
        text: str,
        scopes: Sequence[Scope],
        root: Members,
        call_markers: Sequence[str] = (),
        *,
        has_end_marker: bool = True,
    ) -> None:
        self._text = text
        self._has_end_marker = has_end_marker
        self._scopes = list(scopes)
        self._root = root
        self._call_markers = call_markers
        self._before = ""
        """The content of the open string before the text."""
        self._is_continued_string = False
        """True while the string is read in which the text begins, unless right after its quote."""
        self._out: list[str] = []
        self._copied = 0
        self._examined = 0
        self._has_wrong_key = any(scope.has_wrong_key() for scope in scopes)
        self._has_quotes = False
        self._comment_end = -1
        """The end of the last comment with quotes that was skipped after a quote; negative if there is none."""
        self._after_string = True
        """True after a string and closing brackets, where a comment may be content of the string."""

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
        while pos < len(text):
            inside, start = bool(self._scopes), pos
            pos = self._skip(pos)
            if pos == len(text) and self._scopes and _MEMBER_IN_COMMENT.search(text, start):
                raise AmbiguousQuotesError("a comment with the end of the body in it")
            if self._after_string and _COMMENT_LIKE_STRING.search(self._text, start, pos):
                raise AmbiguousQuotesError("a comment, or the end of a string with unescaped quotes")
            pos = self._read_token(pos)
            if inside and not self._scopes and self._is_over(pos):
                break
        if self._has_quotes and self._has_wrong_key:
            raise AmbiguousQuotesError("a key that the tool does not have, and unescaped quotes")
        self._out.append(text[self._copied :])
        return "".join(self._out)

    def check_whole(self, escaped: str) -> None:
        """Raise `AmbiguousQuotesError` where the whole text with escaped quotes has a second reading.

        A comma between two strings may be a literal in code: `s = ",".join(x)`. A line that begins like a call, in a
        body without an end marker, may be the call begun again. Where no quote was escaped, it is what the model wrote.
        """
        if not self._has_quotes:
            return
        if _LITERAL_COMMA.search(escaped) is not None:
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
        if found["quote"]:
            return self._read_quoted(found["quote"], pos)
        if found["word"]:
            return self._read_word(found)
        char = FULL_WIDTH.get(found["char"], found["char"])
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
        if char in _CLOSERS:
            members = self._root if scope is None else scope.inner_members()
            self._scopes.append(Scope(_CLOSERS[char], members, keyed=char == "{"))
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
            scope.members.take_string(scope.key, self._text[start : end - len(quote)])
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
        inner, end = self._find_end(closing, start)
        if inner:
            self._check_content(closing, start, end, inner)
        elif closing == "”" and _STRAIGHT_END.search(self._text, start, end):
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
        for number, at in enumerate(quotes):
            follows = self.follows(at + len(quote))
            if follows in ENDS and at < comment_end:
                raise AmbiguousQuotesError("a string with unescaped quotes may end in a comment")
            if follows is Follows.END_AFTER_COMMENT:
                comment_end, follows = self._comment_end, Follows.NEXT
            candidates.add(number, follows)
            if quote != "'" or _APOSTROPHE.match(self._text, at) is None:
                candidates.unpaired = not candidates.unpaired
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

    def _alternate(self, quotes: Sequence[int]) -> bool:
        """Return whether the quotes inside a string may open and close literals in turn, as they do in code."""
        shown = self._before[-3:]
        text, shift = shown + self._text, len(shown)
        quotes = [*self._outside_triples(quotes[:-1]), quotes[-1]]
        opens = (at + shift for at in quotes[:-1:2] if at + shift)
        return all(_OPENS_CODE.search(text, max(0, at - 3), at) for at in opens) and all(
            _CLOSES_CODE.match(text, at + shift) for at in quotes[1::2]
        )

    def _outside_triples(self, inner: Sequence[int]) -> list[int]:
        """Return the quotes inside a string without those of triple quotes, which are one sign in code."""
        positions = set(inner)
        found = [at for at in inner if at - 1 not in positions and {at + 1, at + 2} <= positions]
        triples = {at + offset for at in found if at + 3 not in positions for offset in range(3)}
        return [at for at in inner if at not in triples]

    def _check_content(self, quote: str, start: int, end: int, inner: list[int]) -> None:
        """Raise `AmbiguousQuotesError` if the string may be something else than a string with unescaped quotes."""
        self._has_quotes = True
        text = self._text
        content = self._before + text[start:end]
        if quote == "”" or any(marker in content for marker in self._call_markers):
            raise AmbiguousQuotesError("a string with unescaped quotes runs past a marker")
        if not self._has_end_marker and _LAST_LINE.search(text, inner[0], end) is not None:
            raise AmbiguousQuotesError(
                "a string with unescaped quotes runs past the end of a line that may end the body"
            )
        begins_with_colon = _COLON.match(text, inner[0] + len(quote)) and not _OPENS_LITERAL.search(
            self._before + text[start : inner[0]]
        )
        if begins_with_colon or self._precedes_parameter(inner[0] + len(quote)):
            raise AmbiguousQuotesError("a key without its bracket, or a string with unescaped quotes")
        if len(quote) == 1:
            self._check_quotes_of_string(quote, content, start, end)
        if len(inner) % 2 and len(quote) == 1 and content.strip(quote):
            outside = self._outside_triples(inner)
            inner = inner if len(outside) % 2 else outside
        if len(inner) % 2:
            self._check_own_quote(start, end, inner)
            self._check_own_brace(content, start, end + len(quote))
        elif inner:
            self._check_pairs(quote, content, start, end, inner)

    def _check_own_brace(self, content: str, start: int, end: int) -> None:
        """Raise `AmbiguousQuotesError` if the braces that are open in a string may be those of the body."""
        closers = self._closing_braces(end)
        # The text may begin inside the string, after one of its braces.
        if closers and content.count("{") - content.count("}") in {closers, closers - (not start and closers > 1)}:
            raise AmbiguousQuotesError("a string with an unpaired quote and an open brace")

    def _check_pairs(self, quote: str, content: str, start: int, end: int, inner: list[int]) -> None:
        """Raise `AmbiguousQuotesError` if an even number of quotes may enclose something else than a string."""
        text = self._text
        self._check_later_member(inner)
        if quote == '"' and not self._alternate([*inner, end]):
            raise AmbiguousQuotesError("strings with a sign between them, or a string with unescaped quotes")
        if not _is_balanced(content) and self.follows(end + len(quote)) is Follows.INEXACT_END:
            raise AmbiguousQuotesError(
                "a string with unescaped quotes and a bracket, and brackets missing or left over"
            )
        bounds = [start, *(at + len(quote) for at in inner)], [*inner, end]
        pieces = [text[begin:stop] for begin, stop in zip(*bounds, strict=True)]
        strings, gaps = pieces[::2], pieces[1::2]
        if self._are_members(strings, gaps):
            raise AmbiguousQuotesError("strings with a damaged separator or bracket, or a string with unescaped quotes")
        balanced = _is_balanced("".join(gaps)) or self.follows(end + len(quote)) is Follows.INEXACT_END
        if balanced and all(map(self._may_be_string, strings)) and self._may_be_expression(gaps):
            raise AmbiguousQuotesError("an expression, or a string with unescaped quotes")

    def _check_quotes_of_string(self, quote: str, content: str, start: int, end: int) -> None:
        """Raise `AmbiguousQuotesError` if some quotes are escaped, or if the string's own quotes may be doubled."""
        if re.search(rf"(?<!\\)(?:\\\\)*\\{re.escape(quote)}", content):
            raise AmbiguousQuotesError("some of a string's quotes are escaped")
        if "\ufffd" in content:
            raise AmbiguousQuotesError("bytes were lost in a string with unescaped quotes")
        if not content.strip(quote):
            raise AmbiguousQuotesError("a string of quotes, or an empty one with its own quotes doubled")
        if any(self._lacks_member(found[1]) for found in _AFTER_OTHER_QUOTE.finditer(content)):
            raise AmbiguousQuotesError("a string may end with a quote of another kind")
        if _CURLY_END.search(content) or (quote == "'" and _STRAIGHT_END.search(content)):
            raise AmbiguousQuotesError("a string may end with a quote of another kind")
        is_doubled = not self._is_continued_string and _DOUBLED.fullmatch(self._text, start, end) is not None
        if is_doubled or _DOUBLED_AFTER_WORD.search(content) or _BEGINS_TWICE.match(content):
            raise AmbiguousQuotesError("a string in doubled quotes, or one with quotes around it")

    def _lacks_member(self, key: str) -> bool:
        """Return whether a key of an open bracket is still missing."""
        return any(
            scope.keyed and key not in scope.keys and bool(scope.members.lists_member(key)) for scope in self._scopes
        )

    def _are_members(self, strings: Sequence[str], gaps: Sequence[str]) -> bool:
        """Return whether these may be several strings as they stand, with one separator or bracket damaged."""
        scope = self._scopes[-1] if self._scopes else None
        if scope is not None and scope.keyed and self._names_parameter(strings[0], gaps[0]):
            return True
        if scope is None or not all(len(gap) <= _MAX_GAP and _STRUCTURE.fullmatch(gap) for gap in gaps):
            return False
        if not scope.keyed:
            return not all(gap.isalnum() for gap in gaps) and (len(gaps) == 1 or any(map(str.strip, gaps)))
        if _OPENS_VALUE.search(gaps[0]):
            return True
        if not _is_balanced("".join(gaps)):
            # After a bracket in the place of another one comes a key, and never code.
            return _is_balanced(gaps[0]) or _KEY_LIKE.fullmatch(strings[1].strip()) is not None
        is_separated = gaps[0].strip() == "," if len(gaps) == 1 else any(map(str.strip, gaps))
        return is_separated and self._may_be_key(_LAST_WORD.findall(gaps[0])[0] + strings[1])

    def _names_parameter(self, before: str, gap: str) -> bool:
        """Return whether a parameter that has not come yet stands before a value, with a damaged separator or quote."""
        found = _DAMAGED_KEY.fullmatch(gap)
        is_separated = found is not None and (found["comma"] or found["sign"] or before.rstrip()[-1:] == ",")
        return (
            found is not None
            and bool(is_separated)
            and any(
                scope.keyed and found["word"] not in scope.keys and bool(scope.members.lists_member(found["word"]))
                for scope in self._scopes
            )
        )

    def _may_be_key(self, text: str) -> bool:
        """Return whether a string may be a key of an open bracket, with a damaged separator."""
        key = text.strip(" :=,")
        return _KEY_LIKE.fullmatch(key) is not None and any(
            scope.keyed and scope.members.lists_member(key) is not False for scope in self._scopes
        )

    def _precedes_parameter(self, pos: int) -> bool:
        """Return whether a parameter that is still missing follows the first quote of a string and a wrong bracket."""
        found = _BEFORE_PARAMETER.match(self._text, pos)
        if found is None:
            return False
        key = KEY.match(self._text, found.end())
        uncertain = _UNCERTAIN_KEY.match(self._text, found.end())
        written = written_key(key) if key else uncertain["word"] if uncertain else found["word"]
        return any(
            scope.keyed and written not in scope.keys and scope.members.lists_member(written) for scope in self._scopes
        )

    def _check_own_quote(self, start: int, end: int, inner: Sequence[int]) -> None:
        """Raise `AmbiguousQuotesError` if a quote is doubled, or if the string may end before a key or an item.

        Its own quote may be missing, or one of those of the key or the item.
        """
        is_doubled = (inner[0] == start and not self._is_continued_string) or inner[-1] == end - 1
        is_doubled = is_doubled and not self._has_triple_quote(start, end)
        follows = _NEXT_MEMBER if self._scopes and self._scopes[-1].keyed else _NEXT_ITEM
        if is_doubled or any(follows.match(self._text, at + 1) for at in inner[::2]):
            raise AmbiguousQuotesError("a string with an unpaired quote before a key or an item")
        for at in inner[::2]:
            before = self._before[-_MAX_BEFORE:] + self._text[max(0, at - _MAX_BEFORE) : at]
            found = _BEFORE_VALUE.search(before)
            if found is not None and self._may_begin(found, at):
                raise AmbiguousQuotesError("a string without its closing quote, or with unescaped quotes")

    def _has_triple_quote(self, start: int, end: int) -> bool:
        """Return whether a string begins or ends with three quotes, as part of code with a docstring, but not both."""
        content, triple = self._before + self._text[start:end], '"' * 3
        before, after = len(content) - len(content.lstrip('"')), len(content) - len(content.rstrip('"'))
        return len(content) > len(triple) and {before, after} == {0, len(triple)}

    def _check_later_member(self, inner: Sequence[int]) -> None:
        """Raise `AmbiguousQuotesError` if the string may end before a damaged item, and a later quote begin a value."""
        is_keyed = bool(self._scopes) and self._scopes[-1].keyed
        ends = (at for at in inner[::2] if is_keyed and _NEXT_ITEM.match(self._text, at + 1))
        first = next(ends, None)
        if first is None:
            return
        for at in inner[1::2]:
            found = _BEFORE_VALUE.search(self._text, max(0, at - _MAX_BEFORE), at) if at > first else None
            if found is not None and found["word"] and self._may_begin(found, at):
                raise AmbiguousQuotesError("a damaged member, or a string with unescaped quotes")

    def _may_begin(self, before: re.Match[str], at: int) -> bool:
        """Return whether the quote at `at`, or the word before it, may begin an item, a key, or the value of a key."""
        if before["opener"] == "(":
            return True
        key = None if before["word"] else KEY.match(self._text, at)
        written = before["word"] if key is None else written_key(key)
        if not written:
            return bool(self._scopes) and not self._scopes[-1].keyed
        return bool(self._root.holds_calls and self._root.lists_member(written)) or any(
            scope.keyed and written not in scope.keys and scope.members.lists_member(written) is not False
            for scope in self._scopes
        )

    def _may_be_string(self, _content: str) -> bool:
        """Return whether this may stand between the quotes of a string."""
        return True

    def _is_gap(self, gap: str) -> bool:
        """Return whether this may stand between two strings of an expression."""
        text = gap.strip()
        return (text[:1] == text[-1:] == "+") if text else bool(gap)

    def _may_be_expression(self, gaps: Sequence[str]) -> bool:
        """Return whether these may stand between the strings of an expression."""
        return all(map(self._is_gap, gaps))

    def _closing_braces(self, pos: int) -> int:
        """Return the number of closing braces at the end of the body, if nothing else follows."""
        tail = self._text[pos:] if len(self._text) - pos < _MAX_TAIL else ""
        return tail.count("}") if not tail.strip(" \t\r\n}])") else 0

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
        self.unpaired = False
        """True after an odd number of quotes."""
        self._end = -1
        self._end_unpaired = False
        self._end_follows = Follows.NOTHING_FITTING
        self._has_wrong_key = self._has_unpaired_wrong_key = self._has_comment = False

    def add(self, number: int, follows: Follows) -> None:
        """Add the quote with this number; raises `AmbiguousQuotesError` if both of two may end the string."""
        if follows in ENDS:
            if self._end < 0:
                self._end, self._end_unpaired, self._end_follows = number, self.unpaired, follows
            elif self.unpaired is not self._end_unpaired:
                if not self._is_array:
                    raise AmbiguousQuotesError(_TWO_PLACES)
                self.has_both_kinds = True
                if self._end_unpaired:
                    self._end, self._end_unpaired, self._end_follows = number, self.unpaired, follows
        elif self._end >= 0:
            return
        elif follows is Follows.COMMENT:
            self._has_comment = True
        elif follows is not Follows.NOTHING_FITTING:
            self._has_wrong_key = self._has_wrong_key or not self.unpaired
            self._has_unpaired_wrong_key = self._has_unpaired_wrong_key or self.unpaired

    def choose(self) -> int:
        """Return the number of the quote that ends the string. Raises `AmbiguousQuotesError`."""
        if self._end < 0:
            raise AmbiguousQuotesError("a string is not closed", unclosed=True)
        if self._is_triple and self._end_unpaired:
            raise AmbiguousQuotesError("a string in triple quotes that contains them")
        if self._has_wrong_key or (self._has_unpaired_wrong_key and self._end_unpaired):
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


def written_key(key: re.Match[str]) -> str:
    """Return the key that `KEY` matched."""
    return next(text for text in key.groups() if text is not None)


def after_last_quote(text: str) -> str:
    """Return what follows the last quote of JSON that is not escaped: the content of the open string."""
    end = len(text)
    while (at := text.rfind('"', 0, end)) >= 0 and _ODD_BACKSLASHES.search(text, max(0, at - _MAX_BEFORE), at):
        end = at
    return text[at + 1 :]


def _is_balanced(text: str) -> bool:
    return all(text.count(opener) == text.count(closer) for opener, closer in _CLOSERS.items())


_UNESCAPED = {quote: re.compile(r"\\[\s\S]|" + re.escape(quote)).finditer for quote in _QUOTES.values()}
_ODD_BACKSLASHES = re.compile(r"(?<!\\)(?>(?:\\\\)*)\\\Z")
_NUL = "\\u0000"
