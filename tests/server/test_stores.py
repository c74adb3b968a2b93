"""What every store does: documents of one owner, found by names and aliases, within limits of size and life."""

import asyncio
import functools
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fcshim.server.store import MemoryStore, StoredDocument, StoreLimits, owner_of
from fcshim.server.store.redis import RedisStore
from fcshim.server.store.sqlite import SqliteStore
from tests.server.redis_server import running_redis


class Clock:
    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture(scope="module")
def redis_process(tmp_path_factory):
    with running_redis(tmp_path_factory.mktemp("redis")) as server:
        yield server


@pytest.fixture
def redis_server(redis_process):
    """An empty server."""
    redis_process.flush()
    return redis_process


@pytest.fixture(params=["memory", "sqlite", "redis"])
async def new_store(request, clock, tmp_path):
    """Make a store with these limits; each test gets one."""
    made = []
    if request.param == "redis":
        server = request.getfixturevalue("redis_server")

    def make(**limits):
        limits = StoreLimits(**limits)
        match request.param:
            case "memory":
                made.append(MemoryStore(limits, clock))
            case "sqlite":
                made.append(SqliteStore(tmp_path / "store", limits, clock))
            case "redis":
                made.append(RedisStore(server.client(), limits, clock))
        return made[-1]

    yield make
    for store in made:
        await store.aclose()


async def keep(store, owner, name, value=b"x", aliases=()):
    return await store.keep(owner, StoredDocument(name, value, tuple(aliases)))


async def names_in(store, owner, names="abcdef"):
    return "".join(await store.find(owner, list(names)))


async def test_documents_are_found_by_name_and_by_alias(new_store):
    store = new_store()
    assert await keep(store, "me", "a", b"1", ["x", "y"])
    assert await keep(store, "me", "b", b"")

    assert {"a": b"1", "b": b""} == await store.find("me", ["a", "b", "x", "nothing"])
    assert {"y": "a"} == await store.resolve("me", ["y", "a", "nothing"])
    assert {} == await store.find("me", [])
    assert {} == await store.resolve("me", [])


async def test_an_owner_finds_and_deletes_only_its_own(new_store):
    store = new_store()
    await keep(store, "me", "a", b"mine", ["x"])
    await keep(store, "you", "a", b"yours", ["x", "z"])
    await keep(store, "you", "b")

    assert {"a": b"mine"} == await store.find("me", ["a", "b"])
    assert {"x": "a"} == await store.resolve("me", ["x", "z"])
    assert not await store.forget("me", "b")
    assert await store.forget("me", "a")
    assert {"a": b"yours"} == await store.find("you", ["a"])
    assert {"x": "a"} == await store.resolve("you", ["x"])


async def test_a_later_document_of_the_same_name_replaces_the_earlier_one(new_store):
    store = new_store()
    for value in (b"", b"", b"1", b""):
        await keep(store, "me", "a", value, ["x"])
    await keep(store, "me", "a", b"2", ["y"])

    assert {"a": b"2"} == await store.find("me", ["a"])
    assert {"y": "a"} == await store.resolve("me", ["x", "y"])


async def test_deleting_a_document_deletes_its_aliases(new_store):
    store = new_store()
    await keep(store, "me", "a", b"1", ["x"])

    assert [True, False] == [await store.forget("me", "a"), await store.forget("me", "a")]
    assert ({}, {}) == (await store.find("me", ["a"]), await store.resolve("me", ["x"]))


async def test_an_alias_belongs_to_the_document_that_was_kept_last(new_store):
    store = new_store()
    await keep(store, "me", "a", b"1", ["x"])
    await keep(store, "me", "b", b"2", ["x"])
    await store.forget("me", "a")

    assert {"x": "b"} == await store.resolve("me", ["x"])


async def test_the_least_recently_used_document_makes_room(new_store, clock):
    store = new_store(entries=2)
    for name in "ab":
        await keep(store, "me", name)
        clock.now += 100
    await store.find("me", ["a"])
    clock.now += 100
    await keep(store, "you", "c")

    assert ("a", "c") == (await names_in(store, "me"), await names_in(store, "you"))


async def test_each_owner_has_a_limit_of_its_own(new_store, clock):
    store = new_store(size=1000, owner_size=12)
    await keep(store, "you", "a", b"12345678")
    for name in "abc":
        clock.now += 100
        await keep(store, "me", name, b"1234", ["x" + name])

    assert ("bc", "a") == (await names_in(store, "me"), await names_in(store, "you"))
    assert {"xb": "b"} == await store.resolve("me", ["xa", "xb"])


