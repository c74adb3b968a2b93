"""The loop of the tag machine over text that arrives in pieces; each state is one method of a subclass.

Rule: the tail that a state does not consume is short; it waits in `_carry` and is passed again with more text after it.
"""

from collections.abc import Callable

from fcshim.parse.limits import Limits
from fcshim.parse.machine.output import Output
from fcshim.parse.sink import CallSink


class TagMachine:
    """Runs the states: each takes a position in `_buffer` and returns the next; `_wait` asks for more text."""

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
