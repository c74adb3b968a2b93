"""Checks whether a string with unescaped quotes may be something else.

Rule: a string whose quotes may also be those of other strings, keys or an expression has two readings, and is refused.
The checks read the text between the quotes, and the keys that the schema still admits:

- An unpaired quote with a missing or a surplus closing bracket is ambiguous: the string's own quote may be missing. So
  is one before which a key or, in an array, an item may begin: `"x, "k": "y"` may be two members.
- Text that is an expression as it stands (`"a" + "b"`) is ambiguous.
"""

import enum
import re
from abc import ABC, abstractmethod
from collections.abc import Sequence

from fcshim.parse.arguments.scopes import Members, Scope

_MAX_TAIL = 1_000
"""Characters after the last string that are looked at for a missing quote."""
CLOSERS = {"{": "}", "[": "]", "(": ")"}


class AmbiguousQuotesError(Exception):
    """The end of a string is not certain; `unclosed` if no quote can end it."""

    def __init__(self, message: str, *, unclosed: bool = False) -> None:
        super().__init__(message)
        self.unclosed = unclosed


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
_LONGEST_PREFIX = 3
"""Characters before a quote that say what it is: a prefix, and what precedes it."""
_APOSTROPHE = re.compile(r"(?<=\w)(?<!\\[nrt])(?<!\b[rRbBfFuU])(?<!\b[rRbBfF]{2})'(?=\w)(?![rRbBfFuU]{1,2}[\"'])")
"""An apostrophe inside a word, not the quote of a literal after an escape, or after or before a prefix."""
KEY = re.compile(
    r"""(?:(?:[A-Za-z]\w{0,20}\s{1,16}){1,4}(?=["']))?"""
    r"""(?:"(?P<double>(?:[^"\\]|\\[\s\S]){0,128})"|'(?P<single>(?:[^'\\]|\\[\s\S]){0,128})'"""
    r"""|[“”](?P<curly>[^“”]{0,128})”|(?P<word>[\w$][\w$.-]{0,127}))\s{0,64}(?:[:：]|=(?!=))"""
    r"""|"(?P<alone>[\w$.-]{1,64})"(?=\s{1,64}(?:["'{\[+.\d-]|(?:true|false|null|True|False|None)\b))"""
)
_LAST_LINE = re.compile(r"[\"'](?:\s*[}\])｝］）])+[ \t,，;]*+\n")
_MAX_GAP = 256
"""Characters between two strings that are looked at as structure."""
MAX_BEFORE = 200
"""Characters before a quote that are looked at for a key: a long name fits."""
_BEFORE_VALUE = re.compile(
    r"(?:[,，;\n]|\\n|(?P<opener>[{｛\[(]))\s*(?:(?P<word>[\w$][\w$.-]{0,127})\s{0,64}[:：=]\s{0,64}[{\[(]{0,3}"
    r"\s{0,8}[rRbBfFuU]{0,2})?\Z"
)
"""The text before a quote that may begin an item or a key, or a value after the key `word`."""
_OPENS_LITERAL = re.compile(r"[({\[,](?>(?:\s|\\[nrt]){0,64})\Z")
"""The text before a quote that opens a literal in code, but ends no key."""
_COLON = re.compile(r"\s{0,64}[:：]")
_MAX_KEY = 128
_LINE_BREAK = re.compile(r"[\n\r]|\\[nr]")
_NEXT_MEMBER = re.compile(r"[\s\]})]{0,64}[,，]\s{0,64}(?:[\"']|[\w$][\w$.-]{0,127}(?:[\"']|[\"']?\s{0,64}[:：=]))")
_BEFORE_PARAMETER = re.compile(
    r"[\s\]})]{0,64}+(?:\w(?=[,，]))?[,，]?\s{0,64}+[^\s\w\"']?\s{0,64}+\w?\s{0,64}+"
    r"(?=[\"']|(?<![\w\"'])(?P<word>[\w$][\w$.-]{0,127})[\"'={\[])"
)
_UNCERTAIN_KEY = re.compile(r"[\"'](?P<word>[\w$][\w$.-]{0,127})[\"']\s{0,64}\w?\s{0,64}[\"'\d{\[-]")
"""A key whose colon is missing or wrong."""
_GLUED_KEY = re.compile(r"(?P<word>[\w$][\w$.-]{0,127})[\"']\s{0,64}[:：]")
"""A key directly after the quote that ends a value: its comma and its first quote are missing."""
_ENDS_WORD = re.compile(r"\w\Z(?<!\b[rRbBfFuU])(?<!\b[rRbBfF]{2})")
"""The end of a word, but no prefix of a literal in code."""
_CLOSES_QUOTATION = re.compile(r"[\s)\]},;:.!?]|\\[nrt]")
_QUOTATION = re.compile(r"(?=[^\s\d'\"\\)\]},;])(?:[^\n\\]|\\[^nr])*(?<=[^\s\d'(\[{])")
"""Text in one line that a quotation holds, which ends with no digit: `6"` are inches."""
_NEXT_ITEM = re.compile(r"\s{0,64}[,，:：]")
"""What follows a quote before a key or an item, one of whose own quotes may be missing."""
_DOUBLED = re.compile(r"([\"'])(?!\1)[\s\S]*(?<!\1)\1")
"""The content of a string in doubled quotes, or of one with quotes around all of it."""
_DOUBLED_AFTER_WORD = re.compile(r"[^\s(\[{=,:;+<>&|\"'\\-]([\"'])\1\Z")
"""Two quotes at the end of a string: in code they are a literal, which follows a blank or an operator."""
_DAMAGED_KEY = re.compile(r"\s{0,64}(?P<comma>,?)\s{0,64}(?P<word>\w{1,128})\s{0,64}(?P<sign>[^\w\s\"']?)\s{0,64}")
_LAST_WORD = re.compile(r"\w*\Z")
_OPENS_CODE = re.compile(r"(?:[^\w)\].?]|\\[nrt]|(?:\A|\W|\\[nrt])[rRbBfFuU]{1,2}|[^\x00-\u2e7f])\Z")
"""What precedes a literal in code or a quotation in text; Chinese and Japanese have no blanks."""
_CLOSES_CODE = re.compile(r"\"(?:[^\w]|(?<!\s\")(?:(?:if|else|and|or|in|for|is|not)\b|[^\x00-\u2e7f]))")
"""The end of a literal or quotation, and what follows it; one that ends with a blank stands before a sign."""
_GLUED_STRINGS = re.compile(r"[;,>{}']\"\"(?:[ \t]+(?!(?:if|else|and|or|in|for|is|not)\b)[\w(]|[(\[{])")
"""Two quotes behind a sign and before a word: no empty literal of code, but the end of a string before another one."""
_OPENS_QUOTATION = re.compile(r"(?:[\s(\[{<>=:,;!&|+*/%-]|\\[nrt]|[^\x00-\u2e7f])\Z")
"""What precedes a quotation, where it does not begin the string; Chinese and Japanese have no blanks."""
_BEGINS_WORD = re.compile(r"[^\s\"')\]}>,;.:!?]")
_PLAIN_QUOTE = re.compile(r"(?<!\\)\"")
_INSIDE_WORD = re.compile(r"(?<=[a-zA-Z_])(?<!\b[rRbBfFuU])(?<!\b[rRbBfF]{2})\"(?=[a-zA-Z_])")
"""A quote that neither opens nor closes a quotation."""
_BEGINS_TWICE = re.compile(r"\s*[=:]\s*[\"']")
"""A string that is begun again after its equals sign or colon."""
_KEY_LIKE = re.compile(r"[\w$][\w$ .-]{0,64}")
_STRUCTURE = re.compile(
    r"\s{0,64}(?=[,;:.|=\]}){(\[\xa0\u200b-\u200f\u2028\u2029\ufeff\ufffd]|-?\d)"
    r"(?>[^\w\"'\\]|(?:\d+|true|false|null|True|False|None)(?!\w)|\w+(?=\s{0,64}[^\w\s\"'\\,]))*"
    r"|,\s{0,64}[^\"'\\]{1,128},\s{0,64}|,\s{0,64}\w{1,64}\s{1,64}|,\s{0,64}\w{1,2}|\s{0,64}"
)
"""What stands between two strings of a container where one character of it is missing or wrong."""
_ODD_SIGN = re.compile(r"\A\s*+[{\[(]|[^\w\s,:=\[\](){}.+-]|(?<=[^\W\d])[.+-]|[.+-](?=[^\W\d])")
"""A sign that structure does not have, or not there."""
_SEPARATOR_ALONE = re.compile(r"\s{0,64}[,;|/&]\s{0,64}")
_WORD = re.compile(r"\w")
_NO_CODE = re.compile(r"\s(?!\s*[^\w\s\"'\\])|\w")
"""What follows a literal neither in an expression nor in a call: a value beside the first one may begin so."""
_CLOSERS_ONLY = "}]) \t\r\n"
_OPENS_VALUE = re.compile(r"[,;\]})].*[^\w\s\"'\\,]\s*\Z|,\s*\w{1,64}\s+\Z", re.DOTALL)
"""The text before a string that is the value of a key without quotes, or that stands in a bracket."""
_AFTER_OTHER_QUOTE = re.compile(r"'\s{0,64}[,，]\s{0,64}\"([\w$][\w$.-]{0,127})\"\s{0,64}[:：]")
_CURLY_END = re.compile(r"[“”]\s*[,:}\]]|[,:{\[]\s*[“”]")
STRAIGHT_END = re.compile(r"(?<!\\)\"\s*[,:}\]]")
"""Where a string ends or begins with quotes of the other kind."""


