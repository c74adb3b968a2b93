"""What a model thinks before it calls: which models do, and the part of a grammar that lets them.

Rule: thoughts are bounded, and end with their closing tag; a model that is not known to think calls at once.
Neighbours: `parse.machine.surroundings` has the tags of reasoning, `calls` puts thoughts before calls.
"""

import fnmatch
from dataclasses import dataclass

from fcshim.constrain.grammar import Expression, Repeat, Text, choice, optional, series
from fcshim.constrain.prose import prose
from fcshim.constrain.rules import Rules
from fcshim.constrain.strings import LINES, Strings
from fcshim.constrain.triggers import behind, within
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
class Thoughts:
    """The tag that opens a model's reasoning; `begun`: the prompt has opened it already, so that it must be closed."""

    opening: str
    begun: bool = False

    def expression(self, rules: Rules) -> Expression:
        """Admit reasoning up to its closing tag, and line ends behind it. The opening tag may be in the prompt."""
        closing = reasoning_end_tag(self.opening)
        content = Strings("thought", quote="", ranges=LINES, markers=(closing,)).content(rules, "thoughts")
        thought = series(content, Text(closing), Repeat(Text("\n"), 0, 2))
        return thought if self.begun else optional(series(optional(Text(self.opening)), thought))

    def before_text(self, text: Expression, rules: Rules) -> Expression:
        """Admit `text`, and reasoning in which everything is free up to its closing tag and `text` behind that."""
        text = rules.share(text)
        thought = prose(reasoning_end_tag(self.opening), text, rules)
        if thought is None:
            return text
        return thought if self.begun else choice([text, series(Text(self.opening), thought)])

    def triggers(self, marker: str) -> list[JSON]:
        """Give what such a grammar may wait for, where `marker` opens what is not free in the text."""
        return [behind(reasoning_end_tag(self.opening))] if self.begun else [within(marker), within(self.opening)]


def thoughts_of(model: str, in_reasoning: str = "") -> Thoughts | None:
    """Give how a model of this name thinks before it calls; `in_reasoning` is the tag with which its prompt ends."""
    if in_reasoning:
        return Thoughts(in_reasoning, begun=True)
    name = model.replace("\\", "/").rpartition("/")[2].lower()
    opening = next((opening for pattern, opening in _MODELS if fnmatch.fnmatchcase(name, pattern)), "")
    return Thoughts(opening) if opening else None
