"""The endpoint over real sockets: one kind of error, connections closed when left, reused when read."""

import asyncio
import contextlib
import socket
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from fcshim.codecs.base import FollowUp, UpstreamRequest
from fcshim.config import Secret
from fcshim.errors import UpstreamError
from fcshim.upstream import Timeouts, Upstream, api_url
from fcshim.upstream.endpoint import _parsed_url
from tests.mcp.server_programs import eventually
from tests.scripted import ROLE, end_chunks, text_chunk
from tests.server.raw_upstream import (
    SSE_HEAD,
    fixed_reply,
    hang,
    http_chunk,
    paused_stream,
    raw_reply,
    raw_upstream,
    reset,
    stream_texts,
    stream_then,
)

ASKED = UpstreamRequest("/chat/completions", b"{}")


async def read(upstream, path="/models"):
    async with upstream.send("GET", path) as reply:
        return b"".join([data async for data in reply])


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("http://h:1", "http://h:1/v1"),
        ("http://h:1/", "http://h:1/v1"),
        ("http://h:1/v1", "http://h:1/v1"),
        ("http://h:1/v1/", "http://h:1/v1"),
        ("http://h/api/paas/v4", "http://h/api/paas/v4"),
        ("http://h/v1beta/openai", "http://h/v1beta/openai"),
        ("http://h/proxy", "http://h/proxy/v1"),
        ("http://v1.example", "http://v1.example/v1"),
        ("http://v1", "http://v1/v1"),
    ],
)
def test_the_version_is_added_unless_the_url_names_one(given, expected):
    assert expected == api_url(given)


async def test_a_codecs_request_is_sent_with_its_headers_and_the_key():
    async with (
        raw_upstream(stream_texts("ok")) as server,
        Upstream(server.url, key=Secret("key")) as upstream,
        upstream.send_request(ASKED, headers=[(b"x-trace", b"7")]) as reply,
    ):
        body = b"".join([data async for data in reply])
    (heard,) = server.requests

    assert (200, "text/event-stream") == (reply.status, reply.header("Content-Type"))
    assert body.endswith(b"data: [DONE]\n\n")
    assert ("POST /v1/chat/completions HTTP/1.1", b"{}") == (heard.request_line, heard.body)
    assert ("Bearer key", "7", "identity") == tuple(
        heard.headers[name] for name in ("authorization", "x-trace", "accept-encoding")
    )
    assert "application/json" == heard.headers["content-type"]
    assert "user-agent" not in heard.headers


def request_with_follow_up(lead=b""):
    """Make a request with a follow-up."""
    return UpstreamRequest(
        "//page", b"[1]", follow_up=lambda answer: FollowUp(UpstreamRequest("//rest", b"<" + answer + b">"), lead)
    )


async def test_the_first_reply_makes_the_follow_up_whose_reply_is_returned():
    page = fixed_reply(200, b"a page " * 100_000)
    async with (
        raw_upstream(page, stream_texts("ok")) as server,
        Upstream(server.url, key=Secret("key")) as upstream,
        upstream.send_request(request_with_follow_up(), headers=[(b"x-trace", b"7")]) as reply,
    ):
        body = b"".join([data async for data in reply])
    first, second = server.requests

    assert ["POST /page HTTP/1.1", "POST /rest HTTP/1.1"] == [first.request_line, second.request_line]
    assert (b"[1]", b"<" + b"a page " * 100_000 + b">") == (first.body, second.body)
    assert {("Bearer key", "7")} == {
        (heard.headers["authorization"], heard.headers["x-trace"]) for heard in server.requests
    }
    assert body.startswith(ROLE[:5])
    assert body.endswith(b"data: [DONE]\n\n")


@pytest.mark.parametrize("poured", [False, True])
async def test_a_follow_up_may_add_a_prefix_to_the_body(poured):
    async with (
        raw_upstream(fixed_reply(200, b"page"), stream_texts("ok")) as server,
        Upstream(server.url) as upstream,
        upstream.send_request(request_with_follow_up(lead=b"data: 1\n\n")) as reply,
    ):
        got = []
        if poured:
            await reply.read_into(lambda data: got.append(data) is None)
        else:
            got = [data async for data in reply]

    assert b"".join(got).startswith(b"data: 1\n\n" + ROLE[:5])
    assert 1 == b"".join(got).count(b"data: 1\n\n")


