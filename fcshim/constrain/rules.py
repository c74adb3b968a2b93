"""The rules of one grammar, while it is made.

Rule: what may stand at several places is written once; the work on all schemas together is bounded.
Neighbours: `strings`, `notation` and `values` put their rules here; `calls` makes the grammar of them.
"""

from collections.abc import Callable

from fcshim.constrain.grammar import Expression, LiteralText, RuleRef

_MAX_NODES = 20_000
"""Places of all schemas together that become rules; the largest real sets of tools have some 5,000."""
_MAX_EXPANSION_STEPS = 100_000
"""Steps of looking for alternatives in all schemas together, 0.1 s; where references multiply there is no end."""
_MAX_NOTES = 32
"""What is told one by one: notes are told again with each request."""


class Rules:
    """Rules by name, notes, and the room that is left."""

    def __init__(self) -> None:
        self.rules: dict[str, Expression] = {}
        self.notes: dict[str, None] = {}
        self.nodes_left = _MAX_NODES
        self.steps_left = _MAX_EXPANSION_STEPS
        self._names: dict[Expression, RuleRef] = {}

    def share(self, expression: Expression, name: str = "") -> Expression:
        """Make a rule of an expression that may stand at several places, unless it is short."""
        if isinstance(expression, RuleRef | LiteralText):
            return expression
        if expression not in self._names:
            rule = RuleRef(name or f"r{len(self.rules)}")
            self.rules[rule.name] = expression
            self._names[expression] = rule
        return self._names[expression]

    def once(self, name: str, make: Callable[[], Expression]) -> Expression:
        """Give the rule of that name, made where there is none yet."""
        return RuleRef(name) if name in self.rules else self.share(make(), name)

    def note(self, text: str) -> None:
        """Tell what is not held to."""
        if text in self.notes or len(self.notes) < _MAX_NOTES:
            self.notes[text] = None
        else:
            self.notes["more is not held to"] = None
