"""Parser for the regular expressions of JSON Schema (ECMAScript's), giving expressions over characters.

Literals, classes, groups, alternatives, repetitions and anchors at both ends are supported; without an anchor any
text may come before or after. Lookaround, backreferences, word boundaries, Unicode properties and lone surrogates are
not supported.
"""

import re

from fcshim.constrain.grammar import Chars, Expression, LiteralText, Ranges, Repeat, Series, choice, series, without
from fcshim.schema.node import has_lone_surrogate

_MAX_DEPTH = 20
_MAX_REPEATS = 2_000
"""Largest count of a repetition."""

_ALL: Ranges = ((0x20, 0xD7FF), (0xE000, 0x10FFFF))
_DIGIT: Ranges = ((0x30, 0x39),)
_WORD: Ranges = ((0x30, 0x39), (0x41, 0x5A), (0x5F, 0x5F), (0x61, 0x7A))
_SPACE: Ranges = ((0x20, 0x20),)
"""What `\\s` admits: a plain space is enough to write."""
_SPACES: Ranges = (
    *((0x20, 0x20), (0x85, 0x85), (0xA0, 0xA0), (0x1680, 0x1680), (0x2000, 0x200A), (0x2028, 0x2029)),
    *((0x202F, 0x202F), (0x205F, 0x205F), (0x3000, 0x3000), (0xFEFF, 0xFEFF)),
)
"""What `\\S` and negated classes with `\\s` exclude: all that some regular expression engine takes for a space."""
_ANY = Repeat(Chars(_ALL), 0, None, "characters")
ANYTHING = (_ANY, Repeat(Chars(_ALL), 1, None, "characters"))
"""The expressions of `.*` and `.+`."""
_COUNT = re.compile(r"\{(\d{1,5})(,?)(\d{0,5})\}")
_GROUP = re.compile(r"\((?:\?:|\?P?<[A-Za-z_]\w{0,63}>)?")
_CODE = re.compile(r"x([0-9A-Fa-f]{2})|u([0-9A-Fa-f]{4})")
_CHARACTER_ESCAPES = {"n": "\n", "r": "\r", "t": "\t", "f": "\f", "v": "\v", "0": "\0"}


class UnsupportedRegexError(Exception):
    """The regular expression uses a feature that is not supported, or is malformed."""


def read_regex(text: str) -> Expression:
    """Return the strings that match, in linear time. Raises `UnsupportedRegexError`."""
    return _RegexReader(text).read()


class _RegexReader:
    """A recursive descent parser for one regular expression."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def read(self) -> Expression:
        """Read the whole expression. A side of an alternative without an anchor admits any text."""
        options = [self._anchored()]
        while self._accept("|"):
            options.append(self._anchored())
        if self._at < len(self._text):
            raise UnsupportedRegexError
        return choice(options)

    def _anchored(self) -> Expression:
        is_start_anchored = self._accept("^")
        inner = self._series(0)
        is_end_anchored = self._accept("$")
        parts = inner.parts if isinstance(inner, Series) else (inner,)
        before = [] if is_start_anchored or parts[0] in ANYTHING else [_ANY]
        return series(*before, inner, *([] if is_end_anchored or parts[-1] in ANYTHING else [_ANY]))

    def _alternatives(self, depth: int) -> Expression:
        options = [self._series(depth)]
        while self._accept("|"):
            options.append(self._series(depth))
        return choice(options)

    def _series(self, depth: int) -> Expression:
        parts: list[Expression] = []
        while self._at < len(self._text) and self._text[self._at] not in "|)$":
            parts.append(self._repeated(self._atom(depth)))
        return series(*parts)

    def _atom(self, depth: int) -> Expression:
        group = _GROUP.match(self._text, self._at)
        if group:
            self._at = group.end()
            if depth == _MAX_DEPTH or self._text[self._at : self._at + 1] == "?":
                raise UnsupportedRegexError
            inner = self._alternatives(depth + 1)
            if not self._accept(")"):
                raise UnsupportedRegexError
            return inner
        char = self._text[self._at]
        self._at += 1
        match char:
            case ".":
                return Chars(_ALL)
            case "[":
                return Chars(self._class())
            case "\\":
                found = self._escape()
                return LiteralText(found) if isinstance(found, str) else Chars(found)
            case "*" | "+" | "?" | "^" | "{":
                raise UnsupportedRegexError
        return LiteralText(char)

    def _repeated(self, part: Expression) -> Expression:
        count = _COUNT.match(self._text, self._at)
        if count:
            self._at = count.end()
            minimum = int(count[1])
            maximum = minimum if not count[2] else int(count[3]) if count[3] else None
        elif self._text[self._at : self._at + 1] in {"*", "+", "?"}:
            minimum, maximum = {"*": (0, None), "+": (1, None), "?": (0, 1)}[self._text[self._at]]
            self._at += 1
        else:
            return part
        self._accept("?")  # a lazy quantifier admits the same texts
        if max(minimum, maximum or 0) > _MAX_REPEATS or (maximum is not None and maximum < minimum):
            raise UnsupportedRegexError
        return Repeat(part, minimum, maximum, "characters" if maximum is None else "")

    def _class(self) -> Ranges:
        is_negated = self._accept("^")
        found: list[tuple[int, int]] = []
        while not self._accept("]"):
            first = self._class_member()
            if self._text[self._at : self._at + 1] != "-" or self._text[self._at + 1 : self._at + 2] == "]":
                found += first if isinstance(first, tuple) else ((ord(first), ord(first)),)
                continue
            self._at += 1
            last = self._class_member()
            if not isinstance(first, str) or not isinstance(last, str) or last < first:
                raise UnsupportedRegexError
            found.append((ord(first), ord(last)))
        found += _SPACES if is_negated and _SPACE[0] in found else ()
        left = without(_ALL, found) if is_negated else tuple(sorted(found))
        if not left:
            raise UnsupportedRegexError
        return left

    def _class_member(self) -> str | Ranges:
        if self._at >= len(self._text):
            raise UnsupportedRegexError
        char = self._text[self._at]
        self._at += 1
        return self._escape() if char == "\\" else char

    def _escape(self) -> str | Ranges:
        """Read what follows a backslash."""
        code = _CODE.match(self._text, self._at)
        if code:
            self._at = code.end()
            read = chr(int(code[1] or code[2], 16))
            if has_lone_surrogate(read):
                raise UnsupportedRegexError
            return read
        char = self._text[self._at : self._at + 1]
        self._at += 1
        sets: dict[str, Ranges] = {
            "d": _DIGIT,
            "w": _WORD,
            "s": _SPACE,
            "D": without(_ALL, _DIGIT),
            "W": without(_ALL, _WORD),
            "S": without(_ALL, _SPACES),
        }
        if char in sets:
            return sets[char]
        if not char or (char.isalnum() and char not in _CHARACTER_ESCAPES):
            raise UnsupportedRegexError
        return _CHARACTER_ESCAPES.get(char, char)

    def _accept(self, char: str) -> bool:
        taken = self._text.startswith(char, self._at)
        self._at += taken
        return taken
