"""Reasoning before a call: the part of a grammar that admits it.

Rule: reasoning before calls is bounded and ends with its end tag; a model without a reasoning tag calls at once.
"""

from dataclasses import dataclass

from fcshim.constrain.free_text import free_text
from fcshim.constrain.grammar import Expression, LiteralText, Repeat, choice, optional, series
from fcshim.constrain.rules import Rules
from fcshim.constrain.strings import MULTILINE, StringSyntax
from fcshim.constrain.triggers import partial_marker_trigger, whole_tag_trigger
from fcshim.events import JSON
from fcshim.model_defaults import defaults_for
from fcshim.parse.machine.known_markers import reasoning_end_tag


@dataclass(frozen=True, slots=True)
class ReasoningSyntax:
    """The start tag of a model's reasoning; `opened`: the prompt ends inside reasoning, which the reply must end."""

    opening: str
    opened: bool = False

    def expression(self, rules: Rules) -> Expression:
        """Admit reasoning, its end tag and line ends. The start tag is optional: the prompt may already hold it."""
        end_tag = reasoning_end_tag(self.opening)
        content = StringSyntax("thought", quote="", ranges=MULTILINE, markers=(end_tag,)).content(rules, "reasoning")
        block = series(content, LiteralText(end_tag), Repeat(LiteralText("\n"), 0, 2))
        return block if self.opened else optional(series(optional(LiteralText(self.opening)), block))

    def before_text(self, text: Expression, rules: Rules) -> Expression:
        """Admit `text`, optionally after unconstrained reasoning that ends with its end tag."""
        text = rules.share(text)
        with_reasoning = free_text(reasoning_end_tag(self.opening), text, rules)
        if with_reasoning is None:
            return text
        return with_reasoning if self.opened else choice([text, series(LiteralText(self.opening), with_reasoning)])

    def triggers(self, marker: str) -> list[JSON]:
        """Return the triggers of a lazy grammar made by `before_text`; `marker` is the start marker of calls."""
        return (
            [whole_tag_trigger(reasoning_end_tag(self.opening))]
            if self.opened
            else [partial_marker_trigger(marker), partial_marker_trigger(self.opening)]
        )


def reasoning_of(model: str, open_reasoning_tag: str = "") -> ReasoningSyntax | None:
    """Return the reasoning syntax of a model by name; the prompt ends with `open_reasoning_tag`."""
    if open_reasoning_tag:
        return ReasoningSyntax(open_reasoning_tag, opened=True)
    tag = defaults_for(model).reasoning_tag
    return ReasoningSyntax(tag) if tag else None
