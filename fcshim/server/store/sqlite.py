"""The store in an SQLite file, which survives a restart, and which several processes of one host share.

Rule: a document is written in one transaction of the write-ahead log, so that a killed process leaves nothing half
written. All work happens in a thread, with one connection for each process. The file belongs to one user (0600), and
its `application_id` and `user_version` identify it as fcshim's, and its format.
"""

import contextlib
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

from anyio import CapacityLimiter, to_thread

from fcshim.errors import ConfigError, StoreError
from fcshim.events import JSON
from fcshim.server.store import StoredDocument, StoreLimits
from fcshim.upstream import os_error_reason

_APPLICATION_ID = 0x66637368
"""`fcsh`; SQLite keeps it in the header of the file for programs to recognise theirs."""
_VERSION = 1
_START = b"SQLite format 3\0"
_BUSY_TIMEOUT = 1.0
"""Seconds to wait for another process, or another thread of this one, that writes."""
_MAX_CHECKED = 64 * 2**20
"""Bytes of a file that is checked for damage at the start, which reads all of it: 64 MB take a third of a second."""
_EXPIRED_AT_ONCE = 100
"""Expired documents that one write deletes, so that none takes long; more than it adds, so that they do not pile up."""
_UNUSED = 60.0
"""Seconds after which a document that is read is marked as used again, so that most reads write nothing."""
_BATCH = 500
"""Names in one statement; SQLite allowed 999 parameters until 3.32."""

_SCHEMA = """
CREATE TABLE documents (
    id INTEGER PRIMARY KEY,
    owner TEXT NOT NULL,
    name BLOB NOT NULL,
    size INTEGER NOT NULL,
    used_at REAL NOT NULL,
    expires_at REAL NOT NULL,
    UNIQUE (owner, name)
);
CREATE INDEX documents_by_use ON documents (used_at);
CREATE INDEX documents_of_owner_by_use ON documents (owner, used_at);
CREATE INDEX documents_by_expiry ON documents (expires_at);
CREATE TABLE contents (
    document INTEGER PRIMARY KEY REFERENCES documents ON DELETE CASCADE,
    value BLOB NOT NULL
);
CREATE TABLE aliases (
    owner TEXT NOT NULL,
    alias BLOB NOT NULL,
    document INTEGER NOT NULL REFERENCES documents ON DELETE CASCADE,
    PRIMARY KEY (owner, alias)
) WITHOUT ROWID;
CREATE INDEX aliases_by_document ON aliases (document);
CREATE TABLE totals (owner TEXT PRIMARY KEY, entries INTEGER NOT NULL, size INTEGER NOT NULL) WITHOUT ROWID;
INSERT INTO totals VALUES ('', 0, 0);
CREATE TRIGGER document_added AFTER INSERT ON documents BEGIN
    INSERT OR IGNORE INTO totals VALUES (new.owner, 0, 0);
    UPDATE totals SET entries = entries + 1, size = size + new.size WHERE owner IN ('', new.owner);
END;
CREATE TRIGGER document_deleted AFTER DELETE ON documents BEGIN
    UPDATE totals SET entries = entries - 1, size = size - old.size WHERE owner IN ('', old.owner);
    DELETE FROM totals WHERE owner = old.owner AND entries = 0;
END;
"""
"""Contents have a table of their own, so that marking a document as used does not write it again. The owner '' of the
totals stands for all."""

_Answer = TypeVar("_Answer")


