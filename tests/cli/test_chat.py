"""Which endpoint `fcshim chat` takes."""

import argparse
import asyncio

import pytest

from fcshim.cli import endpoint
from fcshim.cli.chat import configure_parser, find_endpoint
from fcshim.errors import ConfigError
from tests.scripted import model_list, scripted_upstream


def found(*arguments):
    parser = argparse.ArgumentParser()
    configure_parser(parser)
    return find_endpoint(parser.parse_args(arguments))


@pytest.fixture
def ports(monkeypatch):
    """Search only the ports of a test's servers."""
    monkeypatch.delenv("FCSHIM_UPSTREAM", raising=False)
    return lambda *upstreams: monkeypatch.setattr(
        endpoint, "PORTS", tuple(int(each.url.rpartition(":")[2].partition("/")[0]) for each in upstreams)
    )


async def test_the_server_on_this_machine_is_found(ports, capsys):
    async with scripted_upstream(listing=model_list("m"), pages=None) as server:
        ports(server)
        url = await asyncio.to_thread(found)

    assert server.url.startswith(url)
    assert capsys.readouterr().err.startswith(f"fcshim: found {url}")


async def test_of_several_servers_one_must_be_named(ports):
    async with scripted_upstream(listing=model_list("a")) as one, scripted_upstream(listing=model_list("b")) as two:
        ports(one, two)
        with pytest.raises(ConfigError, match="several model servers run on this machine"):
            await asyncio.to_thread(found)


async def test_the_demo_model_is_the_last_resort_or_named(ports):
    async with scripted_upstream(listing=model_list("m")) as server:
        ports()
        assert await asyncio.to_thread(found) is None
        ports(server)
        assert await asyncio.to_thread(found, "--demo") is None
        assert await asyncio.to_thread(found, "--resume") is None


def test_a_named_endpoint_is_taken(ports, monkeypatch):
    ports()

    assert "http://localhost:8090" == found("localhost:8090")
    monkeypatch.setenv("FCSHIM_UPSTREAM", "http://127.0.0.1:9")
    assert "http://127.0.0.1:9" == found()
    assert found("--resume") is None
    with pytest.raises(ConfigError, match="expected the URL or --demo, not both"):
        found("localhost:8090", "--demo")
