"""`fcshim serve --workers N` as processes: what is shared, what a crash costs, and what signals do."""

import asyncio
import contextlib
import os
import re
import signal
import socket
import sys
from pathlib import Path

import httpx
import msgspec
import pytest

from fcshim.config import Config, UpstreamConfig
from fcshim.errors import ConfigError
from fcshim.server import workers
from fcshim.server.run import listen
from fcshim.server.workers import Supervisor, check_workers, listen_for_workers, share_of_worker
from tests.cli.command import fcshim
from tests.engine.process import free_port
from tests.scripted import ROLE, text_chunk
from tests.server.proxy import CALL, CHAT, chat_body, http_client, post_request, raw_connection
from tests.server.raw_upstream import LAST_CHUNK, hang, paused_stream, raw_upstream, stream_texts, stream_then
from tests.server.test_metrics import figures
from tests.server.test_run import refused

PROGRAM = ("-m", "fcshim")
COUNT = 3
STREAMS = 12
"""The kernel spreads connections by a hash: that all go to one of three workers has a chance of 1 in 177,147."""
FOR_EACH = 36
"""So many that each worker has one: that a certain one has none of twelve has a chance of 1 in 130, and here of 1 in 2
million."""


def children(pid):
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text("utf-8").split()]


def log_of(process):
    return process.log.read_text("utf-8")


async def until(condition):
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110 - another process
            await asyncio.sleep(0.02)


async def status_of(url, path="/health", **headers):
    """Ask on a connection of its own."""
    async with http_client(url, headers=headers) as client:
        with contextlib.suppress(httpx.TransportError):
            return (await client.get(path)).status_code
    return 0


@contextlib.asynccontextmanager
async def serving(folder, upstream, *options, count=COUNT):
    """Run the command with workers; yield its process, its URL, and the ids of the workers."""
    url = f"http://127.0.0.1:{(port := free_port())}"
    log = folder / "log"
    command = [*PROGRAM, "serve", "--upstream", upstream, "--port", str(port), "--workers", str(count), *options]
    with log.open("wb") as output:
        process = await asyncio.create_subprocess_exec(
            sys.executable, *command, stderr=output, stdin=asyncio.subprocess.DEVNULL, start_new_session=True
        )
    process.log = log
    try:
        await until(lambda: len(children(process.pid)) == count and listens(children(process.pid)))
        async with asyncio.timeout(300):
            yield process, url, children(process.pid)
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


def listens(pids):
    """Return whether each process has installed its handlers: SIGHUP and SIGTERM are no longer blocked."""
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # one has just ended
        masks = [re.search(r"SigBlk:\s*(\w+)", Path(f"/proc/{pid}/status").read_text("utf-8"))[1] for pid in pids]
        return not any(int(mask, 16) & 1 << signal.SIGTERM - 1 for mask in masks)
    return False


async def open_streams(stack, url, count=STREAMS):
    streams = []
    for _ in range(count):
        reader, writer = await stack.enter_async_context(raw_connection(url))
        writer.write(post_request(url, chat_body()))
        await reader.readuntil(b'"Once"')
        streams.append(reader)
    return streams


def requests(found):
    return sum(value for key, value in found.items() if key[0] == "fcshim_requests_total")


async def counted(url, count):
    """Wait until so many requests have ended: a client has its reply before that."""
    async with asyncio.timeout(60):
        while requests((await figures(url))[1]) != count:  # noqa: ASYNC110 - another process
            await asyncio.sleep(0.02)


async def test_figures_are_those_of_all_workers_and_stay_when_one_crashes(tmp_path):
    go_on = asyncio.Event()
    plays = [stream_texts(CALL)] * STREAMS + [paused_stream(go_on)] * FOR_EACH + [stream_texts(CALL)] * STREAMS
    async with (
        raw_upstream(*plays, lists_models=False) as upstream,
        serving(tmp_path, upstream.url, "--metrics", "--log-level", "error") as (process, url, pids),
        contextlib.AsyncExitStack() as stack,
    ):
        for _ in range(STREAMS):
            async with http_client(url) as client:
                assert 200 == (await client.post(CHAT, json=chat_body())).status_code
        await counted(url, STREAMS)
        seen = [(await figures(url))[1] for _ in range(STREAMS)]
        await open_streams(stack, url, FOR_EACH)
        live = (await figures(url))[1]
        os.kill(pids[0], signal.SIGKILL)
        await until(lambda: len({*children(process.pid)} - {*pids}) == 1 and listens(children(process.pid)))
        fewer = (await figures(url))[1]
        for _ in range(STREAMS):
            async with http_client(url) as client:
                await client.post(CHAT, json=chat_body())
        await counted(url, 2 * STREAMS)
        go_on.set()

    assert [STREAMS] * STREAMS == [requests(found) for found in seen]
    assert {STREAMS} == {found["fcshim_calls_total", "function_call", "clean"] for found in seen}
    running, left = (
        sum(value for key, value in found.items() if key[0] == "fcshim_live_requests") for found in (live, fewer)
    )
    assert FOR_EACH == running
    assert 0 <= left < running
    assert STREAMS == requests(fewer)


