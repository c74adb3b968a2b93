"""The loop of the tag machine: one state, one method, over text that comes in pieces.

Rule: what a state leaves is short, waits in `_carry`, and comes again with more text behind it.
Neighbours: `code`, `calls`, `held`, `reasoning` and `stream` add the states, each on top of the one before.
"""

from collections.abc import Callable

from fcshim.parse.limits import Limits
from fcshim.parse.machine.output import Output
from fcshim.parse.sink import CallSink


class TagMachine:
    """Each state takes the position in the current text and gives the next; `_stall` says that it needs more text."""

    def __init__(self, sink: CallSink, limits: Limits) -> None:
        self._limits = limits
        self._sink = sink
        self._output = Output(sink)
        self._state: Callable[[int], int] = _initial_state
        self._buffer = ""
        self._carry = ""
        self._wait = False

    def _read(self, text: str) -> None:
        self._buffer = self._carry + text if self._carry else text
        self._carry = ""
        self._loop(0)

    def _loop(self, pos: int) -> None:
        self._wait = False
        while pos < len(self._buffer):
            pos = self._state(pos)
            if self._wait:
                self._carry = self._buffer[pos:]
                break
        self._buffer = ""

    def _emit_up_to(self, end: int, pos: int) -> int:
        self._output.emit_text(self._buffer[pos:end])
        self._wait = end < len(self._buffer)
        return end


def _initial_state(_pos: int) -> int:
    raise AssertionError
