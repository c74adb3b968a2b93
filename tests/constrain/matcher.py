"""Two matchers for grammars: one compiles the Lark text with llguidance, one interprets the expressions directly.

Rule: a text is admitted if all of it is consumed and the grammar may end there.
"""

import pytest

from fcshim.constrain.grammar import ROOT, Alternation, Chars, Expression, Grammar, LiteralText, Repeat, RuleRef, Series
from fcshim.constrain.writer import write_lark


class Matcher:
    """One grammar, compiled by llguidance."""

    def __init__(self, grammar: Grammar) -> None:
        llguidance = pytest.importorskip("llguidance", reason="make test installs it")
        text = llguidance.LLMatcher.grammar_from_lark(write_lark(grammar))
        self._bytes = llguidance.LLTokenizer("byte")
        self._matcher = llguidance.LLMatcher(self._bytes, text)
        assert not self._matcher.is_error(), self._matcher.get_error()

    def admits(self, text: str) -> bool:
        """Return whether this is a complete text of the grammar."""
        return self.begins(text) and self._matcher.is_accepting()

    def begins(self, text: str) -> bool:
        """Return whether this is a prefix of a text of the grammar."""
        self._matcher.reset()
        tokens = self._bytes.tokenize_str(text)
        taken: int = self._matcher.try_consume_tokens(tokens)
        return taken == len(tokens)


def admits(grammar: Grammar, text: str) -> bool:
    """Return whether a text is admitted, without limits; slow, for grammars with few repetitions."""
    return len(text) in _ends(grammar.rules[ROOT], text, {0}, grammar)


def _ends(part: Expression, text: str, starts: set[int], grammar: Grammar) -> set[int]:
    """Return where a part may end that begins at one of `starts`."""
    match part:
        case LiteralText():
            return {at + len(part.text) for at in starts if text.startswith(part.text, at)}
        case Chars():
            return {
                at + 1
                for at in starts
                if any(low <= ord(text[at : at + 1] or "\0") <= high for low, high in part.ranges)
            }
        case Series():
            for inner in part.parts:
                starts = _ends(inner, text, starts, grammar)
            return starts
        case Alternation():
            return {end for option in part.options for end in _ends(option, text, starts, grammar)}
        case RuleRef():
            return _ends(grammar.rules[part.name], text, starts, grammar)
        case Repeat():
            return _repeated(part, text, starts, grammar)


def _repeated(part: Repeat, text: str, starts: set[int], grammar: Grammar) -> set[int]:
    found: set[int] = set()
    for count in range(part.minimum + len(text) + 1 if part.maximum is None else part.maximum + 1):
        if not starts:
            break
        found |= starts if count >= part.minimum else set()
        starts = _ends(part.part, text, starts, grammar)
    return found