async def test_a_crashed_worker_is_replaced_and_costs_only_its_own_streams(tmp_path):
    go_on = asyncio.Event()
    async with (
        raw_upstream(paused_stream(go_on), lists_models=False) as upstream,
        serving(tmp_path, upstream.url) as (process, url, pids),
        contextlib.AsyncExitStack() as stack,
    ):
        streams = await open_streams(stack, url)
        os.kill(pids[1], signal.SIGKILL)
        answers = [await status_of(url) for _ in range(STREAMS)]
        await until(lambda: {*children(process.pid)} - {*pids})
        go_on.set()
        ended = [await reader.read() for reader in streams]
        log = log_of(process)

    assert 0 not in answers
    assert 0 < sum(rest.endswith(LAST_CHUNK) for rest in ended)
    assert "worker 1 has ended (signal 9); another one takes its place in 1 s" in log
    assert 1 == log.count("serving http://")
    assert 1 == log.count("to point a client here")


async def test_workers_keep_no_descriptors_of_each_other(tmp_path):
    """Of each earlier worker, only the library's one is left."""
    async with (
        raw_upstream(stream_texts("ok"), lists_models=False) as upstream,
        serving(tmp_path, upstream.url) as (_, _, pids),
    ):

        def more_than_first():
            counts = [len(os.listdir(f"/proc/{pid}/fd")) for pid in sorted(pids)]  # noqa: PTH208 - as short
            return counts[-1] - counts[0]

        await until(lambda: more_than_first() < COUNT)  # some still serve what the start asked for


async def test_a_worker_that_drains_is_replaced_at_once_and_its_streams_and_figures_stay(tmp_path):
    go_on = asyncio.Event()
    async with (
        raw_upstream(paused_stream(go_on), lists_models=False) as upstream,
        serving(tmp_path, upstream.url, "--metrics") as (process, url, pids),
        contextlib.AsyncExitStack() as stack,
    ):
        streams = await open_streams(stack, url)
        for pid in pids:
            os.kill(pid, signal.SIGTERM)
        streams += await open_replacement_streams(stack, process, url, pids)
        alive = {*pids} & {*children(process.pid)}
        go_on.set()
        ended = [await reader.read() for reader in streams]
        await until(lambda: not {*pids} & {*children(process.pid)})
        await counted(url, 2 * STREAMS)

    assert {*pids} == alive
    assert all(rest.endswith(LAST_CHUNK) and b"[DONE]" in rest for rest in ended)


async def open_replacement_streams(stack, process, url, pids):
    """Open streams that the replacements of these workers accept."""
    await until(lambda: len({*children(process.pid)} - {*pids}) == COUNT)
    return await open_streams(stack, url)


@pytest.mark.parametrize("signals", [1, 2])
async def test_a_worker_that_drains_already_ends_its_streams_only_at_the_second_signal_to_the_program(
    tmp_path, signals
):
    go_on = asyncio.Event()
    async with (
        raw_upstream(paused_stream(go_on), lists_models=False) as upstream,
        serving(tmp_path, upstream.url, "--drain-timeout", "600") as (process, url, pids),
        contextlib.AsyncExitStack() as stack,
    ):
        streams = await open_streams(stack, url)
        for pid in pids:
            os.kill(pid, signal.SIGTERM)
        streams += await open_replacement_streams(stack, process, url, pids)
        for _ in range(signals):
            process.send_signal(signal.SIGTERM)
            await refused(url)
        if signals == 1:
            go_on.set()
        ended = [await asyncio.wait_for(reader.read(), 60) for reader in streams]
        code = await asyncio.wait_for(process.wait(), 60)

    expected, other = (b"[DONE]", b"shutting down") if signals == 1 else (b"the proxy is shutting down", b"[DONE]")
    assert all(expected in rest and other not in rest for rest in ended)
    assert 0 == code


