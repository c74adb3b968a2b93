"""Texts in which none of a set of markers occurs, as an expression without recursion.

Theory of operation. The markers make an Aho-Corasick automaton, whose state is the longest marker prefix that the text
ends with. A text is a sequence of units. A character that leaves the automaton in its start state is a unit; one that
may begin a marker opens a run, which continues, state by state, up to the first character that leads back to the start.
In most tags no character inside a marker begins a marker. Then a run can only be replaced by another one at a character
that begins a marker, and all replaced runs are one repetition before the run that ends. A long marker that does contain
such a character is excluded by its prefix up to there. In all other cases each state has its own transitions into other
runs, and a run may contain one other run.

Rule: no admitted text contains a marker. A few texts without a marker are not admitted either: those with many marker
prefixes in a row, or with most of a long marker.
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
"""Runs that may begin inside a run: each level multiplies the rules."""
_MAX_RESTARTS = 16
"""Times that a run may be replaced by another one, or stay in its state, as in a conflict marker `<<<<<<<`."""
_DISTINCTIVE_LENGTH = 12
"""Length from which a prefix of a marker is unlikely to be meant as text: `<|close|>call`, for example."""


@dataclass(frozen=True, slots=True)
class MarkerFreeText:
    """Texts without the markers: `unit` repeated, then `last`, an unfinished run or nothing.

    `rules` holds the rules that both refer to.
    """

    unit: Expression
    last: Expression
    rules: Mapping[str, Expression]


@functools.lru_cache(maxsize=256)
def text_excluding(
    name: str, markers: tuple[str, ...], ranges: Ranges, escape: Expression | None = None
) -> MarkerFreeText:
    """Return the texts over the characters of `ranges`, and `escape` sequences, in which no marker occurs.

    Rule names begin with `name`.
    """
    tags = _distinctive_prefixes(markers)
    kind, markers = (_MarkerFreeTextWriter, markers) if tags is None else (_TagFreeTextWriter, tags)
    return kind(name, _MarkerAutomaton(markers), ranges, escape).write()


def _distinctive_prefixes(markers: tuple[str, ...]) -> tuple[str, ...] | None:
    """Cut each marker before the first character that begins a marker; None if a prefix is too short to exclude."""
    firsts = {marker[0] for marker in markers}
    ends = {
        marker: next((at for at in range(1, len(marker)) if marker[at] in firsts), len(marker)) for marker in markers
    }
    if any(end < min(len(marker), _DISTINCTIVE_LENGTH) for marker, end in ends.items()):
        return None
    return tuple(dict.fromkeys(marker[:end] for marker, end in ends.items()))


class _MarkerAutomaton:
    """The Aho-Corasick automaton of the markers; state 0 is the start."""

    def __init__(self, markers: Iterable[str]) -> None:
        self.trie: list[dict[str, int]] = [{}]
        """For each state, the characters that continue a marker, with the next state."""
        self.accepting = [False]
        """For each state, whether a marker ends there."""
        for marker in markers:
            self._add(marker)
        self.transitions = self._all_transitions()
        """For each state, the next state of every character that does not lead to the start."""

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
        transitions: list[dict[str, int]] = [dict(self.trie[0]), *({} for _ in self.trie[1:])]
        queue = [(state, 0) for state in self.trie[0].values()]
        for state, fallback in queue:  # grows during the loop: breadth first, so the fallback is complete already
            self.accepting[state] = self.accepting[state] or self.accepting[fallback]
            transitions[state] = {**transitions[fallback], **self.trie[state]}
            queue += [(inner, transitions[fallback].get(char, 0)) for char, inner in self.trie[state].items()]
        return transitions


class _MarkerFreeTextWriter:
    """Writes the units; a state of a run that several transitions enter is a rule."""

    def __init__(self, name: str, automaton: _MarkerAutomaton, ranges: Ranges, escape: Expression | None) -> None:
        self._name = name
        self._automaton = automaton
        self._ranges = ranges
        self._escapes = [] if escape is None else [escape]
        self._rules: dict[str, Expression] = {}

    def write(self) -> MarkerFreeText:
        starts = [(char, state) for char, state in self._automaton.trie[0].items() if self._is_allowed(char, state)]
        runs = [
            series(LiteralText(char), self._rule_of("run", self._rest_of_run, state, _MAX_NESTED_RUNS))
            for char, state in starts
        ]
        plain = Chars(without(self._ranges, map(ord, self._automaton.trie[0])))
        last = [
            series(LiteralText(char), self._rule_of("last", self._rest_at_end, state, _MAX_NESTED_RUNS))
            for char, state in starts
        ]
        return MarkerFreeText(choice([plain, *self._escapes, *runs]), choice([EMPTY, *last]), self._rules)

    def _is_allowed(self, char: str, to: int) -> bool:
        return not self._automaton.accepting[to] and any(low <= ord(char) <= high for low, high in self._ranges)

    def _rule_of(self, kind: str, make: Callable[[int, int], Expression], state: int, level: int) -> Expression:
        """Return the rule of what may follow in a state, made once."""
        name = f"{self._name}-{kind}{level}-{state}"
        if name not in self._rules:
            self._rules[name] = make(state, level)  # makes the rules that it refers to first
        return RuleRef(name)

    def _rest_of_run(self, state: int, level: int) -> Expression:
        """Return the rest of a run from a state, up to the character that ends it."""
        plain = Chars(without(self._ranges, map(ord, self._automaton.transitions[state])))
        transitions = self._transitions("run", self._rest_of_run, state, level)
        return series(self._self_loop(state), choice([plain, *self._escapes, *transitions]))

    def _rest_at_end(self, state: int, level: int) -> Expression:
        """Return the rest of a run that the end of the text leaves unfinished."""
        return series(
            self._self_loop(state), choice([EMPTY, *self._transitions("last", self._rest_at_end, state, level)])
        )

    def _self_loop(self, state: int) -> Expression:
        """Return the repetition of the character that stays in the state, if there is one."""
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
    """Writes the units for markers that contain no character that begins a marker, after their first."""

    def write(self) -> MarkerFreeText:
        firsts = self._automaton.trie[0]
        starts = [(char, state) for char, state in firsts.items() if self._is_allowed(char, state)]
        plain = [Chars(without(self._ranges, map(ord, firsts))), *self._escapes]
        if not starts:
            return MarkerFreeText(choice(plain), EMPTY, {})
        partial = choice(series(LiteralText(char), self._partial_marker(state)) for char, state in starts)
        self._rules[f"{self._name}-left"] = partial
        replaced = Repeat(RuleRef(f"{self._name}-left"), 0, _MAX_RESTARTS)
        run = series(replaced, choice(series(LiteralText(char), self._finished_run(state)) for char, state in starts))
        return MarkerFreeText(
            choice([*plain, run]), Repeat(RuleRef(f"{self._name}-left"), 0, _MAX_RESTARTS + 1), self._rules
        )

    def _partial_marker(self, state: int) -> Expression:
        """Return the proper prefixes of the marker from a state, the empty one included."""
        steps = [series(LiteralText(char), self._partial_marker(to)) for char, to in self._marker_steps(state)]
        return optional(choice(steps)) if steps else EMPTY

    def _finished_run(self, state: int) -> Expression:
        """Return the rest of a run from a state, up to the character that ends it."""
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
