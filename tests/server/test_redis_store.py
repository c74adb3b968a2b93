"""What only the store in a server has: keys that expire, passwords, encryption, and limits of its own."""

import asyncio
import contextlib
import random
import ssl
from collections import Counter

import pytest

from fcshim.config import Config, Secret
from fcshim.errors import StoreError
from fcshim.server.store import StoredDocument, StoreLimits, owner_of
from fcshim.server.store.open import open_store
from fcshim.server.store.redis import PREFIX, RedisStore
from tests.certificates import self_signed_certificate
from tests.engine.process import free_port
from tests.scripted import scripted_upstream, text_reply
from tests.server.proxy import http_client, running_proxy
from tests.server.redis_server import running_redis

ME, YOU = owner_of(b"me"), owner_of(b"you")


@pytest.fixture
def certificate(tmp_path):
    """The key and the certificate of localhost, which signs itself."""
    return self_signed_certificate(tmp_path)


@pytest.fixture
def server(tmp_path):
    with running_redis(tmp_path) as server:
        yield server


async def keep(store, owner, name, value=b"x", aliases=()):
    return await store.keep(owner, StoredDocument(name, value, tuple(aliases)))


async def use(address, key=None):
    """Keep and find a document as the proxy would; return what is wrong."""
    store = open_store(Config(store=address, store_key=None if key is None else Secret(key)))
    try:
        await store.keep(ME, StoredDocument("a", b"1"))
        assert {"a": b"1"} == await store.find(ME, ["a"])
    except StoreError:
        return await store.problem()
    finally:
        await store.aclose()
    return ""


async def test_every_key_expires_and_names_its_owner(server):
    store = RedisStore(server.client(), StoreLimits(lifetime=60))
    await keep(store, ME, "a", b"1", ["x"])
    await keep(store, YOU, "b", b"2")
    await store.find(ME, ["a", "b"])
    lives = server.keys()
    await store.aclose()

    assert all(0 < life <= 60_000 for life in lives.values())
    assert {f"fcshim:1:{ME}:{rest}" for rest in ("document:a", "alias:x", "used")} == {
        key for key in lives if ME in key
    }
    assert {f"fcshim:1:{index}" for index in ("entries", "used", "expires", "sizes")} == {
        key for key in lives if ME not in key and YOU not in key
    }


async def test_a_deleted_document_leaves_no_keys(server):
    store = RedisStore(server.client(), StoreLimits())
    await keep(store, ME, "a", b"1", ["x"])
    await store.forget(ME, "a")
    left = server.keys()
    await store.aclose()

    assert {} == left


@pytest.mark.parametrize("index", ["used", "sizes", "entries", "expires"])
async def test_limits_hold_where_the_server_evicts_what_it_likes(index, server):
    store = RedisStore(server.client(), StoreLimits(size=10, owner_size=10))
    await keep(store, ME, "a", b"123456")
    server.delete(f"fcshim:1:{index}", f"fcshim:1:{ME}:used")
    await keep(store, ME, "b", b"123456")
    await keep(store, YOU, "c", b"123456")
    found = (await store.find(ME, ["b"]), await store.find(YOU, ["c"]))
    await store.aclose()

    assert ({}, {"c": b"123456"}) == found


async def test_a_password_and_a_user_have_their_settings(server):
    server.kill()
    server.start("--user", "ada", "on", ">her-password", "~fcshim:*", "+@all")
    with_user = f"redis://ada@127.0.0.1:{server.port}"
    problems = [await use(with_user, "her-password"), await use(with_user, "wrong"), await use(with_user)]

    assert "" == problems[0]
    assert all("WRONGPASS" in problem or "invalid username-password" in problem for problem in problems[1:])
    assert not any("her-password" in problem for problem in problems)


async def test_a_server_that_wants_a_password_says_which_setting_has_it(server):
    server.configure("requirepass", "its-password")
    problems = [await use(server.url), await use(server.url, "wrong")]

    assert all("expected the server's password in store_key (FCSHIM_STORE_KEY)" in problem for problem in problems)
    assert "" == await use(server.url, "its-password")


async def test_a_connection_is_encrypted_and_the_server_is_who_it_says(server, certificate, monkeypatch):
    key, public = certificate
    port = free_port()
    files = ("--tls-cert-file", public, "--tls-key-file", key, "--tls-ca-cert-file", public)
    monkeypatch.setattr(ssl, "create_default_context", ssl.create_default_context.__wrapped__)  # not the tests' cache
    server.kill()
    server.start("--tls-port", str(port), "--tls-auth-clients", "no", *files)
    unknown = await use(f"rediss://localhost:{port}")
    monkeypatch.setenv("SSL_CERT_FILE", public)
    trusted = [await use(f"{scheme}://localhost:{port}") for scheme in ("rediss", "valkeys")]
    other_name = await use(f"rediss://127.0.0.1:{port}")

    assert ["", ""] == trusted
    assert "CERTIFICATE_VERIFY_FAILED" in unknown
    assert "CERTIFICATE_VERIFY_FAILED" in other_name


