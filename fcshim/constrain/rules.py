"""The rules of a grammar under construction.

Rule: an expression that is used several times becomes one shared rule; the work on all schemas together is bounded.
"""

from collections.abc import Callable

from fcshim.constrain.grammar import Expression, LiteralText, RuleRef

_MAX_NODES = 20_000
"""Schema nodes of all tools together that become rules; the largest real tool sets have about 5,000."""
_MAX_EXPANSION_STEPS = 100_000
"""Steps of expanding alternatives in all schemas together, about 0.1 s; multiplying references could expand forever."""
_MAX_PATTERN_CHARACTERS = 16_384
"""Patterns of all schemas together, about 0.2 s; real tool sets stay below a fifth. Any string fits the others."""
_MAX_NOTES = 32
"""Notes kept one by one: they are logged with each request."""


class Rules:
    """Rules by name, notes on what the grammar does not enforce, and the work that is left."""

    def __init__(self) -> None:
        self.rules: dict[str, Expression] = {}
        self.notes: dict[str, None] = {}
        self.nodes_left = _MAX_NODES
        self.steps_left = _MAX_EXPANSION_STEPS
        self._pattern_characters_left = _MAX_PATTERN_CHARACTERS
        self._names: dict[Expression, RuleRef] = {}

    def admit_pattern(self, pattern: str) -> bool:
        """Return whether this pattern may still become rules."""
        self._pattern_characters_left -= len(pattern)
        return self._pattern_characters_left >= 0

    def share(self, expression: Expression, name: str = "") -> Expression:
        """Make a shared rule of an expression, unless it is a literal text or a reference already."""
        if isinstance(expression, RuleRef | LiteralText):
            return expression
        if expression not in self._names:
            rule = RuleRef(name or f"r{len(self.rules)}")
            self.rules[rule.name] = expression
            self._names[expression] = rule
        return self._names[expression]

    def once(self, name: str, make: Callable[[], Expression]) -> Expression:
        """Return the rule of this name, made on first use."""
        return RuleRef(name) if name in self.rules else self.share(make(), name)

    def note(self, text: str) -> None:
        """Note what the grammar does not enforce."""
        if text in self.notes or len(self.notes) < _MAX_NOTES:
            self.notes[text] = None
        else:
            self.notes["more is not enforced"] = None
