"""`python -m fcshim serve` as a process: what signals do to running streams."""

import asyncio
import contextlib
import os
import signal
import socket
import sys

import httpx
import pytest
import uvloop

from fcshim.config import Config
from fcshim.errors import ConfigError
from fcshim.server import create_app_from_env
from fcshim.server.app import create_app
from fcshim.server.run import ProxyServer, listen, listen_for_inspector
from fcshim.server.workers import WorkerState
from tests.engine.process import free_port
from tests.mcp.server_programs import eventually
from tests.scripted import ROLE, end_chunks, text_chunk
from tests.server.proxy import CALL, CHAT, QuickServer, chat_body, http_client, post_request, raw_connection
from tests.server.raw_upstream import LAST_CHUNK, SSE_HEAD, hang, raw_upstream, stream_texts, stream_then

QUIET = ("--log-level", "error")
"""Then the proxy sends nothing of its own to the upstream when it starts."""


async def answers(url):
    async with http_client(url) as client:
        with contextlib.suppress(httpx.TransportError):
            return (await client.get("/health")).status_code == 200
    return False


@contextlib.asynccontextmanager
async def serving(upstream, *options):
    """Run the command in front of `upstream`; yield its process and its URL."""
    url = f"http://127.0.0.1:{(port := free_port())}"
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "fcshim", "serve", "--upstream", upstream, "--port", str(port), *QUIET, *options),
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(60):
            while not await answers(url):  # noqa: ASYNC110 - another process
                await asyncio.sleep(0.05)
            yield process, url
    finally:
        if process.returncode is None:
            process.kill()
        # Read the rest, so that the pipe is closed with the process.
        await process.communicate()


@pytest.mark.parametrize("tools", [True, False], ids=["shim", "relay"])
async def test_sigterm_lets_a_running_stream_finish_and_refuses_new_requests(tools):
    go_on = asyncio.Event()

    async def patient(peer):
        await peer.send(SSE_HEAD)
        await peer.chunk(ROLE, text_chunk("Once"))
        await go_on.wait()
        await peer.chunk(text_chunk(" upon"), end_chunks())
        await peer.send(LAST_CHUNK)

    async with raw_upstream(patient, lists_models=False) as upstream, serving(upstream.url) as (process, url):
        async with raw_connection(url) as (reader, writer):
            writer.write(post_request(url, chat_body(tools=tools)))
            begin = await reader.readuntil(b'"Once"')
            process.send_signal(signal.SIGTERM)
            await refused(url)
            go_on.set()
            rest = await reader.read()
        code = await asyncio.wait_for(process.wait(), 60)

    assert b" 200 " in begin
    assert b" upon" in rest
    assert b"data: [DONE]\n\n" in rest
    assert rest.endswith(LAST_CHUNK)
    assert 0 == code
    assert 1 == len(upstream.requests)


@pytest.mark.security
async def test_the_inspector_has_a_port_of_its_own_also_after_a_reload(tmp_path):
    port, file = free_port(), tmp_path / "fcshim.toml"
    file.write_text("max_retries = 1\n")

    async def statuses():
        async with http_client(url) as client, http_client(f"http://127.0.0.1:{port}") as inspector:
            return [
                (await each.get(path)).status_code for each in (client, inspector) for path in ("/fcshim/", "/ready")
            ]

    options = ("--inspect", "--inspect-port", str(port), "--config", str(file), "--watch", "--log-level", "info")
    async with (
        raw_upstream(stream_texts("ok"), lists_models=False) as upstream,
        serving(upstream.url, *options) as (process, url),
    ):
        before = await statuses()
        file.write_text("max_retries = 0\n")
        while b"loaded again" not in (line := await process.stderr.readline()):
            assert b"only a restart" not in line
        after = await statuses()

    assert [404, 200, 200, 404] == before == after


def test_the_error_names_the_option_of_the_port_that_is_taken():
    with listen(Config(port=0)) as taken:
        config = Config(inspect=True, inspect_port=taken.getsockname()[1])
        with pytest.raises(ConfigError, match="choose another with --inspect-port"), listen_for_inspector(config):
            pass


async def refused(url):
    """Wait until the address refuses connections, which takes a moment after a signal."""
    async with asyncio.timeout(60):
        with contextlib.suppress(ConnectionError):
            while True:
                async with raw_connection(url) as (_, writer):
                    writer.write(b"")
                await asyncio.sleep(0.01)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_second_signal_ends_the_streams_without_a_clean_end(number):
    async with (
        raw_upstream(stream_then(ROLE, text_chunk("Once"), then=hang), lists_models=False) as upstream,
        serving(upstream.url, "--drain-timeout", "600") as (process, url),
    ):
        async with raw_connection(url) as (reader, writer):
            writer.write(post_request(url, chat_body()))
            await reader.readuntil(b'"Once"')
            process.send_signal(number)
            await refused(url)

            assert process.returncode is None
            process.send_signal(number)
            rest = await asyncio.wait_for(reader.read(), 60)
        code = await asyncio.wait_for(process.wait(), 60)
        await asyncio.wait_for(upstream.client_left.wait(), 60)

    assert b"the proxy is shutting down" in rest
    assert b"[DONE]" not in rest
    assert 0 == code