async def test_a_refused_first_request_is_the_reply():
    refused = fixed_reply(404, b"no such page")
    async with (
        raw_upstream(refused) as server,
        Upstream(server.url) as upstream,
        upstream.send_request(request_with_follow_up(lead=b"x")) as reply,
    ):
        assert (404, b"no such page") == (reply.status, await reply.read_error())
    assert 1 == len(server.requests)


async def test_a_refused_follow_up_is_returned_unchanged():
    refused = fixed_reply(400, b"bad grammar")
    async with (
        raw_upstream(fixed_reply(200, b"page"), refused) as server,
        Upstream(server.url) as upstream,
        upstream.send_request(request_with_follow_up(lead=b"x")) as reply,
    ):
        assert (400, b"bad grammar") == (reply.status, await reply.read_error())


async def test_leaving_during_the_first_request_closes_the_connection():
    async with raw_upstream(hang) as server, Upstream(server.url) as upstream:
        asked = asyncio.create_task(anext(aiter(_replies(upstream))))
        await asyncio.wait_for(server.request_received.wait(), 60)
        asked.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await asked
        await asyncio.wait_for(server.client_left.wait(), 60)


async def _replies(upstream):
    async with upstream.send_request(request_with_follow_up()) as reply:
        yield reply


async def test_chunks_arrive_as_they_are_sent():
    async with (
        raw_upstream(stream_then(ROLE, text_chunk("Once"), then=hang)) as server,
        Upstream(server.url) as upstream,
        upstream.send_request(ASKED) as reply,
    ):
        got = b""
        while text_chunk("Once") not in got:
            got += await asyncio.wait_for(anext(reply), 60)

    assert ROLE + text_chunk("Once") == got


async def test_leaving_early_closes_the_connection():
    async with raw_upstream(stream_then(ROLE, then=hang)) as server, Upstream(server.url) as upstream:
        async with upstream.send_request(ASKED) as reply:
            await anext(reply)
        await asyncio.wait_for(server.client_left.wait(), 60)


async def test_the_connection_of_a_complete_body_is_reused():
    ports = set()

    async def noting(peer):
        ports.add(peer._writer.get_extra_info("peername"))
        await fixed_reply(200, b"{}")(peer)

    async with raw_upstream(noting) as server, Upstream(server.url) as upstream:
        for _ in range(3):
            await read(upstream)

    assert 3 == len(server.requests)
    assert 1 == len(ports)


async def test_an_address_is_parsed_once_and_not_kept_where_it_may_hold_a_key():
    async with raw_upstream(fixed_reply(200, b"{}")) as server, Upstream(server.url) as upstream:
        before = _parsed_url.cache_info()
        for path in ("/models", "/models", "/models?key=k"):
            await read(upstream, path)
        after = _parsed_url.cache_info()

    assert (1, 1) == (after.misses - before.misses, after.hits - before.hits)
    assert "GET /v1/models?key=k HTTP/1.1" == server.requests[-1].request_line


async def test_a_request_on_a_closed_kept_connection_is_sent_again():
    async def once(peer):
        await fixed_reply(200, b"{}")(peer)
        peer.reset()

    async with raw_upstream(once) as server, Upstream(server.url) as upstream:
        assert [b"{}"] * 5 == [await read(upstream) for _ in range(5)]


@pytest.mark.security
@pytest.mark.parametrize("turns", range(8))
async def test_a_request_that_is_cancelled_at_any_moment_leaves_no_connection_open(turns):
    """aiohttp forgets a kept connection, and leaves it open, if a trace is cancelled that reports its reuse."""
    connections = set()

    async def serve(reader, writer):
        connections.add(writer)
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            while await reader.readuntil(b"\r\n\r\n"):
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
        writer.close()
        connections.discard(writer)

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        async with Upstream(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}") as upstream:
            await upstream.fetch("GET", "/models")
            request = asyncio.create_task(upstream.fetch("GET", "/models"))
            for _ in range(turns):
                await asyncio.sleep(0)
            request.cancel()
            await asyncio.wait([request])
        await eventually(lambda: not connections)


