"""The file of the SQLite store: whose it is, what it is, and what is left of a deleted document."""

import asyncio
import logging
import os
import sqlite3
import stat

import pytest

from fcshim.config import Config
from fcshim.errors import ConfigError, StoreError
from fcshim.server.store import StoredDocument, StoreLimits
from fcshim.server.store.open import open_store
from fcshim.server.store.outage import OutageGuard
from fcshim.server.store.sqlite import SqliteStore, open_file
from tests.scripted import scripted_upstream, text_reply
from tests.server.proxy import http_client, running_proxy

PATH = "/v1/responses"


def document(name="a", value=b"x", *aliases):
    return StoredDocument(name, value, aliases)


def opened(path):
    return open_store(Config(store=f"sqlite:{path}"))


async def used(path):
    """Return the path of a file in which a document is stored."""
    store = SqliteStore(path, StoreLimits())
    await store.keep("me", document("a", b"value" * 1000))
    await store.aclose()
    return path


async def test_the_file_and_its_log_belong_to_one_user(tmp_path):
    earlier = os.umask(0)
    try:
        store = SqliteStore(tmp_path / "state", StoreLimits())
        await store.keep("me", document())
        modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in tmp_path.iterdir()}
        await store.aclose()
    finally:
        os.umask(earlier)

    assert {"state": 0o600, "state-wal": 0o600, "state-shm": 0o600} == modes


async def test_a_file_that_others_can_read_is_closed_to_them(tmp_path):
    file = await used(tmp_path / "state")
    file.chmod(0o644)
    opened(file)

    assert 0o600 == stat.S_IMODE(file.stat().st_mode)


async def test_a_database_of_another_program_stays_as_it_is(tmp_path):
    file = tmp_path / "theirs"
    with sqlite3.connect(file) as connection:
        connection.execute("CREATE TABLE theirs (a)")
    connection.close()
    file.chmod(0o644)
    before = file.read_bytes()
    with pytest.raises(
        ConfigError, match=r"theirs is a database of another program; expected a file of fcshim, or none"
    ):
        opened(file)

    assert before == file.read_bytes()
    assert 0o644 == stat.S_IMODE(file.stat().st_mode)
    assert [file] == list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("statement", "message"),
    [("PRAGMA user_version = 2", "form 2; expected 1"), ("PRAGMA application_id = 7", "of another program")],
)
async def test_a_file_of_another_form_is_refused(statement, message, tmp_path):
    file = await used(tmp_path / "state")
    with sqlite3.connect(file) as connection:
        connection.execute(statement)
    connection.close()
    with pytest.raises(ConfigError, match=message):
        opened(file)


@pytest.mark.parametrize("content", [b"not a database" * 100, b"x", b"SQLite format 3\0" + b"\xff" * 5000])
def test_a_file_that_is_not_a_database_is_refused_and_kept(content, tmp_path):
    file = tmp_path / "state"
    file.write_bytes(content)
    with pytest.raises(
        ConfigError, match=r"state (is not a database|cannot be used: .*); expected a file of fcshim, or none"
    ):
        opened(file)

    assert content == file.read_bytes()


async def test_a_damaged_file_is_refused(tmp_path):
    file = await used(tmp_path / "state")
    data = bytearray(file.read_bytes())
    data[4096:] = b"\xa5" * (len(data) - 4096)
    file.write_bytes(data)
    with pytest.raises(ConfigError, match="state"):
        opened(file)


def test_a_path_that_cannot_be_opened_is_reported(tmp_path):
    with pytest.raises(ConfigError, match=r"cannot open .*nowhere/state: No such file or directory"):
        opened(tmp_path / "nowhere" / "state")
    with pytest.raises(ConfigError, match=r"cannot open .*: Is a directory"):
        opened(tmp_path)


def test_a_new_file_is_empty_and_a_special_name_is_a_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    opened(":memory:")

    assert (tmp_path / ":memory:").stat().st_size > 0


async def test_deleted_documents_are_removed_from_the_file(tmp_path):
    file = tmp_path / "state"
    store = SqliteStore(file, StoreLimits())
    await store.keep("me", document("a", b"very secret text" * 1000))
    await store.keep("me", document("b", b"other"))
    await store.forget("me", "a")
    await store.aclose()

    assert b"very secret" not in file.read_bytes()