async def test_a_full_server_can_be_read(server):
    store = open_store(Config(store=server.url))
    await store.keep(ME, StoredDocument("a", b"1"))
    server.configure("maxmemory", "1")
    with pytest.raises(StoreError):
        await store.keep(ME, StoredDocument("b", b"1"))
    found = await store.find(ME, ["a", "b"])
    problem = await store.problem()
    await store.aclose()

    assert {"a": b"1"} == found
    assert "maxmemory" in problem


async def test_a_connection_that_was_closed_while_idle_is_not_an_outage(server):
    store = open_store(Config(store=server.url))
    for _ in range(3):
        await store.keep(ME, StoredDocument("a", b"1", ("x",)))
        server.close_connections()
        found = await store.find(ME, ["a"])
        server.close_connections()
        names = await store.resolve(ME, ["x"])
        server.close_connections()

        assert ({"a": b"1"}, {"x": "a"}) == (found, names)
    await store.aclose()


async def test_a_cancelled_command_leaves_no_answer_for_other_clients(server):
    """A cancelled command whose answer stays on its connection would be the answer to the next client's command."""
    store = RedisStore(server.client(), StoreLimits())
    names = [f"{number:03d}" for number in range(40)]
    for name in names:
        await keep(store, owner_of(name.encode()), name, name.encode() * 5000, [f"of {name}"])

    async def ask(name, leave_after):
        owner = owner_of(name.encode())
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(leave_after):
                assert {name: name.encode() * 5000} == await store.find(owner, [name, "others"])
                assert {f"of {name}": name} == await store.resolve(owner, [f"of {name}", "others"])
                await keep(store, owner, name, name.encode() * 5000, [f"of {name}"])

    moments = random.Random(5)
    for _ in range(25):
        moments.shuffle(names)
        await asyncio.gather(*(ask(name, moments.choice([None, moments.uniform(0, 0.02)])) for name in names))
    await store.aclose()


async def test_writers_of_the_same_documents_leave_whole_ones_and_true_indexes(server):
    names = [f"n{number}" for number in range(6)]
    limits = StoreLimits(entries=5, size=40_000, owner_size=20_000, lifetime=60)

    async def write(writer):
        """Do what a process with connections of its own does: keep, delete, read."""
        store, choices = RedisStore(server.client(), limits), random.Random(writer)
        for number in range(150):
            owner, name = choices.choice([ME, YOU]), choices.choice(names)
            unit = f"{name} {writer} {number};".encode()
            await keep(store, owner, name, unit * choices.randrange(1, 400), [f"of {name}", f"moves {number % 3}"])
            if number % 5 == 0:
                await store.forget(owner, choices.choice(names))
            for found, value in (await store.find(owner, names)).items():
                unit = value[: value.index(b";") + 1]
                assert (found.encode(), unit * (len(value) // len(unit))) == (unit.partition(b" ")[0], value)
        await store.aclose()

    await asyncio.gather(*(write(writer) for writer in range(5)))
    store = RedisStore(server.client(), limits)
    left = {(owner, name): value for owner in (ME, YOU) for name, value in (await store.find(owner, names)).items()}
    aliases = [f"of {name}" for name in names] + [f"moves {number}" for number in range(3)]
    targets = {(owner, name) for owner in (ME, YOU) for name in (await store.resolve(owner, aliases)).values()}
    await store.aclose()
    sizes = server.numbers(f"{PREFIX}:sizes")
    counted = Counter({"all": 0})
    for (owner, _), value in left.items():
        size = len(value) + len("of n0") + len("moves 0")
        counted.update({owner: size, "all": size})

    assert 0 < len(left) <= limits.entries
    assert targets <= {*left}
    assert counted == sizes


async def test_branches_of_one_conversation_at_two_proxies_at_once_stay_apart(server):
    """Each reply is a document of its own that names the one before it: there is no record that two could append to."""

    def said(asked):
        return text_reply(" ".join(message["content"] for message in asked.body["messages"]))

    async def ask(url, text, previous):
        async with http_client(url) as client:
            body = {"model": "m", "input": text, "previous_response_id": previous, "store": True}
            reply = (await client.post("/v1/responses", json=body)).json()
        return reply["id"], reply["output"][0]["content"][0]["text"]

    async def continue_branch(urls, number, name):
        told = "root root"
        for turn in range(3):
            name, answer = await ask(urls[(number + turn) % 2], f"b{number}t{turn}", name)
            assert f"{told} b{number}t{turn}" == answer
            told = f"{answer} {answer}"

    async with (
        scripted_upstream(respond=said) as upstream,
        running_proxy(upstream.url, store=server.url) as first,
        running_proxy(upstream.url, store=server.url) as second,
    ):
        root, _ = await ask(first, "root", None)
        await asyncio.gather(*(continue_branch((first, second), number, root) for number in range(8)))
