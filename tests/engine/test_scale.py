"""Replicas that share a store: the small form of `python -m benchmarks.scale`."""

import pytest

from benchmarks.proxy.processes import scripted_upstream
from benchmarks.scale.replicas import running_replicas
from benchmarks.scale.scenarios import (
    converse_while_replicas_are_killed,
    stream_while_replicas_are_restarted,
    stream_while_settings_change,
)
from tests.server.redis_server import running_redis

CONVERSATIONS = 13
"""An odd number: turns of one conversation that go on in step reach both replicas in turn."""
TURNS = 4


@pytest.fixture(scope="module")
def upstream():
    with scripted_upstream() as process:
        yield process


@pytest.fixture(params=["sqlite", "redis"])
def store(request, tmp_path):
    if request.param == "sqlite":
        yield f"sqlite:{tmp_path / 'store.db'}"
        return
    with running_redis(tmp_path) as server:
        yield server.url


async def test_no_turn_is_lost_while_replicas_that_share_a_store_are_killed(upstream, store):
    async with running_replicas(2, upstream.port, "--store", store) as replicas:
        result = await converse_while_replicas_are_killed(
            replicas, conversations=CONVERSATIONS, turns=TURNS, pause=0.05
        )

    assert (0, CONVERSATIONS * TURNS) == (result.tally.lost, result.tally.completed), result.tally.problem
    assert result.kills > 0
    assert result.tally.repeated > 0


async def test_turns_are_lost_without_a_shared_store(upstream):
    """Else the test above would say nothing. With more turns, so that some follow after a slow restart."""
    async with running_replicas(2, upstream.port) as replicas:
        result = await converse_while_replicas_are_killed(
            replicas, conversations=CONVERSATIONS, turns=3 * TURNS, pause=0.05
        )

    assert result.tally.lost > 0


async def test_a_rolling_restart_cuts_no_stream(upstream):
    async with running_replicas(2, upstream.port) as replicas:
        result = await stream_while_replicas_are_restarted(replicas, streams=20, chunks=20, pause=0.05)

    assert 0 == result.cut
    assert result.complete >= 20


async def test_new_settings_cut_no_stream_of_any_worker(upstream, tmp_path):
    settings = tmp_path / "fcshim.toml"
    settings.write_text("", "utf-8")
    async with running_replicas(1, upstream.port, "--workers", "2", "--config", str(settings)) as (replica,):
        result = await stream_while_settings_change(replica, settings, reloads=10, streams=20, chunks=20, pause=0.05)

    assert 0 == result.cut
    assert result.complete >= 20
