"""Names that a client chooses, and writers and values that a proxy does not expect, at a store in a server."""

import asyncio

import pytest

from fcshim.errors import StoreError
from fcshim.server.store import StoredDocument, StoreLimits, owner_of
from fcshim.server.store.redis import PREFIX, RedisStore
from tests.server.redis_server import running_redis

pytestmark = pytest.mark.security

ME, YOU = owner_of(b"me"), owner_of(b"you")
NAMES = {
    "another owner's key": f"{YOU}:document:a",
    "the whole key": f"{PREFIX}:{YOU}:document:a",
    "a step up": f"../{YOU}/a",
    "colons": ":a:document:a",
    "an index": "entries",
    "another command": "a\r\nFLUSHALL\r\n",
    "a reply": "$1\r\nx\r\n",
    "NUL": "a\0b",
    "a pattern": "*",
    "Lua": "' .. redis.call('FLUSHALL') .. '",
    "a Lua pattern": "%d+[^:]*(.*)$",
    "half of a surrogate pair": "\ud800",
    "nothing": "",
    "a long name": "x" * 100_000,
}


@pytest.fixture(scope="module")
def redis_process(tmp_path_factory):
    with running_redis(tmp_path_factory.mktemp("redis")) as server:
        yield server


@pytest.fixture
async def server(redis_process):
    redis_process.flush()
    return redis_process


@pytest.fixture
async def store(server):
    made = RedisStore(server.client(), StoreLimits())
    yield made
    await made.aclose()


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
@pytest.mark.parametrize("role", ["name", "alias"])
async def test_a_name_reaches_the_documents_of_its_owner_only(store, server, name, role):
    await store.keep(YOU, StoredDocument("a", b"yours", ("y",)))
    mine = StoredDocument(name, b"mine", ()) if role == "name" else StoredDocument("m", b"mine", (name,))
    await store.keep(ME, mine)

    assert {mine.name: b"mine"} == await store.find(ME, [mine.name, "a" if mine.name != "a" else "b"])
    assert {} == await store.find(YOU, [name])
    assert {name: "m"} == await store.resolve(ME, [name]) if role == "alias" else {} == await store.resolve(YOU, [name])

    await store.forget(ME, name)
    await store.forget(ME, mine.name)

    assert {"a": b"yours"} == await store.find(YOU, ["a"])
    assert {"y": "a"} == await store.resolve(YOU, ["y"])
    assert ME not in " ".join(server.keys())


async def test_many_aliases_are_kept_and_deleted_with_their_document(store, server):
    await store.keep(ME, StoredDocument("a", b"1", tuple(f"alias{at}" for at in range(20_000))))
    await store.forget(ME, "a")

    assert {} == server.keys()


async def test_one_client_that_fills_its_share_drives_no_other_out(server):
    store = RedisStore(server.client(), StoreLimits(size=10_000, owner_size=2_000))
    await store.keep(YOU, StoredDocument("a", b"yours"))
    await asyncio.gather(*(store.keep(ME, StoredDocument(f"m{at}", b"x" * 100)) for at in range(300)))
    found = await store.find(YOU, ["a"])
    sizes = server.numbers(f"{PREFIX}:sizes")
    await store.aclose()

    assert {"a": b"yours"} == found
    assert sizes[ME] <= 2_000


@pytest.mark.parametrize("at_once", [2, 8])
async def test_writers_that_keep_and_forget_one_name_at_once_leave_true_sizes(server, at_once):
    stores = [RedisStore(server.client(), StoreLimits()) for _ in range(at_once)]

    async def write(store, number):
        for round_ in range(40):
            await store.keep(ME, StoredDocument("a", b"x" * (number + round_), (f"n{number}",)))
            if round_ % 3 == number % 3:
                await store.forget(ME, "a")

    await asyncio.gather(*(write(store, number) for number, store in enumerate(stores)))
    await stores[0].keep(ME, StoredDocument("a", b"last"))
    kept = StoredDocument("a", b"last").size()

    assert {"all": kept, ME: kept} == server.numbers(f"{PREFIX}:sizes")
    for store in stores:
        await store.aclose()


@pytest.mark.parametrize("kind", ["document", "alias", "used", "entries", "sizes", "expires"])
async def test_a_key_of_another_type_is_an_error_of_the_store_or_no_document(store, server, kind):
    """Who can write to the server belongs to the operator; the proxy must not end by it."""
    await store.keep(ME, StoredDocument("a", b"1", ("x",)))
    own = {"document": f"{ME}:document:a", "alias": f"{ME}:alias:x", "used": f"{ME}:used"}
    key = f"{PREFIX}:{own.get(kind, kind)}"
    server.delete(key)
    with server._admin() as client:
        client.rpush(key, "x")
    results = await asyncio.gather(
        store.find(ME, ["a"]),
        store.resolve(ME, ["x"]),
        store.keep(ME, StoredDocument("b", b"2")),
        store.forget(ME, "a"),
        return_exceptions=True,
    )

    assert all(isinstance(each, StoreError) or not isinstance(each, BaseException) for each in results)
