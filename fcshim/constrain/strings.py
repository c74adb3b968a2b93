"""The strings of a notation: what stands around them, and of which characters they are.

Rule: a string whose length counts is made of characters that a sampler of single bytes cannot break. llama.cpp admits
overlong forms of characters from U+0800 to U+0FFF and from U+10000 on, each byte of which comes out as U+FFFD.
Neighbours: `notation` has the strings of each language, `formats` those of a form, `avoiding` those between markers.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass

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
    r"""Admit a backslash and one of these, or `\u`. Halves of surrogate pairs are left out: none may stand alone."""
    whole = series(chars("09", "ac", "AC", "ef", "EF"), Repeat(_HEX, 3, 3))
    below = series(chars("d", "D"), chars("07"), Repeat(_HEX, 2, 2))
    return series(LiteralText("\\"), choice([chars(*single), series(LiteralText("u"), choice([whole, below]))]))


JSON_ESCAPE = _escape('"\\/bfnrt')
PYTHON_ESCAPE = _escape('"\\bfnrt')

PRINTABLE: Ranges = ((0x20, 0x7E), (0xA0, 0xD7FF), (0xE000, 0xFFFD), (0x10000, 0x10FFFF))
MULTILINE: Ranges = ((0x9, 0xA), *PRINTABLE)
_FRAGILE: Ranges = ((0x800, 0xFFF), (0x10000, 0x10FFFF))
"""Characters that may come out broken where each byte is sampled by itself."""
_SPECIAL_MARKUP_STARTS = "<["
"""What special tokens (`<s>`, `[INST]`) begin with: llama.cpp lets those pass as text, and drops them."""

_MAX_MIN_LENGTH = 100_000
"""Characters that a schema may demand; a minimum beyond is no longer heeded."""
_MAX_KEY_LENGTH = 64
"""Characters of a key that the schema leaves free."""


@dataclass(frozen=True, slots=True)
class StringSyntax:
    """One kind of strings: between `quote`s, or raw where that is empty, and without any of `markers`."""

    name: str
    quote: str = '"'
    ranges: Ranges = PRINTABLE
    escape: Expression | None = None
    markers: tuple[str, ...] = ()

    @property
    def is_raw(self) -> bool:
        """Whether nothing stands around them, so that their text alone says that they are strings."""
        return not self.quote

    def can_hold(self, text: str) -> bool:
        """Say whether a text without escapes holds no marker."""
        return not any(marker in text for marker in self.markers)

    def quoted(self, content: Expression) -> Expression:
        """Put quotes around content."""
        return series(LiteralText(self.quote), content, LiteralText(self.quote))

    def as_content(self, part: Expression) -> Expression | None:
        """Write an expression over characters, without rules, as content; None where it needs what cannot be written.

        Of a set of characters those are left that come out whole.
        """
        match part:
            case LiteralText():
                return self._literal_content(part.text)
            case Chars():
                left = intersection(part.ranges, self._plain_characters())
                return Chars(left) if left else None
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
            plain = any(low <= ord(char) <= high for low, high in self._allowed_characters())
            if any(marker[0] == char for marker in self.markers) or (not plain and self.escape is None):
                return None
            letters.append(char if plain else json.dumps(char)[1:-1])
        return LiteralText("".join(letters))

    def any(self, rules: Rules) -> Expression:
        """Give the rule of any string."""
        return rules.once(self.name, lambda: self.quoted(self.content(rules)))

    def of_length(self, rules: Rules, least: int, most: int | None) -> Expression | None:
        """Admit strings of so many characters; None where there can be none, or where it were too many."""
        if least > _MAX_MIN_LENGTH or (most is not None and most < least):
            return None
        return self.quoted(self._content_of_length(rules, least, most))

    def excluding(
        self, rules: Rules, first_characters: str, words: Sequence[str], least: int, most: int | None
    ) -> Expression | None:
        """Admit raw strings that cannot be taken for one of `words`, nor for what begins with one of `starts`."""
        if least > _MAX_MIN_LENGTH or (most is not None and most < least):
            return None
        whole = self._safe_characters()
        first = without(whole, [*map(ord, f" \t\n{first_characters}"), *(ord(word[0]) for word in words)])
        options: list[tuple[int, Expression]] = [(0, Chars(first))]
        for word in words:
            ends = [(at, Chars(without(whole, [ord(word[at])]))) for at in range(1, len(word))]
            ends.append((len(word), Chars(without(whole, map(ord, " \t\n")))))
            options += [(at, series(LiteralText(word[:at]), end)) for at, end in ends]
        found: list[Expression] = [] if least else [EMPTY]
        for before, part in options:
            if most is None or most > before:
                found.append(series(part, self._remaining_content(rules, before + 1, least, most)))
        short = {word[:at] for word in words for at in range(max(least, 1), len(word)) if most is None or at <= most}
        found += map(LiteralText, sorted(short))
        return choice(found) if found else None

    def content(self, rules: Rules, counts: CountedUnit = "characters") -> Expression:
        """Give what may stand between the quotes; its characters count as such, or as `counts` says."""
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
        """Give the rule of keys that the schema leaves free."""
        first = Chars(self._plain_characters())
        more = Repeat(self._safe_unit(rules), 0, _MAX_KEY_LENGTH - 1, "characters")
        return rules.once(f"{self.name}-key", lambda: self.quoted(series(first, more)))

    def _remaining_content(self, rules: Rules, written: int, least: int, most: int | None) -> Expression:
        if not least and most is None:
            return self.content(rules)
        return self._content_of_length(rules, max(least - written, 0), None if most is None else most - written)

    def _content_of_length(self, rules: Rules, least: int, most: int | None) -> Expression:
        least_part = (
            Repeat(self._or_escape(Chars(self._plain_characters())), least, least, "characters") if least else EMPTY
        )
        more = None if most is None else most - least
        return series(least_part, Repeat(self._safe_unit(rules), 0, more, "characters"))

    def _safe_unit(self, rules: Rules) -> Expression:
        return rules.once(f"{self.name}-whole", lambda: self._or_escape(Chars(self._safe_characters())))

    def _safe_characters(self) -> Ranges:
        """Give the characters that come out whole however their bytes are sampled, and with which no marker begins."""
        return without(self._allowed_characters(), [*_FRAGILE, *(ord(marker[0]) for marker in self.markers)])

    def _plain_characters(self) -> Ranges:
        """Give those of them that no special token begins with."""
        return without(self._safe_characters(), map(ord, _SPECIAL_MARKUP_STARTS))

    def _or_escape(self, part: Expression) -> Expression:
        return part if self.escape is None else choice([part, self.escape])

    def _allowed_characters(self) -> Ranges:
        return self.ranges if self.escape is None else without(self.ranges, map(ord, f"{self.quote}\\"))