async def test_after_the_drain_timeout_a_silent_relayed_stream_is_cut():
    async with (
        raw_upstream(stream_then(ROLE, text_chunk("Once"), then=hang), lists_models=False) as upstream,
        serving(upstream.url, "--drain-timeout", "0.3") as (process, url),
        raw_connection(url) as (reader, writer),
    ):
        writer.write(post_request(url, chat_body(tools=False)))
        await reader.readuntil(b'"Once"')
        process.send_signal(signal.SIGTERM)
        rest = await asyncio.wait_for(reader.read(), 60)
        code = await asyncio.wait_for(process.wait(), 60)

    assert b"[DONE]" not in rest
    assert not rest.endswith(LAST_CHUNK)
    assert 0 == code


async def test_a_reply_that_is_not_streamed_gets_503_on_shutdown():
    async with (
        raw_upstream(stream_then(ROLE, text_chunk("Once"), then=hang), lists_models=False) as upstream,
        serving(upstream.url, "--drain-timeout", "0.3") as (process, url),
        http_client(url) as client,
    ):
        answer = asyncio.create_task(client.post(CHAT, json=chat_body(stream=False)))
        await upstream.request_received.wait()
        process.send_signal(signal.SIGTERM)
        response = await answer
        await asyncio.wait_for(process.wait(), 60)

    assert (503, "unavailable") == (response.status_code, response.json()["error"]["type"])


@contextlib.asynccontextmanager
async def in_uvicorn(host="127.0.0.1", **settings):
    """Run the application in uvicorn's own command; yield its URL and process."""
    port = free_port()
    command = ("-m", "uvicorn", "--factory", "fcshim.server:create_app_from_env", "--host", host, "--port", str(port))
    environment = {name: value for name, value in os.environ.items() if not name.startswith("FCSHIM_")}
    process = await asyncio.create_subprocess_exec(
        sys.executable, *command, env={**environment, **settings}, stderr=asyncio.subprocess.PIPE
    )
    try:
        async with asyncio.timeout(60):
            while not await answers(f"http://127.0.0.1:{port}"):  # noqa: ASYNC110 - another process
                await asyncio.sleep(0.05)
            yield f"http://127.0.0.1:{port}", process
    finally:
        if process.returncode is None:
            process.terminate()
        await process.communicate()


async def test_another_asgi_server_gets_its_settings_from_the_file_and_the_environment(tmp_path):
    file = tmp_path / "fcshim.toml"
    async with raw_upstream(stream_texts(CALL), lists_models=False) as upstream:
        file.write_text(f'upstream = "{upstream.url}"\napi_keys = ["from the file"]\n', "utf-8")
        async with (
            in_uvicorn(FCSHIM_CONFIG=str(file), FCSHIM_API_KEYS="k") as (url, _),
            http_client(url, headers={"authorization": "Bearer k"}) as client,
        ):
            response = await client.post(CHAT, json=chat_body(stream=False))

    assert "tool_calls" == response.json()["choices"][0]["finish_reason"]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, "expected FCSHIM_UPSTREAM, or FCSHIM_CONFIG"),
        ({"FCSHIM_UPSTREAM": "http://127.0.0.1:9", "FCSHIM_HOST": "0.0.0.0"}, "can be reached from outside"),
        ({"FCSHIM_UPSTREAM": "http://127.0.0.1:9", "FCSHIM_WORKERS": "2"}, "workers belong to fcshim serve"),
    ],
)
def test_settings_that_another_asgi_server_cannot_serve_are_refused(monkeypatch, settings, message):
    for name in {*os.environ, *settings}:
        if name.startswith("FCSHIM_"):
            monkeypatch.delenv(name, raising=False)
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ConfigError, match=message):
        create_app_from_env()


@pytest.mark.security
@pytest.mark.parametrize(
    ("server", "status"),
    [
        (("127.0.0.1", 80), 404),
        (("::1", 80), 404),
        (("192.0.2.2", 80), 403),
        (("0.0.0.0", 80), 403),
        (None, 403),
        (("/run/fcshim.socket", None), 403),
    ],
)
async def test_a_server_that_others_can_reach_is_refused_where_the_settings_say_loopback(server, status):
    sent = []

    async def send(message):
        sent.append(message)

    async def receive():
        return {"type": "http.request", "body": b"", "more_body": False}

    app = create_app(Config(upstream="http://127.0.0.1:9"))
    scope = {"type": "http", "method": "GET", "path": "/nothing", "headers": [(b"host", b"localhost")]}
    for path, expected in (("/nothing", status), ("/health", 200)):
        sent.clear()
        await app({**scope, "path": path, "server": server}, receive, send)

        assert expected == sent[0]["status"]
    await app.aclose()


