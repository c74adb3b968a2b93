"""A limit on waiting, in real time, with waits of a few hundredths of a second."""

import asyncio

import pytest

from fcshim.errors import UpstreamError
from fcshim.upstream.deadline import Deadline


async def waiting(deadline, seconds):
    try:
        await asyncio.sleep(seconds)
    except asyncio.CancelledError:
        deadline.raise_if_expired()
        raise


async def test_a_too_long_first_wait_is_an_error():
    deadline = Deadline(0.02)

    with pytest.raises(UpstreamError, match=r"sent nothing for 0\.02 s") as caught:
        await waiting(deadline, 5)
    assert (504, "timeout") == (caught.value.status, caught.value.kind)
    assert 0 == asyncio.current_task().cancelling()
    deadline.close()


async def test_a_later_wait_has_the_latest_limit():
    deadline = Deadline(5)
    deadline.pause(0.02)
    deadline.resume()

    with pytest.raises(UpstreamError, match=r"0\.02 s"):
        await waiting(deadline, 5)
    deadline.close()


async def test_short_waits_do_not_add_up():
    deadline = Deadline(0.1)
    for _ in range(8):
        deadline.pause(0.1)
        deadline.resume()
        await waiting(deadline, 0.03)
    deadline.close()


async def test_time_between_the_waits_does_not_count():
    deadline = Deadline(0.05)
    deadline.pause(0.05)
    await asyncio.sleep(0.15)
    deadline.resume()
    await waiting(deadline, 0.01)
    deadline.close()


async def test_a_cancellation_from_outside_stays_a_cancellation():
    deadline = Deadline(5)
    task = asyncio.current_task()
    asyncio.get_running_loop().call_later(0.02, task.cancel)

    with pytest.raises(asyncio.CancelledError):
        await waiting(deadline, 5)
    assert 1 == task.cancelling()
    task.uncancel()
    deadline.close()


async def test_after_close_nothing_is_cancelled():
    deadline = Deadline(0.02)
    deadline.close()

    await asyncio.sleep(0.05)
