"""The base class of the grammar writers: the traversal of a grammar, and quoted text.

Rule: rules are written from a worklist, in the order of their first reference: chains of rules may be hundreds long, so
recursion would be too deep.
"""

from abc import ABC, abstractmethod

from fcshim.constrain.grammar import ROOT, Alternation, Chars, Expression, Grammar, LiteralText, Repeat, RuleRef, Series

_ESCAPES = str.maketrans({"\n": "\\n", "\r": "\\r", "\t": "\\t", '"': '\\"', "\\": "\\\\"})


class RuleWriter(ABC):
    """Writes one grammar; `_lines` maps each written rule's name in the output format to its text, the root first."""

    def __init__(self, grammar: Grammar) -> None:
        self._rules = grammar.rules
        self._limits = grammar.limits
        self._lines: dict[str, str] = {}
        self._pending: list[str] = []
        self._classes: dict[Chars, str] = {}

    def write_rules(self) -> dict[str, str]:
        """Write the root and every rule that is reachable from it."""
        self._reference(ROOT)
        while self._pending:
            name = self._pending.pop()
            self._lines[self._rule_name(name)] = self._alternatives(self._rules[name])
        return self._lines

    @abstractmethod
    def _rule_name(self, name: str) -> str:
        """Return a rule's name in the output format."""

    @abstractmethod
    def _repetition(self, inner: str, part: Repeat) -> str:
        """Write a repetition; `inner` is the repeated expression, in parentheses if it needs them."""

    @abstractmethod
    def _char_class(self, part: Chars) -> str:
        """Write a set of characters."""

    @abstractmethod
    def _range_end(self, point: int) -> str:
        """Write the first or last code point of a range in a character set."""

    @abstractmethod
    def _escaped_code_point(self, point: int) -> str:
        """Write an unprintable character of a text as an escape."""

    def _reference(self, name: str) -> str:
        named = self._rule_name(name)
        if named not in self._lines:
            self._lines[named] = ""  # keeps the order of first references
            self._pending.append(name)
        return named

    def _alternatives(self, part: Expression) -> str:
        return (
            " | ".join(map(self._expression, part.options)) if isinstance(part, Alternation) else self._expression(part)
        )

    def _expression(self, part: Expression) -> str:
        match part:
            case LiteralText():
                return f'"{self._escaped_text(part.text)}"'
            case RuleRef():
                return self._reference(part.name)
            case Chars():
                return self._cached_class(part)
            case Series():
                return " ".join(map(self._expression, part.parts))
            case Alternation():
                return f"({self._alternatives(part)})"
            case Repeat():
                inner = self._expression(part.part)
                single = isinstance(part.part, LiteralText | Chars | RuleRef | Alternation)
                return self._repetition(inner if single else f"({inner})", part)

    def _cached_class(self, part: Chars) -> str:
        if part not in self._classes:
            self._classes[part] = self._char_class(part)
        return self._classes[part]

    def _escaped_text(self, text: str) -> str:
        written = text.translate(_ESCAPES)
        if written.isprintable():
            return written
        return "".join(char if char.isprintable() else self._escaped_code_point(ord(char)) for char in written)

    def _ranges(self, part: Chars) -> str:
        """Write a set of characters as ranges, without delimiters."""
        ends = ((self._range_end(low), self._range_end(high)) for low, high in part.ranges)
        return "".join(low if low == high else f"{low}-{high}" for low, high in ends)
