"""A worker whose event loop stands still, as SIGSTOP makes it: what others make of it."""

import asyncio
import contextlib
import os
import signal
from pathlib import Path

import pytest

from tests.scripted import ROLE, text_chunk
from tests.server.proxy import chat_body, http_client, post_request, raw_connection
from tests.server.raw_upstream import LAST_CHUNK, hang, paused_stream, raw_upstream, stream_texts, stream_then
from tests.server.test_metrics import figures
from tests.server.test_run import refused
from tests.server.test_workers import (
    COUNT,
    FOR_EACH,
    STREAMS,
    children,
    listens,
    log_of,
    open_streams,
    respond,
    serving,
    until,
)

pytestmark = pytest.mark.security


def is_stopped(pid):
    return Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()[0] == "T"


def exists(pid):
    return Path(f"/proc/{pid}").exists()


async def stick(pid):
    os.kill(pid, signal.SIGSTOP)
    await until(lambda: is_stopped(pid))


@contextlib.asynccontextmanager
async def one_stuck(folder, play, *options):
    """Run three workers, of which the first is stuck; yield the process, its URL, all workers, and open streams."""
    async with (
        raw_upstream(play, lists_models=False) as upstream,
        serving(folder, upstream.url, *options) as (process, url, pids),
        contextlib.AsyncExitStack() as stack,
    ):
        streams = await open_streams(stack, url, FOR_EACH)
        await stick(pids[0])
        try:
            yield process, url, pids, streams
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pids[0], signal.SIGCONT)