@pytest.mark.security
async def test_a_post_is_sent_on_a_new_connection_if_the_kept_one_was_closed_before():
    """The endpoint runs in a thread: its end of the connection arrives while this event loop does something else."""

    async def body():
        yield b"{}"

    with socket.create_server(("127.0.0.1", 0)) as listener, ThreadPoolExecutor(1) as thread:
        listener.settimeout(60)
        closed = threading.Event()

        def serve():
            requests = 0
            for _ in range(2):
                connection, _ = listener.accept()
                with connection:
                    while b"\r\n\r\n{}" not in connection.recv(65536):
                        pass
                    requests += 1
                    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
                closed.set()
            return requests

        served = thread.submit(serve)
        async with Upstream(f"http://127.0.0.1:{listener.getsockname()[1]}") as upstream:
            for _ in range(2):
                # An iterator, since bytes would be sent again.
                size = [(b"content-length", b"2")]
                async with upstream.send("POST", "/files", headers=size, content=body()) as reply:
                    assert b"{}" == await reply.read(10)
                closed.wait(20)

    assert 2 == served.result()


@pytest.mark.security
@pytest.mark.parametrize("status", [101, 102, 199, 600, 700, 999])
async def test_a_status_that_no_reply_has_is_an_error(status):
    odd = raw_reply(b"HTTP/1.1 %d Odd\r\nUpgrade: x\r\nConnection: upgrade\r\nContent-Length: 0\r\n\r\n" % status)
    async with raw_upstream(odd) as server, Upstream(server.url) as upstream:
        with pytest.raises(UpstreamError) as caught:
            await read(upstream)

    assert 502 == caught.value.status


async def test_a_received_request_is_not_sent_again():
    async with raw_upstream(raw_reply(b"")) as server, Upstream(server.url) as upstream:
        with pytest.raises(UpstreamError, match="closed the connection"):
            async with upstream.send_request(ASKED):
                pass

    assert 1 == len(server.requests)


async def test_large_bodies_are_sent_completely():
    content = bytes(range(256)) * 4096
    async with (
        raw_upstream(fixed_reply(200, b"{}")) as server,
        Upstream(server.url) as upstream,
        upstream.send("POST", "/files", content=content) as reply,
    ):
        assert 200 == reply.status

    assert content == server.requests[0].body


@pytest.mark.parametrize(
    ("play", "message"),
    [
        (raw_reply(b"junk\r\n\r\n"), "not HTTP"),
        (reset, "closed the connection"),
        (fixed_reply(307, b"", "Location: /elsewhere"), "redirects"),
        (fixed_reply(200, b"\x1f\x8b", "Content-Encoding: gzip"), "compressed"),
        (stream_then(ROLE, then=raw_reply(b"")), "broke off"),
        (stream_then(ROLE, then=reset), "broke off: the connection was closed before its end"),
        (stream_then(ROLE, then=raw_reply(b"zz\r\n")), "framing is malformed"),
        (stream_then(ROLE, then=raw_reply(b"5\r\nhello, world\r\n")), "framing is malformed"),
        (raw_reply(SSE_HEAD + http_chunk(b"a") + b"zz\r\n"), "not HTTP"),
    ],
)
async def test_every_failure_is_an_upstream_error(play, message):
    async with raw_upstream(play) as server, Upstream(server.url) as upstream:
        with pytest.raises(UpstreamError, match=message) as caught:
            async with asyncio.timeout(60):
                await read(upstream)

    assert 502 == caught.value.status