class SqliteStore:
    """Documents in the file at `path`; `clock` returns the Unix time, which all processes share."""

    def __init__(self, path: Path, limits: StoreLimits, clock: Callable[[], float] = time.time) -> None:
        self._path = path
        self._limits = limits
        self._clock = clock
        self._limiter = CapacityLimiter(1)
        self._lock = threading.Lock()  # an operation whose caller has gone may still run
        self._connection: sqlite3.Connection | None = None

    async def keep(self, owner: str, document: StoredDocument) -> bool:
        """Store a document; return whether the limits admit it. Raises `StoreError`."""
        return await self._run(lambda connection: self._keep(connection, owner, document))

    async def find(self, owner: str, names: Sequence[str]) -> dict[str, bytes]:
        """Return the documents of these names, as far as they exist, and mark them as used. Raises `StoreError`."""
        return await self._run(lambda connection: self._find(connection, owner, names))

    async def resolve(self, owner: str, aliases: Sequence[str]) -> dict[str, str]:
        """Return the names of the documents that have these aliases, as far as they exist. Raises `StoreError`."""
        return await self._run(lambda connection: _resolve(connection, owner, aliases))

    async def forget(self, owner: str, name: str) -> bool:
        """Delete a document and its aliases; return whether it existed. Raises `StoreError`."""
        return await self._run(lambda connection: _delete(connection, owner, name))

    async def aclose(self) -> None:
        """Close the file."""
        await to_thread.run_sync(self._close, abandon_on_cancel=True)

    async def _run(self, operate: Callable[[sqlite3.Connection], _Answer]) -> _Answer:
        """Run an operation in the thread. It runs to its end also where the caller is cancelled."""
        return await to_thread.run_sync(self._operate, operate, limiter=self._limiter, abandon_on_cancel=True)

    def _operate(self, operate: Callable[[sqlite3.Connection], _Answer]) -> _Answer:
        if not self._lock.acquire(timeout=_BUSY_TIMEOUT):
            raise StoreError("an earlier operation on the file still runs")
        try:
            if self._connection is None:
                self._connection = open_file(self._path)
            return operate(self._connection)
        except (sqlite3.Error, ConfigError, OSError) as error:
            self._disconnect()
            raise StoreError(str(error)) from error
        finally:
            self._lock.release()

    def _close(self) -> None:
        if self._lock.acquire(timeout=_BUSY_TIMEOUT):
            self._disconnect()
            self._lock.release()

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(sqlite3.Error):
                connection.close()

    def _keep(self, connection: sqlite3.Connection, owner: str, document: StoredDocument) -> bool:
        now = self._clock()
        with _transaction(connection):
            _delete(connection, owner, document.name)
            if not self._limits.admits(document):
                return False
            _insert(connection, owner, document, used_at=now, expires_at=now + self._limits.lifetime)
            connection.execute(
                "DELETE FROM documents WHERE id IN (SELECT id FROM documents WHERE expires_at <= ? LIMIT ?)",
                (now, _EXPIRED_AT_ONCE),
            )
            self._make_room(connection, owner)
        return True

    def _make_room(self, connection: sqlite3.Connection, owner: str) -> None:
        """Delete the documents that were not used for the longest time, until the limits hold."""
        oldest = "DELETE FROM documents WHERE id = (SELECT id FROM documents{} ORDER BY used_at, id LIMIT 1)"
        while _totals(connection, owner)[1] > self._limits.owner_size:
            connection.execute(oldest.format(" WHERE owner = ?"), (owner,))
        while (totals := _totals(connection, ""))[1] > self._limits.size or totals[0] > self._limits.entries:
            connection.execute(oldest.format(""))

    def _find(self, connection: sqlite3.Connection, owner: str, names: Sequence[str]) -> dict[str, bytes]:
        now = self._clock()
        query = (
            "SELECT id, name, value, used_at FROM documents JOIN contents ON document = id "
            "WHERE owner = ? AND name IN ({}) AND expires_at > ?"
        )
        rows = [row for batch in _batches(names) for row in _select(connection, query, owner, batch, now)]
        unused = [(now, number) for number, _, _, used_at in rows if now - used_at >= _UNUSED]
        if unused:
            # If others write for too long, only the order of eviction is less exact.
            with contextlib.suppress(sqlite3.OperationalError), _transaction(connection):
                connection.executemany("UPDATE documents SET used_at = ? WHERE id = ?", unused)
        found = {name: value for _, name, value, _ in rows}
        return {name: found[key] for name in names if (key := _encode(name)) in found}


def open_file(path: Path) -> sqlite3.Connection:
    """Open the file, which is made where it does not exist. Raises `ConfigError` for a file of another program."""
    try:
        _check_start(path)
        connection = sqlite3.connect(path, timeout=_BUSY_TIMEOUT, isolation_level=None, check_same_thread=False)
    except OSError as error:
        raise ConfigError(f"store: cannot open {path}: {os_error_reason(error)}") from error
    except sqlite3.Error as error:
        raise ConfigError(f"store: cannot open {path}: {error}") from error
    try:
        _prepare(connection, path)
        if path.stat().st_mode & 0o077:
            path.chmod(0o600)
    except (sqlite3.Error, OSError) as error:
        connection.close()
        raise ConfigError(f"store: {path} cannot be used: {error}; expected a file of fcshim, or none") from error
    except ConfigError:
        connection.close()
        raise
    return connection


def _check_start(path: Path) -> None:
    """Make a file that does not exist. Raises `ConfigError` for one of another kind, which SQLite may overwrite."""
    with os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT, 0o600), "rb") as file:
        start = file.read(len(_START))
    if start not in (b"", _START):
        raise ConfigError(f"store: {path} is not a database; expected a file of fcshim, or none")


def check_file(path: Path) -> None:
    """Raise `ConfigError` if the file cannot be the store, or is damaged."""
    with contextlib.closing(open_file(path)) as connection:
        if path.stat().st_size > _MAX_CHECKED:
            return
        try:
            problem = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
        except sqlite3.Error as error:
            problem = str(error)
    if problem != "ok":
        raise ConfigError(f"store: {path} is damaged ({problem:.200}); move it away to begin with an empty one")


