"""An event loop whose clock moves only while nothing is left to do: how busy the machine is changes no outcome.

For code that waits for timers and other tasks. What sockets, threads and processes do takes no time on this clock.
"""

import asyncio
import functools
import selectors
from collections.abc import Callable, Coroutine
from typing import Any


class _JumpingSelector(selectors.DefaultSelector):  # type: ignore[misc, valid-type] # it is another class on each system
    """Moves the clock by the time that it is to wait, instead of waiting."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0 if timeout is not None else None)
        if not ready and timeout is not None:
            self.now += max(0.0, timeout)
        return ready


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """A loop with the clock of its selector."""

    def __init__(self) -> None:
        self._clock = _JumpingSelector()
        super().__init__(self._clock)

    def time(self) -> float:
        return self._clock.now


def in_virtual_time(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Run a test in a loop of its own, where waiting takes no time."""

    @functools.wraps(test)
    def run(*args: Any, **options: Any) -> None:
        with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
            runner.run(test(*args, **options))

    return run