async def read_one(reader, seconds):
    """Return the rest of a reply; nothing if its end has not come after so many seconds."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            return await reader.readuntil(LAST_CHUNK)
    return b""


async def test_streams_of_other_workers_end_and_those_of_the_stuck_one_when_it_goes_on(tmp_path):
    go_on = asyncio.Event()
    async with one_stuck(tmp_path, paused_stream(go_on)) as (_, _, pids, streams):
        go_on.set()
        ended = await asyncio.gather(*(read_one(reader, 5) for reader in streams))
        os.kill(pids[0], signal.SIGCONT)
        late = [await read_one(reader, 60) for reader, rest in zip(streams, ended, strict=True) if not rest]

    assert 0 < len(late) < FOR_EACH
    assert all(rest.endswith(LAST_CHUNK) for rest in [*filter(None, ended), *late])


async def test_requests_that_come_meanwhile_are_answered_by_others_or_later_but_never_lost(tmp_path):
    async with one_stuck(tmp_path, stream_texts("Once")) as (_, url, pids, _), contextlib.AsyncExitStack() as stack:
        readers = []
        for _ in range(2 * STREAMS):
            reader, writer = await stack.enter_async_context(raw_connection(url))
            writer.write(post_request(url, chat_body()))
            readers.append(reader)
        found = await asyncio.gather(*(read_one(reader, 5) for reader in readers))
        os.kill(pids[0], signal.SIGCONT)
        late = [await read_one(reader, 60) for reader, reply in zip(readers, found, strict=True) if not reply]

    assert 0 < len(late) < 2 * STREAMS
    assert all(reply.endswith(LAST_CHUNK) for reply in [*filter(None, found), *late])


@pytest.mark.parametrize(("number", "signals"), [(signal.SIGTERM, 1), (signal.SIGTERM, 2), (signal.SIGINT, 1)])
async def test_the_program_ends_although_a_worker_is_stuck(tmp_path, number, signals):
    """After the time to drain, and ten seconds after the second signal whatever that time is."""
    play = stream_then(ROLE, text_chunk("Once"), then=hang)
    drain = "1" if signals == 1 else "600"
    async with one_stuck(tmp_path, play, "--drain-timeout", drain) as (process, url, pids, _):
        for _ in range(signals):
            process.send_signal(number)
            await asyncio.sleep(0.3)
        await refused(url)
        code = await asyncio.wait_for(process.wait(), 60)
        left = [pid for pid in pids if exists(pid)]

    assert 0 == code
    assert [] == left


async def test_a_killed_supervisor_leaves_no_worker_but_the_stuck_one_which_ends_when_it_goes_on(tmp_path):
    async with one_stuck(tmp_path, stream_texts("Once")) as (process, _, pids, _):
        process.kill()
        await until(lambda: not any(exists(pid) for pid in pids[1:]))
        os.kill(pids[0], signal.SIGCONT)
        await until(lambda: not exists(pids[0]))


async def test_new_settings_reach_the_others_at_once_and_the_stuck_one_when_it_goes_on(tmp_path):
    file = tmp_path / "fcshim.toml"
    file.write_text("max_tools = 1\n", "utf-8")
    async with one_stuck(tmp_path, stream_texts("Once"), "--config", str(file)) as (process, _, pids, _):
        file.write_text("max_tools = 2\n", "utf-8")
        process.send_signal(signal.SIGHUP)
        await until(lambda: log_of(process).count("the settings were loaded again") == COUNT - 1)
        os.kill(pids[0], signal.SIGCONT)
        await until(lambda: log_of(process).count("the settings were loaded again") == COUNT)


async def test_a_stuck_worker_that_is_killed_is_replaced_and_what_waited_for_it_is_served(tmp_path):
    async with (
        one_stuck(tmp_path, stream_texts("Once")) as (process, url, pids, _),
        contextlib.AsyncExitStack() as stack,
    ):
        readers = []
        for _ in range(2 * STREAMS):
            reader, writer = await stack.enter_async_context(raw_connection(url))
            writer.write(post_request(url, chat_body()))
            readers.append(reader)
        os.kill(pids[0], signal.SIGKILL)
        replies = [await read_one(reader, 60) for reader in readers]
        await until(lambda: len({*children(process.pid)} - {*pids}) == 1)

    assert all(reply.endswith(LAST_CHUNK) for reply in replies)


async def test_a_worker_that_sticks_while_it_drains_is_replaced_and_killed(tmp_path):
    play = stream_then(ROLE, text_chunk("Once"), then=hang)
    async with (
        raw_upstream(play, lists_models=False) as upstream,
        serving(tmp_path, upstream.url, "--drain-timeout", "1") as (process, url, pids),
        contextlib.AsyncExitStack() as stack,
    ):
        await open_streams(stack, url)
        os.kill(pids[0], signal.SIGTERM)
        await until(lambda: len({*children(process.pid)} - {*pids}) == 1)
        await stick(pids[0])
        await until(lambda: pids[0] not in children(process.pid))

        assert pids[1:] == [pid for pid in pids if pid in children(process.pid)]


async def test_figures_are_answered_by_the_others(tmp_path):
    async with one_stuck(tmp_path, stream_texts("Once"), "--metrics") as (_, url, _, _):
        found = {}
        while not found:  # the stuck worker gets some of the questions
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(2):
                    found = (await figures(url))[1]

    assert 0 < sum(value for key, value in found.items() if key[0] == "fcshim_requests_total") <= FOR_EACH


async def test_what_is_stored_is_known_to_the_others(tmp_path):
    async with one_stuck(tmp_path, stream_texts("Once"), "--store", f"sqlite:{tmp_path / 'store.db'}") as (
        _,
        url,
        _,
        _,
    ):
        statuses = []
        while len(statuses) < COUNT:  # the stuck worker gets some of the requests
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(2):
                    first = await respond(url, None)
                    statuses.append((await respond(url, first.json()["id"])).status_code)

    assert [200] * COUNT == statuses


async def test_a_stuck_worker_is_killed_and_replaced_but_not_one_whose_supervisor_was_stopped_too(
    tmp_path, monkeypatch
):
    """With a limit of three checks, in place of sixty."""
    program = "from fcshim.cli import main; from fcshim.server import workers; workers._STUCK_POLLS = 3; exit(main())"
    monkeypatch.setattr("tests.server.test_workers.PROGRAM", ("-c", program))
    async with (
        raw_upstream(stream_texts("Once"), lists_models=False) as upstream,
        serving(tmp_path, upstream.url) as (process, url, pids),
    ):
        for pid in (process.pid, *pids):
            await stick(pid)
        await asyncio.sleep(5)
        for pid in (*pids, process.pid):
            os.kill(pid, signal.SIGCONT)
        await asyncio.sleep(2)
        unharmed = children(process.pid)
        await stick(pids[0])
        await until(lambda: len({*children(process.pid)} - {*pids}) == 1 and listens(children(process.pid)))
        async with http_client(url) as client:
            statuses = {(await client.get("/health")).status_code for _ in range(STREAMS)}
        log = log_of(process)

    assert pids == unharmed
    assert {200} == statuses
    assert "worker 0 has not gone on for 3 s and is ended" in log
    assert 1 == log.count("has ended (signal 9)")