@pytest.mark.parametrize("end", [b"zz\r\n", b""], ids=["malformed framing", "a closed connection"])
async def test_a_read_in_the_same_turn_of_the_loop_as_the_loss_is_an_upstream_error(end):
    """aiohttp has neither an exception nor the end of the body then, and refuses to wait."""
    play = stream_then(ROLE, then=raw_reply(end))
    async with (
        raw_upstream(play) as server,
        Upstream(server.url) as upstream,
        upstream.send("GET", "/models") as reply,
    ):
        await anext(reply)
        protocol = reply._aiohttp_response.connection.protocol
        while protocol.connected:  # noqa: ASYNC110 - an event would be a turn late
            await asyncio.sleep(0)
        with pytest.raises(UpstreamError, match="broke off"):
            await anext(reply)


async def test_a_connection_that_is_not_accepted_is_a_timeout():
    with full_backlog() as url:
        async with Upstream(url, timeouts=Timeouts(connect=0.2)) as upstream:
            with pytest.raises(UpstreamError, match=r"accepted no connection within 0\.2 s") as caught:
                await read(upstream)

    assert (504, "timeout") == (caught.value.status, caught.value.kind)


@contextlib.contextmanager
def full_backlog():
    """Listen without accepting, with a full queue: further connections then wait."""
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(socket.socket())
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        for _ in range(3):
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(listener.getsockname())
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"


@pytest.mark.parametrize("play", [hang, stream_then(then=hang)], ids=["no answer", "no body"])
async def test_the_wait_for_the_first_byte_has_a_limit(play):
    async with raw_upstream(play) as server, Upstream(server.url, timeouts=Timeouts(first_chunk=0.1)) as upstream:
        with pytest.raises(UpstreamError, match=r"sent nothing for 0\.1 s"):
            await read(upstream)
        await asyncio.wait_for(server.client_left.wait(), 60)


@pytest.mark.parametrize("play", [hang, stream_then(b"[", then=hang)], ids=["no answer", "half an answer"])
async def test_fetch_has_its_own_timeout(play):
    async with raw_upstream(play) as server, Upstream(server.url, timeouts=Timeouts(page=0.1)) as upstream:
        with pytest.raises(UpstreamError, match=r"no answer to GET /models within 0\.1 s") as caught:
            await upstream.fetch("GET", "/models?limit=3")
        await asyncio.wait_for(server.client_left.wait(), 60)

    assert (504, "timeout") == (caught.value.status, caught.value.kind)


async def test_a_slow_consumer_causes_no_timeout():
    go_on = asyncio.Event()
    async with (
        raw_upstream(paused_stream(go_on)) as server,
        Upstream(server.url, timeouts=Timeouts(chunk=1.0)) as upstream,
        upstream.send_request(ASKED) as reply,
    ):
        got = await anext(reply)
        await asyncio.sleep(1.2)
        go_on.set()
        async for chunk in reply:
            got += chunk

    assert end_chunks() in got


async def test_an_upstream_can_be_used_after_aclose():
    async with raw_upstream(fixed_reply(200, b"{}")) as server:
        upstream = Upstream(server.url)
        first = await read(upstream)
        await upstream.aclose()
        await upstream.aclose()
        second = await read(upstream)
        await upstream.aclose()

    assert b"{}" == first == second


async def test_an_error_body_is_read_up_to_a_limit():
    async with (
        raw_upstream(fixed_reply(500, b"x" * 10**6)) as server,
        Upstream(server.url) as upstream,
        upstream.send("GET", "/models") as reply,
    ):
        assert 2**16 == len(await reply.read_error())


async def test_an_ipv6_address_is_named_in_brackets():
    async with Upstream("http://[::1]:9") as upstream:
        with pytest.raises(UpstreamError) as caught:
            await upstream.fetch("GET", "/models")

    assert "the upstream at [::1]:9: " in str(caught.value)


async def test_a_refused_connection_names_the_address_and_the_reason():
    async with Upstream("http://127.0.0.1:9") as upstream:
        with pytest.raises(UpstreamError) as caught:
            await read(upstream)

    assert "cannot connect to the upstream at 127.0.0.1:9: Connection refused" == str(caught.value)
