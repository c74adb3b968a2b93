"""Writes a grammar as text: as GBNF for llama.cpp, as Lark in llguidance's variant, or as a regular expression.

Rule: rules are written from a worklist, in the order of their first reference: chains of rules may be hundreds long, so
recursion would be too deep.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping

from fcshim.constrain.grammar import (
    ROOT,
    Alternation,
    Chars,
    Expression,
    Grammar,
    LiteralText,
    Repeat,
    RuleRef,
    Series,
    repeat_limit,
)

_ESCAPES = str.maketrans({"\n": "\\n", "\r": "\\r", "\t": "\\t", '"': '\\"', "\\": "\\\\"})
_BLOCK = 64


def write_gbnf(grammar: Grammar) -> str:
    """Write the grammar for llama.cpp, without unreachable rules."""
    return "".join(f"{name} ::= {text}\n" for name, text in _GbnfWriter(grammar).write_rules().items())


def write_lark(grammar: Grammar) -> str:
    """Write the grammar for llguidance (vLLM, SGLang, llama.cpp built with it), without unreachable rules."""
    rules = _LarkWriter(grammar).write_rules()
    return "start: ROOT\n" + "".join(f"{name}: {text}\n" for name, text in rules.items())


def write_regex(grammar: Grammar) -> str | None:
    """Write the grammar as one regular expression in the syntax that Python, Rust and JavaScript share.

    Strings and lists that only `GrammarLimits` bounds are unbounded: engines unroll counts. None if it would be longer
    than `_MAX_REGEX`.
    """
    written: dict[str, str | None] = {}
    for name, rule in grammar.rules.items():  # each after those that it refers to
        written[name] = _RegexWriter(written).write(rule)
    return written[ROOT]


_MAX_REGEX = 2**17
"""Characters: twice what a hundred tools with six members each take. Every reference repeats its rule."""
_REGEX_SPECIAL = frozenset(r"\.^$|?*+()[]{}")
_REGEX_CLASS_SPECIAL = frozenset(r"\]^[-")
"""Characters that are escaped outside and inside of a class. Other escapes are errors in some engines."""
_REGEX_ESCAPES = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


class _TooLongError(Exception):
    """The regular expression exceeds the limit, or contains a rule that does."""


class _RegexWriter:
    """Writes one rule, with the rules that it refers to in their places."""

    def __init__(self, written: Mapping[str, str | None]) -> None:
        self._written = written
        self._left = _MAX_REGEX

    def write(self, rule: Expression) -> str | None:
        """Return the rule as a regular expression; None if it is too long."""
        try:
            return self._expression(rule)
        except _TooLongError:
            return None

    def _expression(self, part: Expression) -> str:
        match part:
            case LiteralText():
                return self._counted("".join(_regex_char(char, _REGEX_SPECIAL) for char in part.text))
            case Chars():
                ends = (tuple(_regex_char(chr(end), _REGEX_CLASS_SPECIAL) for end in pair) for pair in part.ranges)
                return self._counted("[" + "".join(low if low == high else f"{low}-{high}" for low, high in ends) + "]")
            case RuleRef():
                rule = self._written[part.name]
                if rule is None:
                    raise _TooLongError
                return self._counted(f"(?:{rule})")
            case Series():
                return "".join(map(self._expression, part.parts))
            case Alternation():
                return f"(?:{'|'.join(map(self._expression, part.options))})"
            case Repeat():
                return self._repetition(part)

    def _repetition(self, part: Repeat) -> str:
        inner = self._expression(part.part)
        single = isinstance(part.part, Chars | RuleRef | Alternation)
        inner = inner if single else f"(?:{inner})"
        match part.minimum, part.maximum:
            case 0, 0:
                return ""
            case 0, 1:
                return f"{inner}?"
            case 0, None:
                return f"{inner}*"
            case 1, None:
                return f"{inner}+"
            case minimum, maximum:
                more = "" if maximum == minimum else f",{'' if maximum is None else maximum}"
                return f"{inner}{{{minimum}{more}}}"

    def _counted(self, text: str) -> str:
        self._left -= len(text)
        if self._left < 0:
            raise _TooLongError
        return text


def _regex_char(char: str, special: frozenset[str]) -> str:
    if char in _REGEX_ESCAPES:
        return _REGEX_ESCAPES[char]
    if char in special:
        return f"\\{char}"
    return char if char.isprintable() or ord(char) > 0xFF else f"\\x{ord(char):02x}"


class _RuleWriter(ABC):
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
                if part not in self._classes:
                    self._classes[part] = self._char_class(part)
                return self._classes[part]
            case Series():
                return " ".join(map(self._expression, part.parts))
            case Alternation():
                return f"({self._alternatives(part)})"
            case Repeat():
                inner = self._expression(part.part)
                single = isinstance(part.part, LiteralText | Chars | RuleRef | Alternation)
                return self._repetition(inner if single else f"({inner})", part)

    def _escaped_text(self, text: str) -> str:
        written = text.translate(_ESCAPES)
        if written.isprintable():
            return written
        return "".join(char if char.isprintable() else self._escaped_code_point(ord(char)) for char in written)

    def _ranges(self, part: Chars) -> str:
        """Write a set of characters as ranges, without delimiters."""
        ends = ((self._range_end(low), self._range_end(high)) for low, high in part.ranges)
        return "".join(low if low == high else f"{low}-{high}" for low, high in ends)


class _GbnfWriter(_RuleWriter):
    """Writes no repetition count above 2,000, the most that llama.cpp unrolls.

    Longer ones are written as blocks of blocks, and a repeated group becomes a rule of its own, since unrolling
    multiplies nested counts.
    """

    def __init__(self, grammar: Grammar) -> None:
        super().__init__(grammar)
        self._blocks: dict[str, str] = {}
        self._groups: dict[str, str] = {}

    def _rule_name(self, name: str) -> str:
        return name

    def _repetition(self, inner: str, part: Repeat) -> str:
        minimum, maximum = part.minimum, repeat_limit(part, self._limits)
        if inner.startswith("(") and (maximum != 1 or "{" in inner):
            group = self._groups.setdefault(inner, f"group{len(self._groups)}")
            self._lines[group] = inner[1:-1]
            inner = group
        if maximum is None:
            return f"{inner}*" if not minimum else f"{inner}{{{minimum},}}"
        return " ".join(filter(None, [self._exactly(inner, minimum), self._up_to(inner, maximum - minimum)])) or '""'

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


class _LarkWriter(_RuleWriter):
    """Writes the whole grammar as one terminal composed of terminals.

    As parser rules, alternatives with a common prefix would be tokenized by the lexer in one way only, which excludes
    valid texts.
    """

    def _rule_name(self, name: str) -> str:
        return name.upper().replace("-", "_")

    def _repetition(self, inner: str, part: Repeat) -> str:
        minimum, maximum = part.minimum, repeat_limit(part, self._limits)
        if maximum == 0:
            return '""'
        if (minimum, maximum) == (0, 1):
            return f"{inner}?"
        return f"{inner}{{{minimum},{'' if maximum is None else maximum}}}"

    def _char_class(self, part: Chars) -> str:
        return f"/[{self._ranges(part)}]/"

    def _range_end(self, point: int) -> str:
        char = chr(point)
        return char if char.isascii() and char.isalnum() else f"\\x{{{point:X}}}"

    def _escaped_code_point(self, point: int) -> str:
        return f"\\u{point:04x}" if point < 0x10000 else chr(point)
