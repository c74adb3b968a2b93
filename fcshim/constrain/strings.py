"""The strings of a value syntax: their quotes and their characters.

Rule: no string is longer than its schema allows, whatever a sampler writes. llama.cpp matches a character when its last
byte has come. Where a grammar admits U+0800 to U+0FFF, whose first byte is E0, it also admits that byte before U+0080
to U+07FF, and where it admits characters of four bytes, F0 before those of two and three. Such overlong UTF-8 is
decoded to one U+FFFD for each byte: three or four characters instead of one.

A string with a largest length is therefore one of several kinds (`_KINDS`). Each admits its own set of characters and
no overlong form of them, so a character can only be overlong while several kinds are possible: the first one that is
not ASCII, and the first one of two bytes. The limit of each kind is lower by the characters that such an overlong form
may add.
"""

import itertools
import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from fcshim.constrain.excluded_markers import text_excluding
from fcshim.constrain.grammar import (
    EMPTY,
    Alternation,
    Chars,
    CountedUnit,
    Expression,
    LiteralText,
    Ranges,
    Repeat,
    Series,
    chars,
    choice,
    intersection,
    series,
    without,
)
from fcshim.constrain.rules import Rules

_HEX = chars("09", "af", "AF")


def _escape(single: str) -> Expression:
    r"""Admit a backslash and one of these characters, or `\uXXXX` except for surrogates: none may stand alone."""
    not_d = series(chars("09", "ac", "AC", "ef", "EF"), Repeat(_HEX, 3, 3))
    d000_to_d7ff = series(chars("d", "D"), chars("07"), Repeat(_HEX, 2, 2))
    return series(LiteralText("\\"), choice([chars(*single), series(LiteralText("u"), choice([not_d, d000_to_d7ff]))]))


def _surrogate_pair() -> Expression:
    """Admit a character of four bytes as JSON escapes it."""
    high = series(LiteralText("\\u"), chars("d", "D"), chars("89", "ab", "AB"), Repeat(_HEX, 2, 2))
    return series(high, LiteralText("\\u"), chars("d", "D"), chars("cf", "CF"), Repeat(_HEX, 2, 2))


JSON_ESCAPE = choice([_escape('"\\/bfnrt'), _surrogate_pair()])
PYTHON_ESCAPE = _escape('"\\bfnrt')


def _escapes_of_others(characters: Collection[str]) -> list[Expression]:
    """Return the escapes of JSON that spell none of the characters; of the numeric ones those outside ASCII."""
    single = [letter for letter in '"\\/bfnrt' if json.loads(f'"\\{letter}"') not in characters]
    found: list[Expression] = [series(LiteralText("\\"), chars(*single))] if single else []
    if all(char.isascii() for char in characters):
        beyond = [series(LiteralText("0"), chars("19", "af", "AF")), series(chars("19", "ac", "AC", "ef", "EF"), _HEX)]
        beyond.append(series(chars("d", "D"), chars("07")))
        latin = series(LiteralText("00"), chars("89", "af", "AF"), _HEX)
        found.append(series(LiteralText("\\u"), choice([latin, *(series(part, _HEX, _HEX) for part in beyond)])))
        found.append(_surrogate_pair())
    return found


PRINTABLE: Ranges = ((0x20, 0x7E), (0xA0, 0xD7FF), (0xE000, 0xFFFD), (0x10000, 0x10FFFF))
MULTILINE: Ranges = ((0x9, 0xA), *PRINTABLE)
_TWO_BYTES, _E0, _OTHER_THREE_BYTES, _F0 = (0x80, 0x7FF), (0x800, 0xFFF), (0x1000, 0xFFFF), (0x10000, 0x10FFFF)
_FRAGILE: Ranges = (_E0, _F0)
"""Characters for which byte-wise sampling may produce overlong UTF-8."""


class _StringKind(NamedTuple):
    """A kind of strings: its name, the characters that it excludes, and how much shorter than the limit it is."""

    name: str
    excluded: Ranges
    cost: int


_ANY = _StringKind("any", (), 0)
_WITHOUT_FRAGILE = _StringKind("whole", _FRAGILE, 0)
_KINDS: tuple[tuple[int, tuple[_StringKind, ...]], ...] = (
    (
        40,
        (
            _StringKind("emoji", (_TWO_BYTES, _E0, _OTHER_THREE_BYTES), 0),
            _StringKind("three", (_TWO_BYTES, _F0), 3),
            _StringKind("whole", _FRAGILE, 5),
        ),
    ),
    (8, (_StringKind("three", (_TWO_BYTES, _F0), 0), _StringKind("whole", _FRAGILE, 2))),
    (0, (_WITHOUT_FRAGILE,)),
)
"""The kinds, by the lowest limit at which they are used: ASCII with emoji; every script of three bytes; everything but
the fragile characters.
"""
_SPECIAL_MARKUP_STARTS = "<["
"""First characters of special tokens (`<s>`, `[INST]`). llama.cpp accepts such a token where its text is allowed, but
then drops it from the output, which leaves the string too short."""

