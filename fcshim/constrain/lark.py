"""Writes a grammar as Lark in llguidance's variant (vLLM, SGLang, llama.cpp built with it).

Rule: the whole grammar is one terminal composed of terminals. As parser rules, alternatives with a common prefix would
be tokenized by the lexer in one way only, which excludes valid texts.
"""

from fcshim.constrain.grammar import Chars, Grammar, Repeat, repeat_limit
from fcshim.constrain.writer import RuleWriter


def write_lark(grammar: Grammar) -> str:
    """Write the grammar, without unreachable rules."""
    rules = _LarkWriter(grammar).write_rules()
    return "start: ROOT\n" + "".join(f"{name}: {text}\n" for name, text in rules.items())


class _LarkWriter(RuleWriter):
    def _rule_name(self, name: str) -> str:
        return name.upper().replace("-", "_")

    def _repetition(self, inner: str, part: Repeat) -> str:
        least, most = part.least, repeat_limit(part, self._limits)
        if most == 0:
            return '""'
        if (least, most) == (0, 1):
            return f"{inner}?"
        return f"{inner}{{{least},{'' if most is None else most}}}"

    def _char_class(self, part: Chars) -> str:
        return f"/[{self._ranges(part)}]/"

    def _range_end(self, point: int) -> str:
        char = chr(point)
        return char if char.isascii() and char.isalnum() else f"\\x{{{point:X}}}"

    def _escaped_code_point(self, point: int) -> str:
        return f"\\u{point:04x}" if point < 0x10000 else chr(point)
