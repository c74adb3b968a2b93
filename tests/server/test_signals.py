"""Signals in the event loop: each one runs its handler once, in whatever order they arrive."""

import asyncio
import os
import signal
import threading

import pytest
import uvloop

from fcshim.server.run import handle_signals

ROUNDS = 20
"""In each, the loop waits for input when the signal arrives, unless the machine is very busy."""


@pytest.fixture(autouse=True)
def earlier_handlers():
    numbers = (signal.SIGUSR1, signal.SIGUSR2)
    earlier = [signal.getsignal(number) for number in numbers]
    yield
    for number, handler in zip(numbers, earlier, strict=True):
        signal.signal(number, handler)


@pytest.mark.parametrize("loop_factory", [uvloop.new_event_loop, asyncio.new_event_loop])
def test_a_signal_that_arrives_while_another_one_is_handled_runs_its_handler_once(loop_factory):
    """With `add_signal_handler` of uvloop, a worker took one SIGTERM beside ctrl-C as two, and cut its streams."""

    async def count():
        calls = []
        arrived = asyncio.Event()
        handle_signals(asyncio.get_running_loop(), {signal.SIGUSR2: lambda: (calls.append(1), arrived.set())})
        signal.signal(signal.SIGUSR1, lambda *_: os.kill(os.getpid(), signal.SIGUSR2))
        for _ in range(ROUNDS):
            arrived.clear()
            sender = threading.Timer(0.002, os.kill, (os.getpid(), signal.SIGUSR1))
            sender.start()
            await arrived.wait()
            for _ in range(5):
                await asyncio.sleep(0)  # a second call would come now
            sender.join()
        return len(calls)

    with asyncio.Runner(loop_factory=loop_factory) as runner:
        assert ROUNDS == runner.run(count())


def test_a_signal_after_the_end_of_the_loop_is_ignored():
    loop = asyncio.new_event_loop()
    handle_signals(loop, {signal.SIGUSR1: lambda: None})
    loop.close()

    os.kill(os.getpid(), signal.SIGUSR1)