async def test_a_worker_that_gets_sigterm_while_it_starts_is_replaced_too(tmp_path):
    async with (
        raw_upstream(stream_texts("ok"), lists_models=False) as upstream,
        serving(tmp_path, upstream.url) as (process, url, pids),
    ):
        seen = [*pids]
        for _ in range(4):
            os.kill(seen[-1], signal.SIGTERM)  # the last one may not have its handlers yet: signals wait for them
            await until(lambda old=frozenset(seen): {*children(process.pid)} - old)
            seen += {*children(process.pid)} - {*seen}
        await until(lambda: len(children(process.pid)) == COUNT and listens(children(process.pid)))
        answers = [await status_of(url) for _ in range(STREAMS)]
        log = log_of(process)

    assert [200] * STREAMS == answers
    assert 4 == log.count("ends when its requests have ended; another one takes its place")
    assert "has ended" not in log


@pytest.mark.parametrize(("number", "to_all"), [(signal.SIGTERM, False), (signal.SIGTERM, True), (signal.SIGINT, True)])
async def test_one_signal_lets_the_streams_of_every_worker_finish(tmp_path, number, to_all):
    """A terminal and some service managers send it to all processes, so that workers get SIGTERM twice."""
    go_on = asyncio.Event()
    async with (
        raw_upstream(paused_stream(go_on), lists_models=False) as upstream,
        serving(tmp_path, upstream.url) as (process, url, _),
        contextlib.AsyncExitStack() as stack,
    ):
        streams = await open_streams(stack, url)
        if to_all:
            os.killpg(process.pid, number)
        else:
            process.send_signal(number)
        await refused(url)
        alive = children(process.pid)
        go_on.set()
        ended = [await reader.read() for reader in streams]
        code = await asyncio.wait_for(process.wait(), 60)

    assert alive
    assert all(rest.endswith(LAST_CHUNK) and b"[DONE]" in rest for rest in ended)
    assert 0 == code


async def test_a_second_signal_ends_the_streams(tmp_path):
    play = stream_then(ROLE, text_chunk("Once"), then=hang)
    async with (
        raw_upstream(play, lists_models=False) as upstream,
        serving(tmp_path, upstream.url, "--drain-timeout", "600") as (process, url, _),
        contextlib.AsyncExitStack() as stack,
    ):
        streams = await open_streams(stack, url)
        process.send_signal(signal.SIGTERM)
        await refused(url)
        process.send_signal(signal.SIGTERM)
        ended = [await asyncio.wait_for(reader.read(), 60) for reader in streams]
        code = await asyncio.wait_for(process.wait(), 60)

    assert all(b"the proxy is shutting down" in rest and b"[DONE]" not in rest for rest in ended)
    assert 0 == code


async def test_workers_end_with_a_supervisor_that_is_killed(tmp_path):
    async with (
        raw_upstream(stream_texts("ok"), lists_models=False) as upstream,
        serving(tmp_path, upstream.url) as (process, url, pids),
    ):
        process.kill()
        await refused(url)
        await until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids))


@pytest.mark.parametrize("watch", [True, False])
async def test_new_settings_reach_every_worker_and_later_ones_and_wrong_ones_none(tmp_path, watch):
    file = tmp_path / "fcshim.toml"
    options = ("--config", str(file), *(["--watch"] if watch else []))

    async def write(text):
        file.write_text(text, "utf-8")
        if not watch:
            process.send_signal(signal.SIGHUP)

    async def answers():
        return {await status_of(url, "/v1/models", authorization="Bearer second") for _ in range(STREAMS)}

    file.write_text('api_keys = ["first"]\n', "utf-8")
    async with (
        raw_upstream(stream_texts("ok"), lists_models=False) as upstream,
        serving(tmp_path, upstream.url, *options) as (process, url, pids),
    ):
        assert {401} == await answers()
        await write('api_keys = ["first", "second"]\n')
        await until(lambda: log_of(process).count("the settings were loaded again") == COUNT)
        after = await answers()
        await write('api_keys = "wrong\n')
        await until(lambda: "the settings stay as they are" in log_of(process))
        os.kill(pids[0], signal.SIGKILL)
        await until(lambda: len({*children(process.pid)} - {*pids}) == 1 and listens(children(process.pid)))
        last = await answers()
        log = log_of(process)

    assert 401 not in after
    assert 401 not in last
    assert 1 == log.count("the settings stay as they are")


