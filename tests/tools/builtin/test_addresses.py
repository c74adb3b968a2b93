"""Which addresses WebFetch connects to: the address of the socket is judged, however the URL spells it."""

import asyncio
import contextlib
import socket

import pytest

from fcshim.errors import ToolError
from fcshim.tools.builtin import Web
from fcshim.tools.builtin.addresses import is_public
from fcshim.tools.builtin.fetch import fetch
from tests.tools.builtin.tool_calls import error_text

pytestmark = pytest.mark.security

LOOPBACK_HOSTS = [
    "127.0.0.1",
    "127。0。0。1",
    "127．0．0．1",
    "127｡0｡0｡1",
    "①②⑦.⓪.⓪.①",
    "１２７.０.０.１",
    "𝟏𝟐𝟕.𝟎.𝟎.𝟏",
    "١٢٧.٠.٠.١",
    "2130706433",
    "２１３０７０６４３３",
    "0x7f000001",
    "0x7f.1",
    "0177.0.0.1",
    "017700000001",
    "127.1",
    "127.0.1",
    "127.0.0.1.",
    "127.255.255.254",
    "0.0.0.0",
    "0",
    "localhost",
    "localhost.",
    "LOCALHOST",
    "ｌｏｃａｌｈｏｓｔ",
    "ⓛⓞⓒⓐⓛⓗⓞⓢⓣ",
    "loc%61lhost",
    "127.0.0.%31",
    "[::1]",
    "[::]",
    "[0:0:0:0:0:0:0:1]",
    "[::1%25lo]",
    "[::ffff:127.0.0.1]",
    "[::ffff:7f00:1]",
    "[::127.0.0.1]",
    "[64:ff9b::127.0.0.1]",
    "[2002:7f00:1::]",
]
OTHER_HOSTS = ["169.254.169.254", "[fd00:ec2::254]", "10.0.0.1", "192.168.1.1", "168.63.129.16", "[fe80::1%25lo]"]


class Listener:
    """A server on loopback, on both families, that counts its connections."""

    def __init__(self):
        self.connections = 0
        self.port = 0

    async def accept(self, reader, writer):
        self.connections += 1
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\nConnection: close\r\n\r\nsecret")
        await writer.drain()
        writer.close()


@pytest.fixture
async def listener():
    listener = Listener()
    server = await asyncio.start_server(listener.accept, "127.0.0.1", 0)
    listener.port = server.sockets[0].getsockname()[1]
    servers = [server]
    with contextlib.suppress(OSError):  # a machine without IPv6
        servers.append(await asyncio.start_server(listener.accept, "::1", listener.port))
    yield listener
    for server in servers:
        server.close()


@pytest.mark.parametrize("host", LOOPBACK_HOSTS)
async def test_no_spelling_of_loopback_is_connected_to(listener, host):
    with pytest.raises(ToolError):
        await fetch(f"http://{host}:{listener.port}/", seconds=5)

    assert 0 == listener.connections


async def test_the_spellings_do_reach_loopback_where_it_is_permitted(listener):
    """Otherwise the test above would prove nothing: with `allow_private` the same URLs connect."""
    reached = 0
    for host in ("127。0。0。1", "１２７.０.０.１", "①27.0.0.1"):
        reached += "secret" == (await fetch(f"http://{host}:{listener.port}/", allow_private=True, seconds=5)).text

    assert 3 == reached == listener.connections


@pytest.mark.parametrize("host", ["127.0.0.1", "127。0。0。1", "localhost", *OTHER_HOSTS])
async def test_the_message_says_why(host):
    text = await error_text(Web().tools(), "WebFetch", url=f"http://{host}/")

    assert "is a private address" in text


async def test_a_redirect_is_judged_again(listener, monkeypatch):
    """The first hop counts as public here; the second one is loopback by another spelling."""

    async def redirect(reader, writer):
        writer.write(f"HTTP/1.1 302 F\r\nLocation: http://127。0。0。1:{listener.port}/\r\n\r\n".encode())
        await writer.drain()
        writer.close()

    judged = []

    def first_only(host):
        judged.append(host)
        return len(judged) == 1

    monkeypatch.setattr("fcshim.tools.builtin.addresses.is_public", first_only)
    async with await asyncio.start_server(redirect, "127.0.0.1", 0) as server:
        with pytest.raises(ToolError, match="private address"):
            await fetch(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/", seconds=5)

    assert 2 == len(judged)
    assert 0 == listener.connections


async def test_a_name_with_public_and_private_addresses_reaches_only_public_ones(listener, monkeypatch):
    loop = asyncio.get_running_loop()

    async def resolve(host, port, **_):
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in ("127.0.0.1", "192.0.2.1")]

    monkeypatch.setattr(loop, "getaddrinfo", resolve)
    with pytest.raises(ToolError):
        await fetch(f"http://both.example:{listener.port}/", seconds=2)

    assert 0 == listener.connections


async def test_a_name_that_changes_its_address_is_judged_at_the_connection(listener, monkeypatch):
    """DNS rebinding: the second answer of the resolver is loopback."""
    loop, answers = asyncio.get_running_loop(), iter(["192.0.2.1", "127.0.0.1", "127.0.0.1"])

    async def resolve(host, port, **_):
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (next(answers), port))]

    monkeypatch.setattr(loop, "getaddrinfo", resolve)
    for _ in range(2):
        with pytest.raises(ToolError):
            await fetch(f"http://rebind.example:{listener.port}/", seconds=1)

    assert 0 == listener.connections


@pytest.mark.parametrize(
    ("address", "public"),
    [
        ("8.8.8.8", True),
        ("1.1.1.1", True),
        ("2606:4700::1111", True),
        ("2001:4860:4860::8888", True),
        ("64:ff9b::808:808", True),
        ("::ffff:8.8.8.8", True),
        ("100.64.0.1", False),
        ("192.0.0.8", False),
        ("192.88.99.1", False),
        ("168.63.129.16", False),
        ("224.0.0.1", False),
        ("255.255.255.255", False),
        ("fe80::1%eth0", False),
        ("fd00::1", False),
        ("fec0::1", False),
        ("ff02::1", False),
        ("::127.0.0.1", False),
        ("::ffff:0:127.0.0.1", False),
        ("64:ff9b::7f00:1", False),
        ("64:ff9b:1::7f00:1", False),
        ("2002:7f00:1::", False),
        ("2002:a00:1::1", False),
        ("2001:0:7f00:1::", False),
        ("2001:470::5efe:7f00:1", False),
        ("2001:470::200:5efe:10.0.0.1", False),
        ("2001:470::5efe:8.8.8.8", True),
        ("3fff::1", False),
        ("5f00::1", False),
        ("not an address", False),
        ("", False),
    ],
)
def test_which_addresses_are_public(address, public):
    assert public == is_public(address)
