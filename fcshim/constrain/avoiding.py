"""Texts in which certain markers do not occur, as an expression over their characters.

Theory of operation. The markers make an automaton (Aho and Corasick's): a state is how much of a marker the text ends
with. A character that leads nowhere is a unit by itself; one that may begin a marker opens a run, which goes on, state
by state, up to the first character that leads nowhere. Inside a run another one may begin once.

Rule: no text that is admitted holds a marker; of those that hold none, some with beginnings of many in a row are left
out.
Neighbours: `strings` asks for the content of strings that stand between markers.
"""

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from fcshim.constrain.grammar import EMPTY, Chars, Expression, Ranges, Repeat, Rule, Text, choice, series, without

_LEVELS = 1
"""Runs that may begin inside a run."""
_IN_A_ROW = 16
"""Times that the first character of a marker may follow itself: a line of `<<<<<<<`, say."""


@dataclass(frozen=True, slots=True)
class Units:
    """What a text without the markers is made of: `one` of these again and again, and at the end perhaps `last`.

    `rules` are those that they lead to.
    """

    one: Expression
    last: Expression
    rules: Mapping[str, Expression]


@functools.lru_cache(maxsize=256)
def avoiding(name: str, markers: tuple[str, ...], ranges: Ranges, escape: Expression | None = None) -> Units:
    """Give the units of texts over the characters of `ranges`, and an `escape`, in which no marker occurs.

    The names of their rules begin with `name`.
    """
    return _Units(name, _Automaton(markers), ranges, escape).made()


class _Automaton:
    def __init__(self, markers: Iterable[str]) -> None:
        self.next: list[dict[str, int]] = [{}]
        """For each state, where the characters lead that go on with a marker."""
        self.ends = [False]
        """Whether a marker is whole there."""
        for marker in markers:
            self._add(marker)
        self.ways = self._connected()
        """For each state, where each character leads that does not lead back to the beginning."""

    def _add(self, marker: str) -> None:
        state = 0
        for char in marker:
            if char not in self.next[state]:
                self.next[state][char] = len(self.next)
                self.next.append({})
                self.ends.append(False)
            state = self.next[state][char]
        self.ends[state] = True

    def _connected(self) -> list[dict[str, int]]:
        ways: list[dict[str, int]] = [dict(self.next[0]), *({} for _ in self.next[1:])]
        waiting = [(state, 0) for state in self.next[0].values()]
        for state, fallback in waiting:  # grows while it is walked through: the states in the order of their depth
            self.ends[state] = self.ends[state] or self.ends[fallback]
            ways[state] = {**ways[fallback], **self.next[state]}
            waiting += [(inner, ways[fallback].get(char, 0)) for char, inner in self.next[state].items()]
        return ways


class _Units:
    """Writes the units; each state of a run to which more than one way leads is a rule."""

    def __init__(self, name: str, automaton: _Automaton, ranges: Ranges, escape: Expression | None) -> None:
        self._name = name
        self._automaton = automaton
        self._ranges = ranges
        self._escapes = [] if escape is None else [escape]
        self._rules: dict[str, Expression] = {}

    def made(self) -> Units:
        leads = [(char, state) for char, state in self._automaton.next[0].items() if self._may(char, state)]
        runs = [series(Text(char), self._once("run", self._behind, state, _LEVELS)) for char, state in leads]
        plain = Chars(without(self._ranges, map(ord, self._automaton.next[0])))
        last = [series(Text(char), self._once("last", self._tail, state, _LEVELS)) for char, state in leads]
        return Units(choice([plain, *self._escapes, *runs]), choice([EMPTY, *last]), self._rules)

    def _may(self, char: str, to: int) -> bool:
        return not self._automaton.ends[to] and any(low <= ord(char) <= high for low, high in self._ranges)

    def _once(self, kind: str, make: Callable[[int, int], Expression], state: int, level: int) -> Expression:
        """Give the rule of what may follow in a state to which more than one way leads."""
        name = f"{self._name}-{kind}{level}-{state}"
        if name not in self._rules:
            self._rules[name] = make(state, level)  # behind the rules that it leads to
        return Rule(name)

    def _behind(self, state: int, level: int) -> Expression:
        """Give what may follow in a run, up to the character that ends it."""
        plain = Chars(without(self._ranges, map(ord, self._automaton.ways[state])))
        onward = self._onward("run", self._behind, state, level)
        return series(self._again(state), choice([plain, *self._escapes, *onward]))

    def _tail(self, state: int, level: int) -> Expression:
        """Give how a beginning of a marker may go on at the end of a text."""
        return series(self._again(state), choice([EMPTY, *self._onward("last", self._tail, state, level)]))

    def _again(self, state: int) -> Expression:
        """Give the character that leads back to the same state, some times."""
        chars = [char for char, to in self._automaton.ways[state].items() if to == state]
        return Repeat(Text(chars[0]), 0, _IN_A_ROW) if chars else EMPTY

    def _onward(
        self, kind: str, make: Callable[[int, int], Expression], state: int, level: int
    ) -> Iterator[Expression]:
        for char, to in self._automaton.ways[state].items():
            if to == state or not self._may(char, to):
                continue
            if self._automaton.next[state].get(char) == to:
                yield series(Text(char), make(to, level))
            elif level:
                yield series(Text(char), self._once(kind, make, to, level - 1))
