"""What all states share: the current state, and the text that it reads.

Rule: the tail that a state does not consume is short; it waits in `carry` and is read again with more text after it.
"""

import enum


class State(enum.IntEnum):
    """The states of the parser; the table at the head of `parse/stream.py` describes them."""

    BEFORE_ANSWER = enum.auto()
    IN_REASONING = enum.auto()
    IN_TEXT = enum.auto()
    IN_CALL = enum.auto()
    AFTER_CALL = enum.auto()
    IN_SECTION = enum.auto()
    IN_FENCE = enum.auto()
    IN_OVERLONG_RUN = enum.auto()
    IN_FENCE_OF_CALLS = enum.auto()
    AFTER_PENDING_CALLS = enum.auto()
    AFTER_CALL_IN_SPAN = enum.auto()
    IN_ECHOED_RESULT = enum.auto()
    AFTER_ROLE_MARKER = enum.auto()
    FINISHED = enum.auto()


class Cursor:
    """The state and its text: a state takes a position in `buffer` and returns the next one."""

    __slots__ = ("buffer", "carry", "state", "wait")

    def __init__(self) -> None:
        self.state = State.BEFORE_ANSWER
        self.buffer = ""
        self.carry = ""
        self.wait = False
        """True if the text from the returned position on can only be read together with more text."""

    def wait_from(self, pos: int) -> int:
        """Ask for more text after `buffer[pos:]`, unless that is empty; return `pos`."""
        self.wait = pos < len(self.buffer)
        return pos

    def take_carry(self) -> str:
        """Return the text that waits, and forget it."""
        carry, self.carry = self.carry, ""
        return carry