class QuotedContentChecks(ABC):
    """Checks the strings of one text; a subclass reads the text, and updates the scopes.

    `scopes` are the brackets that are open where the text begins, `root` is what may stand outside all brackets. A
    string with unescaped quotes must not contain one of `call_markers`, nor a line with which the body may end, unless
    an end marker was read after the text (`has_end_marker`).
    """

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
        self._scopes = list(scopes)
        self._root = root
        self._call_markers = call_markers
        self._has_end_marker = has_end_marker
        self._before = ""
        """The content of the open string before the text."""
        self._is_continued_string = False
        """True while the string is read in which the text begins, unless right after its quote."""
        self._has_quotes = False
        """True after a string with unescaped quotes."""

    @abstractmethod
    def follows(self, pos: int) -> Follows:
        """Return what follows the quote before `pos`."""

    def _alternate(self, quotes: Sequence[int]) -> bool:
        """Return whether the quotes inside a string may open and close literals in turn, as they do in code."""
        shown = self._before[-3:]
        text, shift = shown + self._text, len(shown)
        quotes = [*self._outside_triples(quotes[:-1]), quotes[-1]]
        opens = [at + shift for at in quotes[:-1:2] if at + shift]
        if any(_GLUED_STRINGS.match(text, at - 1) for at in opens):
            return False
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
        if self._begins_with_key(quote, start, inner[0]) or self._precedes_parameter(inner[0] + len(quote)):
            raise AmbiguousQuotesError("a key without its bracket, or a string with unescaped quotes")
        if len(quote) == 1:
            self._check_quotes_of_string(quote, content, start, end)
        if quote == "'":
            inner = [at for at in inner if not self._is_apostrophe(at)]
        if len(inner) % 2:
            outside = self._outside_triples(inner)
            inner = inner if len(outside) % 2 else outside
        if len(inner) % 2:
            self._check_own_quote(start, end, inner)
            self._check_own_brace(content, start, end + len(quote))
        elif inner:
            self._check_pairs(quote, content, start, end, inner)

    def _opens_quotation(self, at: int) -> bool:
        """Return whether the quote at `at` stands before a word, as at the start of a quotation."""
        before = (self._before[-2:] + self._text[max(0, at - 2) : at])[-2:]
        return _OPENS_QUOTATION.search(before) is not None and _BEGINS_WORD.match(self._text, at + 1) is not None

    def _is_apostrophe(self, at: int) -> bool:
        """Return whether the quote at `at` is an apostrophe inside a word."""
        before = (self._before[-_LONGEST_PREFIX:] + self._text[max(0, at - _LONGEST_PREFIX) : at])[-_LONGEST_PREFIX:]
        word = before + self._text[at : at + 1 + _LONGEST_PREFIX]
        return _APOSTROPHE.match(word, len(before)) is not None

    def _begins_with_key(self, quote: str, start: int, end: int) -> bool:
        """Return whether the string may be a key and its value, whose bracket is missing."""
        key = self._before[-MAX_BEFORE:] + self._text[start:end]
        is_line = len(key) <= _MAX_KEY and _LINE_BREAK.search(key) is None
        return is_line and bool(_COLON.match(self._text, end + len(quote))) and not _OPENS_LITERAL.search(key)

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
        if quote == '"' and not _PLAIN_QUOTE.search(content):
            raise AmbiguousQuotesError("a string's quotes are escaped twice, or not at all")
        if "\ufffd" in content:
            raise AmbiguousQuotesError("bytes were lost in a string with unescaped quotes")
        if not content.strip(quote):
            raise AmbiguousQuotesError("a string of quotes, or an empty one with its own quotes doubled")
        if any(self._lacks_member(found[1]) for found in _AFTER_OTHER_QUOTE.finditer(content)):
            raise AmbiguousQuotesError("a string may end with a quote of another kind")
        if _CURLY_END.search(content) or (quote == "'" and self._may_end_straight(start, end)):
            raise AmbiguousQuotesError("a string may end with a quote of another kind")
        is_doubled = not self._is_continued_string and _DOUBLED.fullmatch(self._text, start, end) is not None
        if is_doubled or _DOUBLED_AFTER_WORD.search(content) or _BEGINS_TWICE.match(content):
            raise AmbiguousQuotesError("a string in doubled quotes, or one with quotes around it")

    def _may_end_straight(self, start: int, end: int) -> bool:
        """Return whether a string in single quotes may end with a double one."""
        return any(self.follows(found.start() + 1) in ENDS for found in STRAIGHT_END.finditer(self._text, start, end))

    def _lacks_member(self, key: str) -> bool:
        """Return whether a key of an open bracket is still missing."""
        return any(
            scope.keyed and key not in scope.keys and bool(scope.members.lists_member(key)) for scope in self._scopes
        )

    def _are_members(self, strings: Sequence[str], gaps: Sequence[str]) -> bool:
        """Return whether these may be several strings as they stand, with one separator or bracket damaged."""
        scope = self._scopes[-1] if self._scopes else None
        strings = [self._before + strings[0], *strings[1:]]
        if scope is not None and scope.keyed and self._names_parameter(strings[0], gaps[0]):
            return True
        if scope is None or not all(map(_may_be_structure, gaps)):
            return False
        if not scope.keyed:
            return not all(gap.isalnum() for gap in gaps) and (len(gaps) == 1 or any(map(str.strip, gaps)))
        opens_value = gaps[0].strip(_CLOSERS_ONLY) and _OPENS_VALUE.search(gaps[0])
        if opens_value or _are_two_values(strings, gaps):
            return True
        if not _is_balanced("".join(gaps)):
            # After a bracket in the place of another one comes a key, and never code.
            is_item = _is_balanced(gaps[0]) and not scope.inner_members().admits_only_strings
            return is_item or _KEY_LIKE.fullmatch(strings[1].strip()) is not None
        is_separated = gaps[0].strip() == "," if len(gaps) == 1 else any(map(str.strip, gaps))
        key = _LAST_WORD.findall(gaps[0])[0] + strings[1]
        return is_separated and _KEY_LIKE.fullmatch(key.strip(" :=,")) is not None

    def _names_parameter(self, before: str, gap: str) -> bool:
        """Return whether a parameter that has not come yet stands before a value, with a damaged separator or quote."""
        found = _DAMAGED_KEY.fullmatch(gap)
        is_separated = found is not None and (found["comma"] or found["sign"] or before.rstrip()[-1:] == ",")
        return found is not None and bool(is_separated) and self._lacks_member(found["word"])

    def _precedes_parameter(self, pos: int) -> bool:
        """Return whether a parameter that is still missing follows the first quote of a string and a wrong bracket."""
        found = _BEFORE_PARAMETER.match(self._text, pos)
        if found is None:
            return False
        key = KEY.match(self._text, found.end())
        uncertain = _UNCERTAIN_KEY.match(self._text, found.end())
        written = written_key(key) if key else uncertain["word"] if uncertain else found["word"]
        return self._lacks_member(written)

    def _check_own_quote(self, start: int, end: int, inner: Sequence[int]) -> None:
        """Raise `AmbiguousQuotesError` if a quote is doubled, or if the string may end before a key or an item.

        Its own quote may be missing, or one of those of the key or the item.
        """
        is_doubled = (inner[0] == start and not self._is_continued_string) or inner[-1] == end - 1
        follows = _NEXT_MEMBER if self._scopes and self._scopes[-1].keyed else _NEXT_ITEM
        if is_doubled or any(follows.match(self._text, at + 1) for at in inner[::2]):
            raise AmbiguousQuotesError("a string with an unpaired quote before a key or an item")
        if self._lacks_quote_of_quotation(start, end, inner):
            raise AmbiguousQuotesError("a string with a quotation that does not end, or does not begin")
        for at in inner[::2]:
            before = self._before[-MAX_BEFORE:] + self._text[max(0, at - MAX_BEFORE) : at]
            found = _BEFORE_VALUE.search(before)
            if found is not None and self._may_begin(found, at):
                raise AmbiguousQuotesError("a string without its closing quote, or with unescaped quotes")
            glued = _GLUED_KEY.match(self._text, at + 1) if _ENDS_WORD.search(before) else None
            if glued is not None and self._lacks_member(glued["word"]):
                raise AmbiguousQuotesError("a key without its comma and quote, or a string with unescaped quotes")

    def _lacks_quote_of_quotation(self, start: int, end: int, inner: Sequence[int]) -> bool:
        """Return whether a quotation in the string does not end, or one in its first line does not begin.

        One of two quotes in a row may be missing there: `"say "hi"` for `"say "hi""`.
        """
        content = self._before[-_LONGEST_PREFIX:] + self._text[start:end]
        if self._opens_quotation(inner[-1]) or _INSIDE_WORD.search(content):
            return True
        first = self._before + self._text[start : inner[0]]
        follows = _CLOSES_QUOTATION.match(self._text, inner[0] + 1)
        return self._text[end] == '"' and follows is not None and _QUOTATION.fullmatch(first) is not None

    def _check_later_member(self, inner: Sequence[int]) -> None:
        """Raise `AmbiguousQuotesError` if the string may end before a damaged item, and a later quote begin a value."""
        is_keyed = bool(self._scopes) and self._scopes[-1].keyed
        ends = (at for at in inner[::2] if is_keyed and _NEXT_ITEM.match(self._text, at + 1))
        first = next(ends, None)
        if first is None:
            return
        for at in inner[1::2]:
            found = _BEFORE_VALUE.search(self._text, max(0, at - MAX_BEFORE), at) if at > first else None
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


def written_key(key: re.Match[str]) -> str:
    """Return the key that `KEY` matched."""
    return next(text for text in key.groups() if text is not None)


def _may_be_structure(gap: str) -> bool:
    """Return whether this may stand between two strings of a container, with one mistake."""
    return len(gap) <= _MAX_GAP and _STRUCTURE.fullmatch(gap) is not None and len(_ODD_SIGN.findall(gap)) < 2


def _are_two_values(strings: Sequence[str], gaps: Sequence[str]) -> bool:
    """Return whether these may be two values of one key, or one value several times, with a separator or nothing."""
    are_apart = all(not gap.strip() or _SEPARATOR_ALONE.fullmatch(gap) for gap in gaps)
    if are_apart and len(set(strings)) == 1 and _WORD.search(strings[0]):
        return True
    if len(gaps) != 1:
        return False
    ends_word = _ENDS_WORD.search(strings[0]) is not None
    is_separator = _SEPARATOR_ALONE.fullmatch(gaps[0]) is not None
    return ends_word if not gaps[0] else is_separator and (ends_word or _NO_CODE.match(strings[1]) is not None)


def _is_balanced(text: str) -> bool:
    return all(text.count(opener) == text.count(closer) for opener, closer in CLOSERS.items())
