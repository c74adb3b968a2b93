"""What a model thinks before it calls: which models do, and the part of a grammar that lets them.

Rule: thoughts are bounded, and end with their closing tag; a model that is not known to think calls at once.
Neighbours: `parse.machine.surroundings` has the tags of reasoning, `calls` puts thoughts before calls.
"""

import fnmatch
from dataclasses import dataclass

from fcshim.constrain.free_text import free_text
from fcshim.constrain.grammar import Expression, LiteralText, Repeat, choice, optional, series
from fcshim.constrain.rules import Rules
from fcshim.constrain.strings import MULTILINE, StringSyntax
from fcshim.constrain.triggers import partial_marker_trigger, whole_tag_trigger
from fcshim.events import JSON
from fcshim.parse.machine.context import reasoning_end_tag

_MODELS: tuple[tuple[str, str], ...] = (
    # Those of a family that do not think come first.
    ("*non-thinking*", ""),
    ("*qwen3-coder*", ""),
    ("*qwen3*-instruct*", ""),
    ("*seed-oss*", "<seed:think>"),
    ("*longcat*thinking*", "<longcat_think>"),
    ("*minimax-m3*", "<mm:think>"),
    ("*magistral*", "[THINK]"),
    ("*ministral*reasoning*", "[THINK]"),
    ("*command-a-reasoning*", "<|START_THINKING|>"),
    ("*apertus*", "<|inner_prefix|>"),
    ("*qwen3*", "<think>"),
    ("*qwq*", "<think>"),
    ("*deepseek-r1*", "<think>"),
    ("*r1-distill*", "<think>"),
    ("*deepseek-v3.[12]*", "<think>"),
    ("*deepseek-v4*", "<think>"),
    ("*glm-4.[5-9]*", "<think>"),
    ("*glm-[5-9]*", "<think>"),
    ("*minimax-m2*", "<think>"),
    ("*nemotron*", "<think>"),
    ("*smollm3*", "<think>"),
    ("*hunyuan-a13b*", "<think>"),
    ("step*3*", "<think>"),
    ("mimo*", "<think>"),
    ("*thinking*", "<think>"),
    ("*reasoning*", "<think>"),
    ("olmo-3*-think*", "<think>"),
)
"""Patterns of names in lower case, each with the tag that opens the model's reasoning; the first that fits counts.

Not here are models whose reasoning stands in a channel of its own (gpt-oss, Gemma 4): their servers take it out.
"""


@dataclass(frozen=True, slots=True)
class ReasoningSyntax:
    """The tag that opens a model's reasoning; `begun`: the prompt has opened it already, so that it must be closed."""

    opening: str
    opened: bool = False

    def expression(self, rules: Rules) -> Expression:
        """Admit reasoning up to its closing tag, and line ends behind it. The opening tag may be in the prompt."""
        closing = reasoning_end_tag(self.opening)
        content = StringSyntax("thought", quote="", ranges=MULTILINE, markers=(closing,)).content(rules, "thoughts")
        thought = series(content, LiteralText(closing), Repeat(LiteralText("\n"), 0, 2))
        return thought if self.opened else optional(series(optional(LiteralText(self.opening)), thought))

    def before_text(self, text: Expression, rules: Rules) -> Expression:
        """Admit `text`, and reasoning in which everything is free up to its closing tag and `text` behind that."""
        text = rules.share(text)
        thought = free_text(reasoning_end_tag(self.opening), text, rules)
        if thought is None:
            return text
        return thought if self.opened else choice([text, series(LiteralText(self.opening), thought)])

    def triggers(self, marker: str) -> list[JSON]:
        """Give what such a grammar may wait for, where `marker` opens what is not free in the text."""
        return (
            [whole_tag_trigger(reasoning_end_tag(self.opening))]
            if self.opened
            else [partial_marker_trigger(marker), partial_marker_trigger(self.opening)]
        )


def reasoning_of(model: str, in_reasoning: str = "") -> ReasoningSyntax | None:
    """Give how a model of this name thinks before it calls; `in_reasoning` is the tag with which its prompt ends."""
    if in_reasoning:
        return ReasoningSyntax(in_reasoning, opened=True)
    name = model.replace("\\", "/").rpartition("/")[2].lower()
    opening = next((opening for pattern, opening in _MODELS if fnmatch.fnmatchcase(name, pattern)), "")
    return ReasoningSyntax(opening) if opening else None
