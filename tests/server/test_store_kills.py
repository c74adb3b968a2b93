"""Writers and servers that are killed at many points: nothing half written is ever read, and nothing kept is lost."""

import asyncio
import os
import random
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from fcshim.config import Config
from fcshim.server.store.open import open_store
from tests.scripted import scripted_upstream, text_reply
from tests.server.proxy import http_client
from tests.server.redis_server import running_redis
from tests.server.store_writer import LIMITS, NAMES, running_writers, value_of

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def writers():
    with running_writers() as writers:
        yield writers


async def check_whole(store, owner):
    """Read every document; return the names of those that exist."""
    names = [f"{owner}{number:04d}" for number in range(NAMES)]
    found = await store.find(owner, names)
    for name, value in found.items():
        assert value == value_of(name, int.from_bytes(value[:4])), name
    aliases = await store.resolve(owner, [f"alias of {name}" for name in names])
    assert {f"alias of {name}": name for name in found} == aliases
    return list(found)


def check_totals(file):
    with sqlite3.connect(file) as connection:
        counted = connection.execute("SELECT owner, count(*), sum(size) FROM documents GROUP BY owner").fetchall()
        totals = {row[0]: row[1:] for row in connection.execute("SELECT * FROM totals")}
        sizes = connection.execute("SELECT id FROM documents EXCEPT SELECT document FROM contents").fetchall()
        whole = connection.execute("PRAGMA integrity_check").fetchall()
    connection.close()

    assert ([("ok",)], []) == (whole, sizes)
    assert totals.pop("") == (sum(row[1] for row in counted), sum(row[2] for row in counted))
    assert totals == {row[0]: row[1:] for row in counted}


@pytest.mark.parametrize("kind", ["sqlite", "redis"])
async def test_writers_killed_at_many_points_leave_only_whole_documents(kind, tmp_path, request, writers):
    address = f"sqlite:{tmp_path / 'state'}"
    if kind == "redis":
        address = request.getfixturevalue("redis_server").url
    moments = random.Random(20)
    for _ in range(20):
        running = [writers.start(address, owner) for owner in "ab"]
        await asyncio.sleep(moments.uniform(0.0, 0.05))
        kept = [writers.kill(writer) for writer in running]
        store = open_store(Config(store=address, **LIMITS))
        found = [await check_whole(store, owner) for owner in "ab"]
        await store.aclose()

        assert all(found)
        assert all(not name or name in names for name, names in zip(kept, found, strict=True))
        if kind == "sqlite":
            check_totals(tmp_path / "state")


@pytest.fixture
def redis_server(tmp_path):
    with running_redis(tmp_path) as server:
        yield server


async def test_a_redis_server_killed_with_its_log_loses_nothing_that_was_kept(redis_server, writers):
    redis_server.kill()
    options = ("--appendonly", "yes", "--appendfsync", "always")
    redis_server.start(*options)
    moments = random.Random(21)
    for _ in range(6):
        writer = writers.start(redis_server.url, "a")
        await asyncio.sleep(moments.uniform(0.0, 0.1))
        redis_server.kill()
        last = writers.kill(writer)
        redis_server.start(*options)
        store = open_store(Config(store=redis_server.url, **LIMITS))
        found = await check_whole(store, "a")
        await store.aclose()

        assert not last or last in found


async def test_conversations_go_on_while_proxies_that_share_a_file_are_killed_in_turn(tmp_path):
    """A turn that its client has whole is never lost, whichever process is asked next."""
    address = f"sqlite:{tmp_path / 'state'}"
    async with scripted_upstream(respond=lambda asked: text_reply(str(len(asked.body["messages"])))) as upstream:
        proxies = [Proxy(upstream.url, address, tmp_path / f"log{number}") for number in range(2)]
        try:
            for proxy in proxies:
                await proxy.start()
            names = [None] * 6
            for turn in range(5):
                for number, name in enumerate(names):
                    names[number], said = await proxies[(turn + number) % 2].ask(name)
                    assert str(2 * turn + 1) == said
                await proxies[turn % 2].restart()
        finally:
            for proxy in proxies:
                proxy.kill()


class Proxy:
    """`fcshim serve` as a process."""

    def __init__(self, upstream, store, log):
        self._options = ["--upstream", upstream, "--store", store, "--port", "0"]
        self._log = log
        self._process = None

    def begin(self):
        with self._log.open("wb") as log:
            environment = {name: value for name, value in os.environ.items() if not name.startswith("FCSHIM_")}
            command = [sys.executable, "-m", "fcshim", "serve", *self._options]
            self._process = subprocess.Popen(command, cwd=ROOT, stderr=log, stdout=log, env=environment)

    async def start(self):
        self.begin()
        for _ in range(6_000):
            await asyncio.sleep(0.02)
            if "serving http" in (text := self._log.read_text()):
                self._url = "http" + text.partition("serving http")[2].split("/v1")[0]
                return
        raise AssertionError(self._log.read_text())

    async def ask(self, previous):
        body = {"model": "m", "input": "Hi", "previous_response_id": previous}
        async with http_client(self._url) as client:
            reply = (await client.post("/v1/responses", json=body)).json()
        return reply["id"], reply["output"][0]["content"][0]["text"]

    async def restart(self):
        self.kill()
        await self.start()

    def kill(self):
        if self._process is not None:
            self._process.kill()
            self._process.wait()
