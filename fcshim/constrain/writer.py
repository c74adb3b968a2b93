"""What the notations of rules have in common: how a grammar is walked, and how a text stands in quotation marks.

Rule: rules are written in the order in which something first leads to them, one after the other, since each may lead to
the next by hundreds; what only one notation has is the subclass's.
Neighbours: `gbnf` and `lark` are the notations, `grammar` is what is written.
"""

from abc import ABC, abstractmethod

from fcshim.constrain.grammar import ROOT, Chars, Choice, Expression, Grammar, Repeat, Rule, Series, Text

_ESCAPES = str.maketrans({"\n": "\\n", "\r": "\\r", "\t": "\\t", '"': '\\"', "\\": "\\\\"})


class RuleWriter(ABC):
    """Writes one grammar; `_lines` holds a text for each rule, by its name in the notation, the root first."""

    def __init__(self, grammar: Grammar) -> None:
        self._rules = grammar.rules
        self._limits = grammar.limits
        self._lines: dict[str, str] = {}
        self._waiting: list[str] = []
        self._classes: dict[Chars, str] = {}

    def write_rules(self) -> dict[str, str]:
        """Write the root, and every rule that it leads to."""
        self._rule(ROOT)
        while self._waiting:
            name = self._waiting.pop()
            self._lines[self._named(name)] = self._alternatives(self._rules[name])
        return self._lines

    @abstractmethod
    def _named(self, name: str) -> str:
        """Give a rule's name in the notation."""

    @abstractmethod
    def _repeated(self, inner: str, part: Repeat) -> str:
        """Write a repetition; `inner` is what repeats, as one unit."""

    @abstractmethod
    def _class(self, part: Chars) -> str:
        """Write a set of characters."""

    @abstractmethod
    def _point(self, point: int) -> str:
        """Write one end of a range in such a set, by its code point."""

    @abstractmethod
    def _numbered(self, point: int) -> str:
        """Write a character of a text that does not show, by its code point."""

    def _rule(self, name: str) -> str:
        named = self._named(name)
        if named not in self._lines:
            self._lines[named] = ""  # keeps its place: the root comes first
            self._waiting.append(name)
        return named

    def _alternatives(self, part: Expression) -> str:
        return " | ".join(map(self._one, part.options)) if isinstance(part, Choice) else self._one(part)

    def _one(self, part: Expression) -> str:
        match part:
            case Text():
                return f'"{self._letters(part.text)}"'
            case Rule():
                return self._rule(part.name)
            case Chars():
                return self._class_once(part)
            case Series():
                return " ".join(map(self._one, part.parts))
            case Choice():
                return f"({self._alternatives(part)})"
            case Repeat():
                inner = self._one(part.part)
                single = isinstance(part.part, Text | Chars | Rule | Choice)
                return self._repeated(inner if single else f"({inner})", part)

    def _class_once(self, part: Chars) -> str:
        if part not in self._classes:
            self._classes[part] = self._class(part)
        return self._classes[part]

    def _letters(self, text: str) -> str:
        written = text.translate(_ESCAPES)
        if written.isprintable():
            return written
        return "".join(char if char.isprintable() else self._numbered(ord(char)) for char in written)

    def _ranges(self, part: Chars) -> str:
        """Write a set of characters as ranges, without what stands around them."""
        ends = ((self._point(low), self._point(high)) for low, high in part.ranges)
        return "".join(low if low == high else f"{low}-{high}" for low, high in ends)
