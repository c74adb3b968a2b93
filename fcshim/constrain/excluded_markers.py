"""Texts in which certain markers do not occur, as an expression over their characters.

Theory of operation. The markers make an automaton (Aho and Corasick's): a state is how much of a marker the text ends
with. A character that leads nowhere is a unit by itself; one that may begin a marker opens a run, which goes on, state
by state, up to the first character that leads nowhere. Where no marker holds a character that begins one, as with most
tags, a run is given up for another one only by such a character, and all that was given up is one repetition before the
run that ends; a long marker that does hold one further on is avoided up to there. Else each state has its own ways into
another run, and inside a run another one may begin once.

Rule: no text that is admitted holds a marker; of those that hold none, only some with beginnings of many in a row, or
with most of a long one, are left out.
Neighbours: `strings` asks for the content of strings that stand between markers.
"""

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from fcshim.constrain.grammar import (
    EMPTY,
    Chars,
    Expression,
    LiteralText,
    Ranges,
    Repeat,
    RuleRef,
    choice,
    optional,
    series,
    without,
)

_MAX_NESTED_RUNS = 1
"""Runs that may begin inside a run."""
_MAX_RESTARTS = 16
"""Times that a run may be given up for another one, or go on with the same character: a line of `<<<<<<<`, say."""
_DISTINCTIVE_LENGTH = 12
"""Characters of a marker that are enough to tell it: `<|close|>call`, say, whatever follows."""


@dataclass(frozen=True, slots=True)
class MarkerFreeText:
    """What a text without the markers is made of: `one` of these again and again, and at the end perhaps `last`.

    `rules` are those that they lead to.
    """

    unit: Expression
    last: Expression
    rules: Mapping[str, Expression]


@functools.lru_cache(maxsize=256)
def text_excluding(
    name: str, markers: tuple[str, ...], ranges: Ranges, escape: Expression | None = None
) -> MarkerFreeText:
    """Give the units of texts over the characters of `ranges`, and an `escape`, in which no marker occurs.

    The names of their rules begin with `name`.
    """
    tags = _distinctive_prefixes(markers)
    kind, markers = (_MarkerFreeTextWriter, markers) if tags is None else (_TagFreeTextWriter, tags)
    return kind(name, _MarkerAutomaton(markers), ranges, escape).write()


def _distinctive_prefixes(markers: tuple[str, ...]) -> tuple[str, ...] | None:
    """Give the markers up to where one might begin inside; None where little is left, which may well be text."""
    firsts = {marker[0] for marker in markers}
    cut = {
        marker: next((at for at in range(1, len(marker)) if marker[at] in firsts), len(marker)) for marker in markers
    }
    if any(at < min(len(marker), _DISTINCTIVE_LENGTH) for marker, at in cut.items()):
        return None
    return tuple(dict.fromkeys(marker[:at] for marker, at in cut.items()))


class _MarkerAutomaton:
    def __init__(self, markers: Iterable[str]) -> None:
        self.trie: list[dict[str, int]] = [{}]
        """For each state, where the characters lead that go on with a marker."""
        self.accepting = [False]
        """Whether a marker is whole there."""
        for marker in markers:
            self._add(marker)
        self.transitions = self._all_transitions()
        """For each state, where each character leads that does not lead back to the beginning."""

    def _add(self, marker: str) -> None:
        state = 0
        for char in marker:
            if char not in self.trie[state]:
                self.trie[state][char] = len(self.trie)
                self.trie.append({})
                self.accepting.append(False)
            state = self.trie[state][char]
        self.accepting[state] = True

    def _all_transitions(self) -> list[dict[str, int]]:
        ways: list[dict[str, int]] = [dict(self.trie[0]), *({} for _ in self.trie[1:])]
        waiting = [(state, 0) for state in self.trie[0].values()]
        for state, fallback in waiting:  # grows while it is walked through: the states in the order of their depth
            self.accepting[state] = self.accepting[state] or self.accepting[fallback]
            ways[state] = {**ways[fallback], **self.trie[state]}
            waiting += [(inner, ways[fallback].get(char, 0)) for char, inner in self.trie[state].items()]
        return ways