async def test_damage_while_it_runs_is_an_outage_and_a_new_file_ends_it(tmp_path, caplog):
    file = tmp_path / "state"
    store = OutageGuard(SqliteStore(file, StoreLimits()), "the file", pause=0.0)
    await store.keep("me", document("a", b"1"))
    store._store._disconnect()
    file.write_bytes(b"damaged" * 2000)
    (tmp_path / "state-wal").unlink(missing_ok=True)
    for _ in range(3):
        with pytest.raises(StoreError, match="is unavailable"):
            await store.find("me", ["a"])
    file.unlink()
    found = await store.find("me", ["a"])
    await store.aclose()

    assert {} == found
    assert 2 == len(caplog.records)
    assert "is unavailable" in caplog.text
    assert "is back" in caplog.text


async def test_a_writer_that_holds_the_file_delays_no_reader(tmp_path):
    file = await used(tmp_path / "state")
    store = SqliteStore(file, StoreLimits())
    other = sqlite3.connect(file, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    found = await store.find("me", ["a"])
    with pytest.raises(StoreError, match="locked"):
        await store.keep("me", document("b"))
    other.execute("ROLLBACK")
    other.close()
    await store.keep("me", document("b"))
    await store.aclose()

    assert {"a"} == found.keys()


async def test_the_event_loop_goes_on_while_the_file_is_locked(tmp_path):
    file = await used(tmp_path / "state")
    store = SqliteStore(file, StoreLimits())
    other = sqlite3.connect(file, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    writing = asyncio.create_task(store.keep("me", document("b")))
    for _ in range(100):
        await asyncio.sleep(0)
    waits = not writing.done()
    other.execute("ROLLBACK")
    other.close()
    await writing
    await store.aclose()

    assert waits


async def test_a_full_file_can_be_read_and_its_outage_is_logged_once(tmp_path, caplog):
    file = await used(tmp_path / "state")
    store = SqliteStore(file, StoreLimits())
    guard = OutageGuard(store, "the file", pause=0.0)
    await guard.find("me", ["a"])
    pages = store._connection.execute("PRAGMA page_count").fetchone()[0]
    store._connection.execute(f"PRAGMA max_page_count = {pages}")
    for _ in range(3):
        with pytest.raises(StoreError):
            await guard.keep("me", document("b", b"x" * 100_000))
        store._connection = open_file(file)
        store._connection.execute(f"PRAGMA max_page_count = {pages}")
        found = await guard.find("me", ["a", "b"])
    store._disconnect()
    await guard.keep("me", document("b", b"x" * 100_000))
    await guard.aclose()

    assert {"a": b"value" * 1000} == found
    assert ["full", "back"] == [record.getMessage().split()[-1] for record in caplog.records]


async def test_a_conversation_goes_on_after_a_restart_and_in_another_process(tmp_path, caplog):
    settings = {"store": f"sqlite:{tmp_path / 'state'}"}
    item = {"type": "message", "role": "user", "id": "msg_mine", "content": "I am Ada"}
    caplog.set_level(logging.INFO)
    async with scripted_upstream(*map(text_reply, ("Hello Ada", "Still Ada", "Yes"))) as upstream:
        async with running_proxy(upstream.url, **settings) as url, http_client(url) as client:
            first = (await client.post(PATH, json={"model": "m", "input": [item]})).json()
        async with (
            running_proxy(upstream.url, **settings) as url,
            http_client(url) as client,
            running_proxy(upstream.url, **settings) as other_url,
            http_client(other_url) as other,
        ):
            body = {"model": "m", "input": "Who?", "previous_response_id": first["id"], "stream": True}
            second = await client.post(PATH, json=body)
            (created, *_) = [line for line in second.text.splitlines() if line.startswith("data: ")]
            name = created.partition('"id":"')[2].partition('"')[0]
            body = {"model": "m", "input": [{"type": "item_reference", "id": "msg_mine"}], "previous_response_id": name}
            third = await other.post(PATH, json=body)
            deleted = await other.delete(f"{PATH}/{first['id']}")
            gone = await client.get(f"{PATH}/{first['id']}")

    assert [200, 200, 404] == [third.status_code, deleted.status_code, gone.status_code]
    texts = [message["content"] for message in upstream.requests[-1].body["messages"]]
    assert ["I am Ada", "Hello Ada", "Who?", "Still Ada", "I am Ada"] == texts
