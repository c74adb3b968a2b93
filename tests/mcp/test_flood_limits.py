"""Limits on messages in a time."""

from fcshim.mcp.flood_limits import RateLimit


def test_a_burst_is_admitted_then_so_many_a_second():
    limit = RateLimit(3, 2)
    admitted = [limit.admits(100.0) for _ in range(4)]

    assert [True, True, True, False] == admitted
    assert [True, False] == [limit.admits(100.5) for _ in range(2)]


def test_what_is_delayed_waits_for_its_tokens():
    limit = RateLimit(10, 2)

    assert [0.0, 1.0, 2.0] == [limit.delay(10, 100.0), limit.delay(2, 100.0), limit.delay(2, 100.0)]