def test_a_used_port_is_a_config_error():
    message = r"cannot listen on 127\.0\.0\.1 port \d+: Address already in use; .*: choose another with --port$"
    with listen(Config(port=0)) as taken, pytest.raises(ConfigError, match=message):
        listen(Config(port=taken.getsockname()[1]))


def test_replies_are_not_delayed_by_nagles_algorithm():
    with (
        listen(Config(port=0)) as listener,
        socket.create_connection(listener.getsockname()),
        listener.accept()[0] as sock,
    ):
        assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


async def test_a_worker_that_gets_a_signal_before_it_serves_reports_it_and_ends():
    config = Config(upstream="http://127.0.0.1:9", port=0)
    reports = []
    server = ProxyServer(config, create_app(config), report=reports.append)
    server.drain()
    server.drain()
    with listen(config) as listener:
        await asyncio.wait_for(server.serve(sockets=[listener]), 20)

    assert [WorkerState.DRAINING, WorkerState.READY] == reports


async def test_a_connection_that_was_accepted_just_before_a_signal_still_gets_its_reply():
    config = Config(upstream="http://127.0.0.1:9", port=0)
    server = QuickServer(config)
    with listen(config) as listener:
        task = asyncio.create_task(server.serve(sockets=[listener]))
        await server.ready.wait()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        async with raw_connection(url) as (reader, writer):
            while not server.server_state.connections:  # noqa: ASYNC110 - uvicorn has no event for it
                await asyncio.sleep(0)
            server.drain()
            server.exit_requested.set()
            for _ in range(10):
                await asyncio.sleep(0)  # the shutdown has begun
            writer.write(f"GET /health HTTP/1.1\r\nHost: {url[7:]}\r\n\r\n".encode())
            reply = await reader.read()
        await task

    assert reply.startswith(b"HTTP/1.1 200 ")
    assert reply.endswith(b'{"status":"ok"}')


@pytest.mark.parametrize("loop_factory", [uvloop.new_event_loop, asyncio.new_event_loop])
def test_connections_that_wait_to_be_accepted_at_a_signal_get_their_replies(loop_factory):
    """A busy process accepts them too late; a listener that is closed resets them, and the requests are lost."""

    async def replies():
        config = Config(upstream="http://127.0.0.1:9", port=0)
        server = QuickServer(config)
        with listen(config) as listener, contextlib.ExitStack() as stack:
            task = asyncio.create_task(server.serve(sockets=[listener]))
            await server.ready.wait()
            address = listener.getsockname()
            # Without a turn of the event loop between them and the signal.
            waiting = [stack.enter_context(socket.create_connection(address)) for _ in range(5)]
            for each in waiting:
                each.sendall(b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            server.drain()
            server.exit_requested.set()
            with pytest.raises(ConnectionRefusedError):
                stack.enter_context(socket.create_connection(address))
            await task
            return [each.recv(65536) for each in waiting]

    with asyncio.Runner(loop_factory=loop_factory) as runner:
        received = runner.run(replies())

    assert [b"HTTP/1.1 200 "] * 5 == [reply[:13] for reply in received]


@contextlib.asynccontextmanager
async def idle_connection():
    """Yield a server, a connection to it that has had one reply, and a request."""
    server = QuickServer(Config(upstream="http://127.0.0.1:9", port=0))
    with listen(Config(port=0)) as listener:
        task = asyncio.create_task(server.serve(sockets=[listener]))
        await server.ready.wait()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        request = f"GET /health HTTP/1.1\r\nHost: {url[7:]}\r\n\r\n".encode()
        async with raw_connection(url) as (reader, writer):
            writer.write(request)
            await reader.readuntil(b"}")
            (connection,) = server.server_state.connections
            await eventually(lambda: connection.cycle.response_complete)
            yield server, reader, writer, request
        server.drain()
        server.exit_requested.set()
        await task


async def test_a_request_that_has_arrived_on_an_idle_connection_at_a_signal_gets_its_reply():
    async with idle_connection() as (server, reader, writer, request):
        server.exit_requested.set()
        server.drain()
        writer.write(request)  # the system has it before the event loop goes on
        reply = await reader.read()

    assert reply.startswith(b"HTTP/1.1 200 ")
    assert reply.endswith(b'{"status":"ok"}')


async def test_a_request_that_has_arrived_when_its_idle_connection_expires_gets_its_reply():
    """uvloop runs the timer first, if a busy machine has held the process up."""
    async with idle_connection() as (server, reader, writer, request):
        (connection,) = server.server_state.connections
        connection.timeout_keep_alive_handler()
        writer.write(request)
        reply = await reader.readuntil(b"}")

    assert reply.startswith(b"HTTP/1.1 200 ")


async def test_an_idle_connection_expires():
    async with idle_connection() as (server, reader, _, _):
        (connection,) = server.server_state.connections
        connection.timeout_keep_alive_handler()
        rest = await reader.read()

    assert b"" == rest
