"""The start of the reply, where reasoning may stand, and the reasoning.

Theory of operation. Reasoning tags open only at the start of the reply or behind reasoning. The policy says what
becomes of a call inside: it is none, or one if the reasoning never closes and the call comes last, or always one.

Rule: reasoning is said as such, byte for byte, and its tags are dropped.
Neighbours: `surroundings` has the tags, `held` keeps a call until the reasoning has ended, `stream` reads the answer.
"""

import re
from abc import abstractmethod
from collections.abc import Callable
from typing import Literal

from fcshim.parse.dialect import Dialect
from fcshim.parse.limits import Limits
from fcshim.parse.machine.held import HeldMachine
from fcshim.parse.machine.openers import Openers, Opening
from fcshim.parse.machine.surroundings import REASONING_TAGS, Line
from fcshim.parse.markers import marker_set
from fcshim.parse.sink import CallSink

ReasoningPolicy = Literal["ignore", "recover", "promote"]

_SPACE = re.compile(r"\s*+")


class ReasoningMachine(HeldMachine):
    """The states before the answer."""

    def __init__(
        self,
        openers: Openers,
        sink: CallSink,
        limits: Limits,
        *,
        asked: Dialect | None,
        fenced_calls: bool,
        policy: ReasoningPolicy,
    ) -> None:
        super().__init__(openers, sink, limits, asked=asked, fenced_calls=fenced_calls)
        self._policy = policy
        self._reasoning_close = ""
        self._reasoning_markers = openers.markers

    @abstractmethod
    def _begin(self, opening: Opening, marker: str, start: int, home: Callable[[int], int]) -> int:
        """Open what begins here, held where it may be quoted or must be the last thing."""

    def _lead(self, pos: int) -> int:
        found = _SPACE.match(self._buffer, pos)
        assert found is not None
        self._output.say(found[0])
        pos = found.end()
        rest = self._buffer[pos : pos + 32]
        begun = (*(opener for opener, _ in REASONING_TAGS), *self._openers.words)
        if rest and any(opener != rest and opener.startswith(rest) for opener in begun):
            self._stall = True
            return pos
        for opener, closer in REASONING_TAGS:
            if rest.startswith(opener):
                self._enter_reasoning(closer)
                return pos + len(opener)
        word = self._openers.word(self._buffer, pos)
        if word and self._output.line.at_start():
            return self._word(word, pos)
        if rest:
            self._state = self._text
        return pos

    def _word(self, word: str, pos: int) -> int:
        """A word that opens a call at the start of a line stands where no newline was before it."""
        picked = self._openers.pick("\n" + word, self._buffer, pos - 1)
        if picked is None:
            self._stall = True
        elif isinstance(picked, Opening):
            return self._begin(picked, word, pos, self._text)
        else:
            self._state = self._text
        return pos

    def _enter_reasoning(self, closer: str) -> None:
        self._output.flush()
        self._output.reasons = True
        self._reasoning_close = closer
        seen = () if self._policy == "ignore" else self._openers.anywhere
        self._reasoning_markers = marker_set((closer, *seen))
        self._state = self._reasoning

    def _reasoning(self, pos: int) -> int:
        found = self._reasoning_markers.search(self._buffer, pos)
        if found is None:
            return self._say_up_to(self._reasoning_markers.tail(self._buffer, pos), pos)
        start, end = found.span()
        self._output.say(self._buffer[pos:start])
        if self._reasoning_markers.begun(self._buffer, start):
            self._stall = True
            return start
        if found[0] != self._reasoning_close:
            return self._reasoned_call(found[0], start, end)
        self._output.flush()
        self._output.reasons = False
        self._output.line = Line()
        self._state = self._lead
        return end

    def _reasoned_call(self, marker: str, start: int, end: int) -> int:
        picked = self._openers.pick(marker, self._buffer, start)
        if picked is None:
            self._stall = True
            return start
        if not isinstance(picked, Opening):
            self._output.say(marker)
            return end
        if self._policy == "recover":
            self._output.begin_hold("reasoning")
        return self._open(picked, marker, start, self._reasoning)
