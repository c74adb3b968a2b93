"""Mixed traffic with faults leaves nothing behind: the short form of `python -m benchmarks.endurance`."""

import pytest

from benchmarks.endurance.__main__ import LIMIT, endure
from benchmarks.proxy.processes import scripted_upstream

pytestmark = pytest.mark.security


async def test_every_request_ends_in_its_apis_form_and_nothing_is_left_of_it(tmp_path):
    """Without the memory: what is new to a process in its first seconds says nothing about its growth."""
    with scripted_upstream() as upstream:
        result = await endure(upstream, tmp_path, 30)
    outcomes = result.outcomes

    assert [] == outcomes.problems
    assert 0 == outcomes.wrong + outcomes.conversations.lost
    assert outcomes.ends.total() > 100
    assert result.after.descriptors <= result.before.descriptors * LIMIT
    assert result.after.tasks <= result.before.tasks * LIMIT