async def test_all_owners_together_have_a_limit(new_store, clock):
    store = new_store(size=10, owner_size=10)
    for owner in ("me", "you", "her"):
        clock.now += 100
        await keep(store, owner, "a", b"12345")

    assert ["", "a", "a"] == [await names_in(store, owner) for owner in ("me", "you", "her")]


@pytest.mark.parametrize("limits", [{"entries": 0}, {"size": 3}, {"owner_size": 3}])
async def test_a_document_beyond_the_limits_is_not_stored(limits, new_store):
    store = new_store(**limits)
    kept = await keep(store, "me", "a", b"1234")

    assert not kept
    assert "" == await names_in(store, "me")


async def test_a_document_beyond_the_limits_replaces_the_earlier_one_all_the_same(new_store):
    store = new_store(size=3)
    await keep(store, "me", "a", b"123")
    await keep(store, "me", "a", b"1234")

    assert "" == await names_in(store, "me")


@pytest.mark.parametrize("new_store", ["memory", "sqlite"], indirect=True)
async def test_documents_have_a_limited_life_however_often_they_are_used(new_store, clock):
    store = new_store(lifetime=60)
    await keep(store, "me", "a", b"1", ["x"])
    for _ in range(5):
        clock.now += 11
        assert "a" == await names_in(store, "me")
    clock.now += 11

    assert "" == await names_in(store, "me")
    await keep(store, "me", "b")
    assert {} == await store.resolve("me", ["x"])


async def test_what_has_expired_takes_no_room(new_store, clock):
    store = new_store(lifetime=60, size=10)
    await keep(store, "me", "a", b"123456")
    clock.now += 50
    await keep(store, "me", "b", b"1234")
    clock.now += 20
    await keep(store, "me", "c", b"123456")

    assert "bc" == await names_in(store, "me")


async def test_any_name_and_value_comes_back(new_store):
    store = new_store()
    names = ["", "a:b", "ä\0é", "\ud800", "x" * 5000, "*", "%_'\"", "{a}"]
    for name in names:
        await keep(store, "me", name, name.encode("utf-8", "surrogatepass") + bytes(range(256)), [f"of {name}"])

    found = await store.find("me", names)
    assert {name: name.encode("utf-8", "surrogatepass") + bytes(range(256)) for name in names} == found
    assert {f"of {name}": name for name in names} == await store.resolve("me", [f"of {name}" for name in names])


OPERATIONS = st.one_of(
    st.tuples(
        st.just("keep"),
        st.sampled_from(["me", "you"]),
        st.sampled_from("abcd"),
        st.integers(0, 40),
        st.lists(st.sampled_from("xyz"), max_size=3),
    ),
    st.tuples(st.just("find"), st.sampled_from(["me", "you"]), st.lists(st.sampled_from("abcd"), max_size=3)),
    st.tuples(st.just("forget"), st.sampled_from(["me", "you"]), st.sampled_from("abcd")),
)


async def contents(store):
    """Return all that a store has; every alias leads to a document that exists."""
    found = {}
    for owner in ("me", "you"):
        found[owner] = (await store.find(owner, list("abcd")), await store.resolve(owner, list("xyz")))
        documents, aliases = found[owner]

        assert set(aliases.values()) <= set(documents)
        assert sum(map(len, documents.values())) <= 50
    assert sum(len(documents) for documents, _ in found.values()) <= 4
    return found


async def compare(operations, new_store):
    """Run operations on a store and on one in memory, which is its model; the file notes uses by the minute."""
    clock, limits = Clock(), StoreLimits(entries=4, size=80, owner_size=50)
    stores = [MemoryStore(limits, clock), new_store(limits, clock)]
    try:
        for operation in operations:
            clock.now += 100
            expected, answer = [await operate(store, *operation) for store in stores]
            assert expected == answer
        clock.now += 100
        assert await contents(stores[0]) == await contents(stores[1])
    finally:
        await stores[1].aclose()


async def operate(store, operation, owner, *arguments):
    match operation, *arguments:
        case "keep", name, size, aliases:
            return await keep(store, owner, name, b"v" * size, dict.fromkeys(aliases))
        case "find", names:
            return await store.find(owner, names)
        case "forget", name:
            return await store.forget(owner, name)


@given(st.lists(OPERATIONS, max_size=25))
def test_a_file_agrees_with_memory(operations):
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(compare(operations, functools.partial(SqliteStore, Path(folder) / "store")))


@given(st.lists(OPERATIONS, max_size=25))
def test_a_server_agrees_with_memory(redis_process, operations):
    redis_process.flush()
    asyncio.run(compare(operations, functools.partial(RedisStore, redis_process.client())))


def test_an_owner_does_not_contain_the_key():
    assert "secret" not in owner_of(b"secret")
    assert owner_of(b"a") != owner_of(b"b")
    assert 32 == len(owner_of(b""))
