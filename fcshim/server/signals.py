"""Handlers of signals that run in the event loop, once for each signal.

Rule: `loop.add_signal_handler` is not used. uvloop reads the numbers of signals from a pipe, and also from what its own
handler has noted; a signal that arrives while it handles another one is in both, and its callback ran twice. So one
SIGTERM beside a ctrl-C of the terminal counted as two, and ended streams that should have finished.
"""

import asyncio
import contextlib
import signal
import sys
from collections.abc import Callable, Mapping


def handle_signals(loop: asyncio.AbstractEventLoop, handlers: Mapping[int, Callable[[], object]]) -> None:
    """Call a handler in the loop for each arrival of its signal, until the process ends. Not on Windows."""
    if sys.platform == "win32":
        return

    def on_signal(number: int, _: object) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: the process is about to end
            loop.call_soon_threadsafe(handlers[number])

    for number in handlers:
        signal.signal(number, on_signal)
        signal.siginterrupt(number, False)  # noqa: FBT003 - restart system calls, as `add_signal_handler` does