async def test_each_worker_records_into_a_folder_of_its_own(tmp_path):
    async with (
        raw_upstream(stream_texts(CALL), lists_models=False) as upstream,
        serving(tmp_path, upstream.url, "--record", str(tmp_path / "records"), "--record-bytes", "999999") as (
            process,
            url,
            _,
        ),
    ):
        for _ in range(STREAMS):
            async with http_client(url) as client:
                await client.post(CHAT, json=chat_body())
        process.send_signal(signal.SIGTERM)
        await asyncio.wait_for(process.wait(), 60)
    records = list((tmp_path / "records").glob("worker-*/*.jsonl"))

    assert STREAMS == len(records)
    assert 1 < len({file.parent for file in records}) <= COUNT


async def test_a_shared_store_serves_follow_ups_at_every_worker_and_without_one_the_log_warns(tmp_path):
    """The workers make the file all at once."""
    warning = "each worker remembers replies and turns for itself"
    outcomes = {}
    for store in (f"sqlite:{tmp_path / 'store.db'}", "memory"):
        async with (
            raw_upstream(stream_texts("ok"), lists_models=False) as upstream,
            serving(tmp_path, upstream.url, "--store", store) as (process, url, _),
        ):
            first = await respond(url, None)
            statuses = {(await respond(url, first.json()["id"])).status_code for _ in range(STREAMS)}
            outcomes[store.partition(":")[0]] = statuses, warning in log_of(process)

    assert ({200}, False) == outcomes["sqlite"]
    assert ({200, 400}, True) == outcomes["memory"]


async def respond(url, previous):
    async with http_client(url) as client:
        body = {"model": "m", "input": "Hi", **({"previous_response_id": previous} if previous else {})}
        return await client.post("/v1/responses", json=body)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--store", "sqlite:/nowhere/store.db"), "/nowhere"),
        (("--inspect",), "inspect shows the requests of one process: expected workers = 1 beside it, got 2"),
        (("--workers", "0"), "--workers: expected a whole number from 1 up to 64, got '0'"),
        (("--mcp", "missing.json"), "missing.json"),
    ],
)
def test_settings_with_which_no_worker_can_serve_end_the_program_in_one_line(options, message):
    given = ("--workers", "2", "--port", str(free_port()), "--upstream", "http://127.0.0.1:9", *options)
    outcome = fcshim("serve", *given)

    assert 2 == outcome.code
    assert message in outcome.err
    assert 1 == outcome.err.count("\n")


def test_two_programs_cannot_share_a_port():
    listeners = listen_for_workers(Config(port=0, workers=2), listen)
    try:
        port = listeners[0].getsockname()[1]
        assert [port, port] == [listener.getsockname()[1] for listener in listeners]
        for count in (1, 2):
            with pytest.raises(ConfigError, match="Address already in use"):
                listen_for_workers(Config(port=port, workers=count), listen)
    finally:
        for listener in listeners:
            listener.close()


def test_what_is_limited_for_all_is_divided_among_the_workers():
    sections = {"a": UpstreamConfig(url="http://a", max_concurrent=7), "b": UpstreamConfig(url="http://b")}
    config = Config(workers=3, upstreams=sections, record="r", record_bytes=100)
    shares = [share_of_worker(config, index) for index in range(3)]

    assert [3, 2, 2] == [share.upstreams["a"].max_concurrent for share in shares]
    assert [0, 0, 0] == [share.upstreams["b"].max_concurrent for share in shares]
    assert 100 == sum(share.record_bytes for share in shares)
    assert ["r/worker-0", "r/worker-1", "r/worker-2"] == [share.record for share in shares]
    with pytest.raises(ConfigError, match=r"\[upstreams\.a\]: max_concurrent: expected at least one for each"):
        check_workers(msgspec.structs.replace(config, workers=8))


def test_a_worker_that_ends_at_once_again_and_again_is_started_ever_more_rarely(monkeypatch):
    now = 100.0
    monkeypatch.setattr(workers.time, "monotonic", lambda: now)
    with socket.socket() as listener:
        supervisor = Supervisor(Config(workers=1), [listener], lambda *_: None)
        (slot,) = supervisor._slots
        pauses = []
        for lived in (60, 1, 1, 1, 1, 1, 60, 1):
            supervisor._schedule(slot, now - lived)
            pauses.append(slot.start_at - now)
        supervisor._close()

    assert [0, 1, 2, 4, 8, 8, 0, 1] == pauses
