"""The strings, numbers, words and listed values that may stand in one place.

Rule: text that nothing quotes is never written so that it is taken for a value of another kind that may stand there.
Neighbours: `facets` says what is wanted, `strings`, `numbers`, `patterns` and `formats` admit it; `values` asks.
"""

import json
from collections.abc import Iterator, Sequence

from fcshim.constrain.facets import KIND_OF, Facets
from fcshim.constrain.formats import FORMATS
from fcshim.constrain.grammar import Expression, Text, one_of_texts
from fcshim.constrain.notation import Notation, Value
from fcshim.constrain.numbers import INTEGER, NUMBER, integers, multiples, numbers
from fcshim.constrain.patterns import between, pattern
from fcshim.constrain.rules import Rules
from fcshim.events import JSON
from fcshim.schema.node import scan

_STARTS = {"integer": "-0123456789", "number": "-0123456789", "array": "[", "object": "{"}
"""First characters by which raw text is taken for another value than a string."""
_WORDS = {"boolean": ("true", "false"), "null": ("null",)}


class Scalars:
    """Writes into `rules` what stands as an argument, or inside one, in the language of `notation`."""

    def __init__(self, notation: Notation, rules: Rules, *, argument: bool) -> None:
        self._notation = notation
        self._rules = rules
        self._argument = argument
        self._strings = notation.strings_of(argument=argument)

    def literals(self, values: Sequence[JSON], kinds: frozenset[str]) -> Iterator[Value]:
        """Give the values of `enum` and `const`, together where they are of one kind; of which may be `kinds`."""
        texts: dict[str, dict[str, None]] = {}
        for value in values:
            text = self._notation.literal(value, argument=self._argument)
            raw = isinstance(value, str) and self._strings.raw
            if text is None or (raw and _taken_for(text, kinds)):
                self._rules.note(f"{json.dumps(value):.40} cannot be written")
            else:
                texts.setdefault(KIND_OF[type(value)], {})[text] = None
        for kind, written in texts.items():
            yield kind, one_of_texts([(text, Text("")) for text in written])

    def word(self, value: bool | None) -> Expression:  # noqa: FBT001 - it is the value
        """Give a boolean, or null."""
        return Text(self._notation.literal(value, argument=self._argument) or "")

    def string(self, facets: Facets, others: frozenset[str]) -> Expression | None:
        """Give the strings of an alternative, in a place where values of `others` may stand, too."""
        strings = self._strings
        least, most = facets.least("minLength"), facets.most("maxLength")
        matched = self._matched(facets, least, most) if not (strings.raw and others) else None
        if matched is not None:
            return matched
        if facets.patterns():
            self._rules.note("pattern is not held to")
        name = facets.string_format()
        form = FORMATS.get(name)
        if form is not None and not least and most is None:
            return self._rules.once(f"{strings.name}-{name}", lambda: strings.quoted(form))
        if name:
            self._rules.note(f"format {name!r:.40} is not held to")
        if strings.raw and others and not (self._argument and self._notation.tells_text):
            starts = "".join(sorted({char for kind in others for char in _STARTS.get(kind, "")}))
            words = [word for kind in sorted(others) for word in _WORDS.get(kind, ())]
            return strings.unlike(self._rules, starts, words, least, most)
        if not least and most is None:
            return strings.any(self._rules)
        return strings.between(self._rules, least, most)

    def number(self, facets: Facets, *, whole: bool) -> Expression | None:
        """Give the numbers of an alternative."""
        low, high = facets.bounds(whole=whole)
        step = facets.step
        if step is not None and step != 1:
            stepped = multiples(step, low, high)
            if stepped is not None:
                return stepped
            self._rules.note("multipleOf is not held to")
        found = integers(low, high) if whole or step == 1 else numbers(low, high)
        return found if found not in (INTEGER, NUMBER) else self._rules.share(found, "integer" if whole else "number")

    def _matched(self, facets: Facets, least: int, most: int | None) -> Expression | None:
        """Give the strings that match a pattern; None where there is none, several, or one that cannot be followed."""
        wanted = facets.patterns()
        found = pattern(wanted[0]) if len(wanted) == 1 else None
        if found is not None and (least or most is not None):
            found = between(found, least, most)
        content = None if found is None else self._strings.formed(found)
        return None if content is None else self._rules.share(self._strings.quoted(content))


def _taken_for(text: str, kinds: frozenset[str]) -> bool:
    """Say whether raw text would be taken for a value of another kind that may stand there, too."""
    node = scan(text.strip(" \t\r\n"))
    if node is None or node.kind == "string":
        return False
    return ("number" if node.kind == "fraction" else node.kind) in kinds or (
        node.kind == "integer" and "number" in kinds
    )