class _MarkerFreeTextWriter:
    """Writes the units; each state of a run to which more than one way leads is a rule."""

    def __init__(self, name: str, automaton: _MarkerAutomaton, ranges: Ranges, escape: Expression | None) -> None:
        self._name = name
        self._automaton = automaton
        self._ranges = ranges
        self._escapes = [] if escape is None else [escape]
        self._rules: dict[str, Expression] = {}

    def write(self) -> MarkerFreeText:
        leads = [(char, state) for char, state in self._automaton.trie[0].items() if self._is_allowed(char, state)]
        runs = [
            series(LiteralText(char), self._rule_of("run", self._rest_of_run, state, _MAX_NESTED_RUNS))
            for char, state in leads
        ]
        plain = Chars(without(self._ranges, map(ord, self._automaton.trie[0])))
        last = [
            series(LiteralText(char), self._rule_of("last", self._rest_at_end, state, _MAX_NESTED_RUNS))
            for char, state in leads
        ]
        return MarkerFreeText(choice([plain, *self._escapes, *runs]), choice([EMPTY, *last]), self._rules)

    def _is_allowed(self, char: str, to: int) -> bool:
        return not self._automaton.accepting[to] and any(low <= ord(char) <= high for low, high in self._ranges)

    def _rule_of(self, kind: str, make: Callable[[int, int], Expression], state: int, level: int) -> Expression:
        """Give the rule of what may follow in a state to which more than one way leads."""
        name = f"{self._name}-{kind}{level}-{state}"
        if name not in self._rules:
            self._rules[name] = make(state, level)  # behind the rules that it leads to
        return RuleRef(name)

    def _rest_of_run(self, state: int, level: int) -> Expression:
        """Give what may follow in a run, up to the character that ends it."""
        plain = Chars(without(self._ranges, map(ord, self._automaton.transitions[state])))
        onward = self._transitions("run", self._rest_of_run, state, level)
        return series(self._self_loop(state), choice([plain, *self._escapes, *onward]))

    def _rest_at_end(self, state: int, level: int) -> Expression:
        """Give how a beginning of a marker may go on at the end of a text."""
        return series(
            self._self_loop(state), choice([EMPTY, *self._transitions("last", self._rest_at_end, state, level)])
        )

    def _self_loop(self, state: int) -> Expression:
        """Give the character that leads back to the same state, some times."""
        chars = [char for char, to in self._automaton.transitions[state].items() if to == state]
        return Repeat(LiteralText(chars[0]), 0, _MAX_RESTARTS) if chars else EMPTY

    def _transitions(
        self, kind: str, make: Callable[[int, int], Expression], state: int, level: int
    ) -> Iterator[Expression]:
        for char, to in self._automaton.transitions[state].items():
            if to == state or not self._is_allowed(char, to):
                continue
            if self._automaton.trie[state].get(char) == to:
                yield series(LiteralText(char), make(to, level))
            elif level:
                yield series(LiteralText(char), self._rule_of(kind, make, to, level - 1))


class _TagFreeTextWriter(_MarkerFreeTextWriter):
    """Writes the units of texts between markers that hold no character with which one begins."""

    def write(self) -> MarkerFreeText:
        firsts = self._automaton.trie[0]
        leads = [(char, state) for char, state in firsts.items() if self._is_allowed(char, state)]
        plain = [Chars(without(self._ranges, map(ord, firsts))), *self._escapes]
        if not leads:
            return MarkerFreeText(choice(plain), EMPTY, {})
        left = choice(series(LiteralText(char), self._partial_marker(state)) for char, state in leads)
        self._rules[f"{self._name}-left"] = left
        given_up = Repeat(RuleRef(f"{self._name}-left"), 0, _MAX_RESTARTS)
        run = series(given_up, choice(series(LiteralText(char), self._finished_run(state)) for char, state in leads))
        return MarkerFreeText(
            choice([*plain, run]), Repeat(RuleRef(f"{self._name}-left"), 0, _MAX_RESTARTS + 1), self._rules
        )

    def _partial_marker(self, state: int) -> Expression:
        """Give how far a run may go that does not make its marker whole, nothing too."""
        onward = [series(LiteralText(char), self._partial_marker(to)) for char, to in self._marker_steps(state)]
        return optional(choice(onward)) if onward else EMPTY

    def _finished_run(self, state: int) -> Expression:
        """Give what may follow in a run, up to the character that ends it."""
        others = Chars(without(self._ranges, map(ord, self._automaton.transitions[state])))
        return choice(
            [
                others,
                *self._escapes,
                *(series(LiteralText(char), self._finished_run(to)) for char, to in self._marker_steps(state)),
            ]
        )

    def _marker_steps(self, state: int) -> list[tuple[str, int]]:
        return [(char, to) for char, to in self._automaton.trie[state].items() if self._is_allowed(char, to)]
