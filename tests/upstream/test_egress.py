"""How an endpoint is reached: egress proxies, loopback, and certificate authorities."""

import asyncio
import base64
import contextlib
import os
import ssl

import pytest

from fcshim.config import Config, Secret, UpstreamConfig, scoped_config
from fcshim.errors import ConfigError, UpstreamError
from fcshim.upstream import Upstream
from fcshim.upstream.egress import Egress, egress_for
from fcshim.upstream.health import Health, measured_upstream_for
from tests.certificates import self_signed_certificate

PROXY = "http://user:secret-pass@127.0.0.1:3128"


@pytest.fixture(autouse=True)
def _environment(monkeypatch):
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


def proxy_of(url: str, **fields) -> str | None:
    proxy = egress_for(UpstreamConfig(url=url, **fields)).proxy
    return None if proxy is None else proxy.reveal()


def test_the_environment_names_the_proxy_but_never_for_loopback(monkeypatch):
    monkeypatch.setenv("HTTPS_PROXY", PROXY)
    monkeypatch.setenv("NO_PROXY", "inside.example")

    assert PROXY == proxy_of("https://api.example/v1")
    for direct in (
        "https://inside.example",
        "http://api.example",
        "https://127.0.0.2",
        "https://localhost",
        "https://[::1]:8",
    ):
        assert None is proxy_of(direct)
    assert None is proxy_of("https://api.example", proxy=Secret("direct"))
    assert "http://other:1" == proxy_of("https://inside.example", proxy=Secret("http://other:1"))


def test_a_proxy_of_another_kind_and_a_missing_file_are_refused(tmp_path):
    with pytest.raises(ConfigError, match="expected a URL that starts with http"):
        proxy_of("https://api.example", proxy=Secret("socks5://h:1"))
    config = Config(upstreams={"a": UpstreamConfig(url="https://h", ca_file=str(tmp_path / "missing.pem"))})
    with pytest.raises(ConfigError, match="ca_file: cannot read"):
        measured_upstream_for(scoped_config(config, "a"))
    empty = tmp_path / "empty.pem"
    empty.write_text("")
    config = Config(upstreams={"a": UpstreamConfig(url="https://h", ca_file=str(empty))})
    with pytest.raises(ConfigError, match="ca_file: cannot read"):
        measured_upstream_for(scoped_config(config, "a"))


@contextlib.asynccontextmanager
async def proxy_server():
    """An egress proxy that answers by itself; yields its address and the heads that it got."""
    heads = []

    async def handle(reader, writer):
        with contextlib.suppress(asyncio.IncompleteReadError):
            heads.append((await reader.readuntil(b"\r\n\r\n")).decode())
            body = b'{"data":[{"id":"behind the proxy"}]}'
            writer.write(
                b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)
            )
        writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    async with server:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}", heads


async def test_requests_go_through_the_proxy_with_its_password():
    async with proxy_server() as (address, heads):
        section = UpstreamConfig(url="http://api.example", proxy=Secret(f"http://user:secret-pass@{address}"))
        async with measured_upstream_for(scoped_config(Config(upstreams={"a": section}), "a")) as upstream:
            names, _ = await upstream.list_models()

    assert ["behind the proxy"] == names
    assert heads[0].startswith("GET http://api.example/v1/models HTTP/1.1\r\n")
    assert base64.b64encode(b"user:secret-pass").decode() in heads[0]


async def test_https_goes_through_a_tunnel_and_the_error_shows_no_password():
    async with proxy_server() as (address, heads):
        section = UpstreamConfig(url="https://api.example", proxy=Secret(f"http://user:secret-pass@{address}"))
        async with measured_upstream_for(scoped_config(Config(upstreams={"a": section}), "a")) as upstream:
            with pytest.raises(UpstreamError) as caught:  # this proxy speaks no TLS
                await upstream.list_models()

    assert heads[0].startswith("CONNECT api.example:443 HTTP/1.1\r\n")
    assert "secret-pass" not in caught.value.message


async def test_a_proxy_that_refuses_is_named_as_the_one_who_refuses():
    async def handle(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 407 Who are you\r\nContent-Length: 0\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    async with server:
        address = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        section = UpstreamConfig(url="https://api.example", proxy=Secret(address))
        async with measured_upstream_for(scoped_config(Config(upstreams={"a": section}), "a")) as upstream:
            with pytest.raises(UpstreamError, match="the egress proxy refused the connection with status 407"):
                await upstream.list_models()


async def test_only_the_authorities_of_the_file_may_sign(own_authority):
    certificate, context = own_authority

    async def handle(reader, writer):
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b'HTTP/1.1 200 OK\r\nContent-Length: 26\r\n\r\n{"data":[{"id":"signed"}]}')
        writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0, ssl=context)
    async with server:
        url = f"https://localhost:{server.sockets[0].getsockname()[1]}"
        trusting = UpstreamConfig(url=url, ca_file=certificate)
        config = Config(upstreams={"trusting": trusting, "other": UpstreamConfig(url=url)})
        async with measured_upstream_for(scoped_config(config, "other")) as upstream:
            with pytest.raises(
                UpstreamError, match=r"certificate of the upstream at localhost:\d+ is not accepted: self"
            ):
                await upstream.list_models()
        async with measured_upstream_for(scoped_config(config, "trusting")) as upstream:
            names, _ = await upstream.list_models()

    assert ["signed"] == names


@pytest.mark.security
async def test_an_endpoint_that_speaks_no_tls_is_named_as_such():
    async def handle(_reader, writer):
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    async with server, Upstream(f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}") as upstream:
        with pytest.raises(UpstreamError, match=r"no TLS connection to the upstream at 127\.0\.0\.1:\d+: "):
            await upstream.list_models()


@pytest.mark.security
def test_certificates_that_are_a_fifo_are_an_error(tmp_path):
    os.mkfifo(tmp_path / "ca.pem")
    with pytest.raises(ConfigError, match=r"cannot read .*ca\.pem"):
        Egress(ca_file=str(tmp_path / "ca.pem")).ssl_context()


@pytest.fixture
def own_authority(tmp_path):
    """A certificate for localhost that signs itself, and the server's context with it."""
    key, certificate = self_signed_certificate(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    return certificate, context


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_an_upstream_that_fails_is_left_alone_then_probed_once():
    clock = Clock()
    health = Health(failures=2, pause=10, max_concurrent=0, clock=clock)
    health.record_failure("refused")

    assert ("", "failing") == (health.refusal, health.report().state)

    health.record_failure("refused")

    assert "2 times in a row: refused" in health.refusal
    assert ("open", 10) == (health.report().state, health.retry_in)

    clock.now = 10

    assert "" == health.refusal
    with health.admit():
        assert ("probing", True) == (health.report().state, bool(health.refusal))
        health.record_failure("again")
    assert ("open", 10) == (health.report().state, health.retry_in)

    clock.now = 20
    with health.admit():
        health.record_success()
        assert "" == health.refusal

    assert "ok" == health.report().state


def test_a_probe_whose_client_left_makes_room_for_another():
    clock = Clock()
    health = Health(failures=1, pause=1, max_concurrent=0, clock=clock)
    health.record_failure("x")
    clock.now = 1
    with contextlib.suppress(ValueError), health.admit():
        raise ValueError

    assert "" == health.refusal
