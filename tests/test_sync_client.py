"""The synchronous client, with a scripted upstream that runs in the tests' event loop."""

import asyncio
import contextlib
import subprocess
import sys
import threading
from collections.abc import AsyncIterator
from typing import get_type_hints

import pytest

from fcshim import Client, SyncClient
from fcshim.client import ClientSettings
from fcshim.config import ModelOptions
from fcshim.errors import UpstreamError
from fcshim.events import Error, Stop, Text
from tests.scripted import CUT, HANG, ROLE, Script, model_list, scripted_upstream, text_chunk, text_reply
from tests.test_client import CALL, USAGE, Stay, add, answering


@contextlib.asynccontextmanager
async def served(*scripts, **settings) -> AsyncIterator[tuple]:
    """Give a client and its upstream; what uses the client must run in another thread."""
    async with scripted_upstream(*scripts, **settings) as upstream:
        client = SyncClient(upstream.url, model="m", constrain="off")
        try:
            yield client, upstream
        finally:
            await asyncio.to_thread(client.close)


def alive() -> list[str]:
    return [each.name for each in threading.enumerate() if each.name == "fcshim client"]


def test_it_takes_the_arguments_of_the_client() -> None:
    """For a new argument of `Client`, add a line to `ClientSettings`: its name and its type."""
    expected = get_type_hints(Client.__init__)
    for name in ("url", "settings", "return"):
        del expected[name]

    assert expected | get_type_hints(ModelOptions) == get_type_hints(ClientSettings)


def test_an_unknown_argument_is_refused() -> None:
    """Also one that `ModelConfig` has and users cannot set."""
    for name in ("modle", "real_name", "upstream_model"):
        with pytest.raises(TypeError, match=name):
            SyncClient("http://127.0.0.1:1", **{name: "x"})


async def test_it_does_what_the_client_does():
    scripts = text_reply("Hello."), text_reply(CALL), text_reply("It is 3."), answering('{"name": "Oslo"}')

    async def add_later(a: int, b: int) -> int:
        await asyncio.sleep(0)
        return add(a, b)

    def use(client: SyncClient) -> tuple:
        said = client.complete("Hi", temperature=0)
        result = client.run("1 + 2?", [add_later])
        return said.text, result.text, client.run("Where?", output_type=Stay).output

    async with served(*scripts) as (client, _):
        assert ("Hello.", "It is 3.", Stay("Oslo")) == await asyncio.to_thread(use, client)


async def test_it_lists_the_models():
    async with served(listing=model_list("m", "n")) as (client, _):
        assert ["m", "n"] == await asyncio.to_thread(client.models)


async def test_a_stream_is_an_iterator_over_the_events():
    async with served(text_reply("Hel", "lo")) as (client, _):
        events = await asyncio.to_thread(lambda: list(client.stream("Hi")))

    assert [Text("Hel"), Text("lo"), USAGE, Stop("complete")] == events


async def test_an_error_before_the_first_event_is_raised_and_one_after_it_is_an_event():
    def use(client: SyncClient) -> tuple:
        stream = client.stream("Hi")
        for _ in range(2):
            with pytest.raises(UpstreamError):
                next(stream)
        return tuple(client.stream("Hi"))

    async with served(Script((b"{}",), 500), Script((ROLE, text_chunk("Hel"), CUT))) as (client, _):
        text, error = await asyncio.to_thread(use, client)

    assert Text("Hel") == text
    assert isinstance(error, Error)


@pytest.mark.parametrize("way", ["close", "with", "forget", "client"])
async def test_closing_a_stream_cancels_the_upstream(way):
    def use(client: SyncClient) -> None:
        stream = client.stream("Hi")
        assert Text("Hel") == next(stream)
        match way:
            case "close":
                stream.close()
            case "with":
                with stream:
                    pass
            case "forget":
                del stream
            case "client":
                client.close()
        if way in {"close", "with"}:
            assert [] == list(stream)

    async with served(Script((ROLE, text_chunk("Hel"), HANG))) as (client, upstream):
        await asyncio.to_thread(use, client)
        async with asyncio.timeout(60):
            await upstream.client_left.wait()


async def test_many_events_wait_for_the_caller():
    count = 2_000
    async with served(text_reply(*["x"] * count)) as (client, _):
        events = await asyncio.to_thread(lambda: list(client.stream("Hi")))

    assert count == sum(isinstance(event, Text) for event in events)


async def test_its_thread_ends_with_it():
    async with served() as (client, _):
        assert ["fcshim client"] == alive()
        await asyncio.to_thread(client.close)

        assert [] == alive()
        with pytest.raises(RuntimeError, match="the client is closed"):
            client.complete("Hi")


async def test_async_code_that_it_runs_cannot_wait_for_it():
    async with served(text_reply(CALL), text_reply("It failed.")) as (client, upstream):

        async def ask_again(a: int, b: int) -> str:
            return client.complete("Hi").text

        await asyncio.to_thread(client.run, "1 + 2?", [renamed(ask_again)])

    assert "waits for itself" in upstream.requests[1].body["messages"][-1]["content"]


def renamed(function):
    function.__name__ = "add"
    return function


@pytest.mark.parametrize("option", ["modle", "max_retry"])
def test_an_unknown_setting_is_a_type_error(option):
    with pytest.raises(TypeError, match=option):
        SyncClient("http://127.0.0.1:1", **{option: 1})

    assert [] == alive()


def test_a_program_ends_although_its_client_is_open():
    program = "from fcshim import SyncClient; client = SyncClient('http://127.0.0.1:1'); print('done')"
    done = subprocess.run([sys.executable, "-W", "error", "-c", program], capture_output=True, timeout=60, check=True)

    assert (b"done\n", b"") == (done.stdout, done.stderr)


@pytest.mark.parametrize("url", ["localhost:9", "127.0.0.1:9/v1", "[::1]:9", "http://localhost:9"])
def test_an_address_needs_no_scheme_as_in_the_commands(url):
    with SyncClient(url, model="m") as client, pytest.raises(UpstreamError, match="cannot connect to the upstream at"):
        client.complete("hello")
