"""A client that disconnects: the real server stops generating."""

import json
import socket
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest

from tests.engine.llama_server import LlamaServer
from tests.engine.proxy import proxying

SLOWLY = "root ::= [a-z ]+"
"""Endless text and never a call."""


@pytest.fixture(scope="module")
def random_proxy(random_server: LlamaServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with proxying(random_server.url, tmp_path_factory.mktemp("leaving")) as url:
        yield url


@pytest.fixture(scope="module")
def lazy_proxy(random_server: LlamaServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    options = ("--constrain", "llama-server-lazy")
    with proxying(random_server.url, tmp_path_factory.mktemp("leaving"), *options) as url:
        yield url


def begin(url: str, *, stream: bool, tools: bool, grammar: str | None) -> socket.socket:
    """Send a request whose reply takes thousands of tokens, and read nothing."""
    tool = {"type": "function", "function": {"name": "add", "parameters": {"type": "object"}}}
    fields = {
        "messages": [{"role": "user", "content": "Go on."}],
        "max_tokens": 100_000,
        "grammar": grammar,
        "ignore_eos": True,
        "stream": stream,
        "tools": [tool] if tools else None,
    }
    body = json.dumps({name: value for name, value in fields.items() if value is not None}).encode()
    address = urlsplit(url)
    host, port = address.netloc.split(":")
    connection = socket.create_connection((host, int(port)), 10)
    head = [
        "POST /v1/chat/completions HTTP/1.1",
        f"Host: {address.netloc}",
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
    ]
    connection.sendall("\r\n".join([*head, "", ""]).encode() + body)
    return connection


def leave(server: LlamaServer, url: str, *, stream: bool, tools: bool, grammar: str | None = SLOWLY) -> None:
    """Send a request, disconnect while the model writes, and check that it stops in the middle of its context."""
    with begin(url, stream=stream, tools=tools, grammar=grammar) as connection:
        if stream:
            assert b"200 OK" in connection.recv(4096)
        server.wait_until(busy=1, seconds=60)
    server.wait_until(busy=0, seconds=60)
    written, context = server.latest_tokens()

    assert written < context - 1, "the model wrote on until its context was full"


@pytest.mark.parametrize("tools", [True, False], ids=["shim", "relay"])
def test_a_stream_whose_client_leaves_frees_the_slot(
    random_server: LlamaServer, random_proxy: str, tools: bool
) -> None:
    leave(random_server, random_proxy, stream=True, tools=tools)


def test_a_client_that_waits_for_a_whole_reply_and_leaves_frees_the_slot(
    random_server: LlamaServer, random_proxy: str
) -> None:
    leave(random_server, random_proxy, stream=False, tools=True)


@pytest.mark.parametrize("stream", [True, False])
def test_a_client_that_leaves_a_completion_frees_the_slot(
    random_server: LlamaServer, lazy_proxy: str, stream: bool
) -> None:
    leave(random_server, lazy_proxy, stream=stream, tools=True, grammar=None)
