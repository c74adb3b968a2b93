"""Writes a grammar as GBNF, the format of llama.cpp.

Rule: no repetition count exceeds 2,000, the most that llama.cpp unrolls. Longer ones are written as blocks of blocks,
and a repeated group becomes a rule of its own, since unrolling multiplies nested counts.
"""

from fcshim.constrain.grammar import Chars, Grammar, Repeat, repeat_limit
from fcshim.constrain.writer import RuleWriter

_BLOCK = 64


def write_gbnf(grammar: Grammar) -> str:
    """Write the grammar, without unreachable rules."""
    return "".join(f"{name} ::= {text}\n" for name, text in _GbnfWriter(grammar).write_rules().items())


class _GbnfWriter(RuleWriter):
    def __init__(self, grammar: Grammar) -> None:
        super().__init__(grammar)
        self._blocks: dict[str, str] = {}
        self._groups: dict[str, str] = {}

    def _rule_name(self, name: str) -> str:
        return name

    def _repetition(self, inner: str, part: Repeat) -> str:
        least, most = part.least, repeat_limit(part, self._limits)
        if inner.startswith("(") and (most != 1 or "{" in inner):
            inner = self._group(inner)
        if most is None:
            return f"{inner}*" if not least else f"{inner}{{{least},}}"
        return " ".join(filter(None, [self._exactly(inner, least), self._up_to(inner, most - least)])) or '""'

    def _exactly(self, inner: str, count: int) -> str:
        blocks, rest = divmod(count, _BLOCK) if count > 2 * _BLOCK else (0, count)
        texts = [f"{self._block(inner)}{{{blocks}}}"] if blocks else []
        return " ".join([*texts, *([inner if rest == 1 else f"{inner}{{{rest}}}"] if rest else [])])

    def _up_to(self, inner: str, count: int) -> str:
        if count <= 2 * _BLOCK:
            return "" if not count else f"{inner}?" if count == 1 else f"{inner}{{0,{count}}}"
        blocks, rest = divmod(count, _BLOCK)
        block = self._block(inner)
        fewer = f"{block}{{0,{blocks - 1}}} {inner}{{0,{_BLOCK - 1}}}"
        return f"({fewer} | {block}{{{blocks}}}" + (f" {inner}{{0,{rest}}})" if rest else ")")

    def _group(self, inner: str) -> str:
        if inner not in self._groups:
            name = self._groups[inner] = f"group{len(self._groups)}"
            self._lines[name] = inner[1:-1]
        return self._groups[inner]

    def _block(self, inner: str) -> str:
        if inner not in self._blocks:
            name = self._blocks[inner] = f"block{len(self._blocks)}"
            self._lines[name] = f"{inner}{{{_BLOCK}}}"
        return self._blocks[inner]

    def _char_class(self, part: Chars) -> str:
        return f"[{self._ranges(part)}]"

    def _range_end(self, point: int) -> str:
        char = chr(point)
        return char if char.isascii() and char.isalnum() else self._escaped_code_point(point)

    def _escaped_code_point(self, point: int) -> str:
        # Not `\xNN`: xgrammar, which reads GBNF too, takes following hexadecimal letters for further digits.
        return f"\\u{point:04X}" if point < 0x10000 else f"\\U{point:08X}"
