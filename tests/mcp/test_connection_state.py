"""The delays between attempts to connect."""

from fcshim.mcp.connection_state import FIRST_DELAY, Backoff


def test_delays_double_up_to_the_maximum():
    backoff = Backoff(1.0, lambda: 1.0)

    assert [0.1, 0.2, 0.4, 0.8, 1.0, 1.0] == [backoff.next_delay() for _ in range(6)]


def test_jitter_takes_up_to_a_half():
    assert FIRST_DELAY / 2 == Backoff(1.0, lambda: 0.0).next_delay()


def test_a_success_resets_the_delay():
    backoff = Backoff(1.0, lambda: 1.0)
    backoff.next_delay()
    backoff.next_delay()
    backoff.reset()

    assert FIRST_DELAY == backoff.next_delay()


def test_a_thousand_failures_do_not_overflow():
    backoff = Backoff(30.0, lambda: 1.0)

    assert 30.0 == [backoff.next_delay() for _ in range(2_000)][-1]