def _prepare(connection: sqlite3.Connection, path: Path) -> None:
    """Make the tables in a new file. Raises `ConfigError` for one of another program or a later version."""
    connection.execute("PRAGMA foreign_keys = ON")
    connection.execute("PRAGMA secure_delete = ON")  # overwrites deleted documents in the file, too
    connection.execute("PRAGMA synchronous = NORMAL")  # a crash of the machine may cost the last writes, never the file
    if _is_new(connection, path):
        _use_write_ahead_log(connection, path)
        with _transaction(connection):
            if _is_new(connection, path):  # else another process was faster
                for statement in _statements(_SCHEMA):
                    connection.execute(statement)
                connection.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
                connection.execute(f"PRAGMA user_version = {_VERSION}")


def _is_new(connection: sqlite3.Connection, path: Path) -> bool:
    """Return whether the file is empty. Raises `ConfigError` if it is not ours."""
    application_id, version = (
        connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version")
    )
    if application_id == _APPLICATION_ID and version == _VERSION:
        return False
    if application_id == _APPLICATION_ID:
        raise ConfigError(f"store: {path} has the form {version}; expected {_VERSION}, of this release of fcshim")
    if application_id or version or connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
        raise ConfigError(f"store: {path} is a database of another program; expected a file of fcshim, or none")
    return True


def _statements(script: str) -> Iterator[str]:
    """Split a script, because `executescript` would end the transaction."""
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""


def _use_write_ahead_log(connection: sqlite3.Connection, path: Path) -> None:
    """Turn the log on, once for the life of the file; SQLite does not wait by itself where two processes do it."""
    give_up_at = time.monotonic() + _BUSY_TIMEOUT
    while True:
        try:
            mode = connection.execute("PRAGMA journal_mode = WAL").fetchone()[0]
        except sqlite3.OperationalError:
            if time.monotonic() > give_up_at:
                raise
            time.sleep(0.02)
            continue
        if mode != "wal":
            raise ConfigError(f"store: {path}: expected a local disk, which a write-ahead log needs")
        return


@contextlib.contextmanager
def _transaction(connection: sqlite3.Connection) -> Iterator[None]:
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:  # a full disk may have ended it
            connection.execute("ROLLBACK")
        raise


def _insert(
    connection: sqlite3.Connection, owner: str, document: StoredDocument, *, used_at: float, expires_at: float
) -> None:
    added = connection.execute(
        "INSERT INTO documents (owner, name, size, used_at, expires_at) VALUES (?, ?, ?, ?, ?)",
        (owner, _encode(document.name), document.size(), used_at, expires_at),
    )
    number = added.lastrowid
    connection.execute("INSERT INTO contents VALUES (?, ?)", (number, document.value))
    rows = [(owner, _encode(alias), number) for alias in document.aliases]
    connection.executemany("INSERT OR REPLACE INTO aliases VALUES (?, ?, ?)", rows)


def _delete(connection: sqlite3.Connection, owner: str, name: str) -> bool:
    deleted = connection.execute("DELETE FROM documents WHERE owner = ? AND name = ?", (owner, _encode(name)))
    return deleted.rowcount > 0


def _resolve(connection: sqlite3.Connection, owner: str, aliases: Sequence[str]) -> dict[str, str]:
    query = "SELECT alias, name FROM aliases JOIN documents ON document = id WHERE aliases.owner = ? AND alias IN ({})"
    found = {alias: name for batch in _batches(aliases) for alias, name in _select(connection, query, owner, batch)}
    return {alias: _decode(found[key]) for alias in aliases if (key := _encode(alias)) in found}


def _totals(connection: sqlite3.Connection, owner: str) -> tuple[int, int]:
    """Return how many documents an owner has, and their size."""
    row: tuple[int, int] = connection.execute("SELECT entries, size FROM totals WHERE owner = ?", (owner,)).fetchone()
    return row


def _select(
    connection: sqlite3.Connection, query: str, owner: str, keys: Sequence[str], *others: float
) -> list[tuple[JSON, ...]]:
    marks = ", ".join("?" * len(keys))
    return connection.execute(query.format(marks), (owner, *map(_encode, keys), *others)).fetchall()


def _batches(keys: Sequence[str]) -> Iterator[Sequence[str]]:
    return (keys[at : at + _BATCH] for at in range(0, len(keys), _BATCH))


def _encode(text: str) -> bytes:
    """Return a name as bytes; JSON allows lone surrogates."""
    return text.encode("utf-8", "surrogatepass")


def _decode(data: bytes) -> str:
    return data.decode("utf-8", "surrogatepass")