_MAX_MIN_LENGTH = 100_000
"""Largest `minLength`, in characters, that is enforced."""
_MAX_EXCLUDED = 100
"""Characters of the texts from which a string must differ: each repeats what may follow in a regular expression."""
_MAX_KEY_LENGTH = 64
"""Longest key, in characters, that the schema does not name."""


@dataclass(frozen=True, slots=True)
class StringSyntax:
    """One kind of strings: between `quote`s, or raw if `quote` is empty, over `ranges`, containing none of `markers`.

    `name` is the prefix of its rule names.
    """

    name: str
    quote: str = '"'
    ranges: Ranges = PRINTABLE
    escape: Expression | None = None
    markers: tuple[str, ...] = ()

    @property
    def is_raw(self) -> bool:
        """Whether strings have no quotes, so that only their text distinguishes them from other values."""
        return not self.quote

    def can_hold(self, text: str) -> bool:
        """Return whether a text can be written without escapes: it contains no marker."""
        return not any(marker in text for marker in self.markers)

    def quoted(self, content: Expression) -> Expression:
        """Put quotes around content."""
        return series(LiteralText(self.quote), content, LiteralText(self.quote))

    def as_content(self, part: Expression) -> Expression | None:
        """Turn an expression over characters, without rule references, into string content.

        Character sets lose the characters that byte-wise sampling may break. None where a character cannot be written.
        """
        match part:
            case LiteralText():
                return self._literal_content(part.text)
            case Chars():
                kept = intersection(part.ranges, self._plain_characters())
                return Chars(kept) if kept else None
            case Alternation():
                options = [option for option in map(self.as_content, part.options) if option is not None]
                return choice(options) if options else None
            case Series():
                parts = [inner for inner in map(self.as_content, part.parts) if inner is not None]
                return series(*parts) if len(parts) == len(part.parts) else None
        inner = self.as_content(part.part) if isinstance(part, Repeat) else None
        return inner if inner is None or not isinstance(part, Repeat) else msgspec.structs.replace(part, part=inner)

    def _literal_content(self, text: str) -> LiteralText | None:
        letters: list[str] = []
        for char in text:
            is_plain = any(low <= ord(char) <= high for low, high in self._allowed_characters())
            if any(marker[0] == char for marker in self.markers) or (not is_plain and self.escape is None):
                return None
            letters.append(char if is_plain else json.dumps(char)[1:-1])
        return LiteralText("".join(letters))

    def any(self, rules: Rules) -> Expression:
        """Admit any string."""
        return rules.once(self.name, lambda: self.quoted(self.content(rules)))

    def of_length(self, rules: Rules, minimum: int, maximum: int | None) -> Expression | None:
        """Admit strings of `minimum` to `maximum` characters; None where there are none, or `minimum` is too large."""
        if minimum > _MAX_MIN_LENGTH or (maximum is not None and maximum < minimum):
            return None
        return self.quoted(self._content_of_length(rules, minimum, maximum))

    def excluding(
        self, rules: Rules, first_characters: str, words: Sequence[str], minimum: int, maximum: int | None
    ) -> Expression | None:
        """Admit raw strings that start with none of `first_characters`, and are none of `words`.

        The parser would read such text as a value of another kind (`5`, `[`, `true`).
        """
        if minimum > _MAX_MIN_LENGTH or (maximum is not None and maximum < minimum):
            return None
        safe = self._safe_characters(() if maximum is None else _FRAGILE)
        start = without(safe, [*map(ord, f" \t\n{first_characters}"), *(ord(word[0]) for word in words)])
        options: list[tuple[int, Expression]] = [(0, Chars(start))]
        for word in words:
            ends = [(at, Chars(without(safe, [ord(word[at])]))) for at in range(1, len(word))]
            ends.append((len(word), Chars(without(safe, map(ord, " \t\n")))))
            options += [(at, series(LiteralText(word[:at]), end)) for at, end in ends]
        found: list[Expression] = [] if minimum else [EMPTY]
        for written, part in options:
            if maximum is None or maximum > written:
                found.append(series(part, self._remaining_content(rules, written + 1, minimum, maximum)))
        short = {
            word[:at] for word in words for at in range(max(minimum, 1), len(word)) if maximum is None or at <= maximum
        }
        found += map(LiteralText, sorted(short))
        return choice(found) if found else None

    def content(self, rules: Rules, counts: CountedUnit = "characters") -> Expression:
        """Admit the text between the quotes, limited by the unit that `counts` names."""
        char = f"{self.name}-char"
        if not self.markers:
            one = rules.once(char, lambda: self._or_escape(Chars(self._allowed_characters())))
            return Repeat(one, 0, None, counts)
        escape = None if self.escape is None else rules.share(self.escape, f"{self.name}-escape")
        units = text_excluding(self.name, self.markers, self._allowed_characters(), escape)
        rules.rules.update(units.rules)
        last = rules.once(f"{self.name}-last", lambda: units.last)
        return series(Repeat(rules.once(char, lambda: units.unit), 0, None, counts), last)

    def key(self, rules: Rules) -> Expression:
        """Admit a key that the schema does not name."""
        first = Chars(self._plain_characters(()))
        more = Repeat(self._unit(rules, "any", ()), 0, _MAX_KEY_LENGTH - 1, "characters")
        return rules.once(f"{self.name}-key", lambda: self.quoted(series(first, more)))

    def key_except(self, rules: Rules, names: Collection[str]) -> Expression:
        """Admit a key that is none of `names`. Escapes come only after it differs from all: they could spell one."""
        rest = rules.once(
            f"{self.name}-key-rest",
            lambda: Repeat(self._unit(rules, "any", ()), 0, _MAX_KEY_LENGTH - 1, "characters"),
        )
        key = self.quoted(self._differing(rules, sorted(set(names)), 0, rest))
        return rules.share(key, f"{self.name}-{len(rules.rules)}-key")

    def any_except(self, rules: Rules, texts: Collection[str]) -> Expression | None:
        """Admit any string but these; None where the syntax has no escapes of JSON, or the texts are too long."""
        if self.escape != JSON_ESCAPE or self.markers or sum(map(len, texts)) > _MAX_EXCLUDED:
            return None
        return rules.share(self.quoted(self._differing(rules, sorted(set(texts)), 0, self.content(rules), values=True)))

    def _differing(
        self, rules: Rules, texts: list[str], at: int, rest: Expression, *, values: bool = False
    ) -> Expression:
        """Admit what may follow the first `at` characters, which the sorted `texts` share, of another text."""
        safe = self._allowed_characters() if values else self._safe_characters(()) if at else self._plain_characters(())
        groups = {char: list(group) for char, group in itertools.groupby(texts, key=lambda text: text[at : at + 1])}
        options: list[Expression] = [EMPTY] if (at or values) and "" not in groups else []
        others = Chars(without(safe, [ord(char) for char in groups if char]))
        options.append(series(choice([others, *(_escapes_of_others(groups) if values else ())]), rest))
        for char, group in groups.items():
            written = LiteralText(json.dumps(char, ensure_ascii=False)[1:-1])
            if char and (values or intersection(safe, ((ord(char), ord(char)),))):
                options.append(series(written, self._differing(rules, group, at + 1, rest, values=values)))
        return rules.share(choice(options))

    def _remaining_content(self, rules: Rules, written: int, minimum: int, maximum: int | None) -> Expression:
        if not minimum and maximum is None:
            return self.content(rules)
        return self._content_of_length(rules, max(minimum - written, 0), None if maximum is None else maximum - written)

    def _content_of_length(self, rules: Rules, minimum: int, maximum: int | None) -> Expression:
        if maximum is None:
            return self._of_kind(rules, _ANY, minimum, None)
        kinds = next(kinds for limit, kinds in _KINDS if maximum >= limit and maximum - minimum >= kinds[-1].cost)
        return choice(self._of_kind(rules, kind, minimum, maximum - kind.cost) for kind in kinds)

    def _of_kind(self, rules: Rules, kind: _StringKind, minimum: int, maximum: int | None) -> Expression:
        """Admit `minimum` characters, none of which begins a special token, then others up to `maximum`."""
        more = None if maximum is None else maximum - minimum
        others = Repeat(self._unit(rules, kind.name, kind.excluded), 0, more, "characters")
        if not minimum:
            return others
        first = self._or_escape(Chars(self._plain_characters(kind.excluded)))
        return series(Repeat(first, minimum, minimum, "characters"), others)

    def _unit(self, rules: Rules, name: str, excluded: Ranges) -> Expression:
        return rules.once(f"{self.name}-{name}", lambda: self._or_escape(Chars(self._safe_characters(excluded))))

    def _safe_characters(self, excluded: Ranges = _FRAGILE) -> Ranges:
        """Return the characters that begin no marker and that byte-wise sampling cannot break."""
        return without(self._allowed_characters(), [*excluded, *(ord(marker[0]) for marker in self.markers)])

    def _plain_characters(self, excluded: Ranges = _FRAGILE) -> Ranges:
        """Return the safe characters that begin no special token."""
        return without(self._safe_characters(excluded), map(ord, _SPECIAL_MARKUP_STARTS))

    def _or_escape(self, part: Expression) -> Expression:
        return part if self.escape is None else choice([part, self.escape])

    def _allowed_characters(self) -> Ranges:
        return self.ranges if self.escape is None else without(self.ranges, map(ord, f"{self.quote}\\"))
