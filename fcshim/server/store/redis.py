"""The store in a Redis or Valkey server, which any number of hosts share.

Rule: a document is written by one script, which the server runs as a whole or not at all. The keys of an owner's
documents start with the owner. Every key expires, so that documents are deleted even if every proxy is down.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from fcshim.config import StoreAddress
from fcshim.errors import StoreError
from fcshim.extras import naming_extra
from fcshim.server.store import StoredDocument, StoreLimits

with naming_extra():
    from redis.asyncio import BlockingConnectionPool, Redis, SSLConnection
    from redis.asyncio.connection import Connection
    from redis.asyncio.retry import Retry
    from redis.backoff import NoBackoff
    from redis.exceptions import AuthenticationError, RedisError

_TIMEOUT = 1.5
"""Seconds for connecting and for an answer: below the limit for the whole operation."""
_MAX_CONNECTIONS = 32
"""Connections of one process; an operation takes less than a millisecond of one."""
_HINT = "; expected the server's password in store_key (FCSHIM_STORE_KEY), and its user, if any, in the address"
PREFIX = "fcshim:1"
"""Before all keys; the number is the form of what they hold."""

_REMOVE = """
local all, owner, name = ARGV[1], ARGV[2], ARGV[3]

local function remove(entry)
    local owned, of_entry = entry:match('^([^:]*):(.*)$')
    local below = all .. ':' .. owned
    local known = redis.call('HGET', all .. ':entries', entry)
    local size, aliases = 0, {}
    if known then size, aliases = unpack(cmsgpack.unpack(known)) end
    for _, alias in ipairs(aliases) do
        local key = below .. ':alias:' .. alias
        if redis.call('GET', key) == of_entry then redis.call('DEL', key) end
    end
    redis.call('HDEL', all .. ':entries', entry)
    redis.call('ZREM', all .. ':used', entry)
    redis.call('ZREM', all .. ':expires', entry)
    redis.call('ZREM', below .. ':used', entry)
    if known then
        redis.call('HINCRBY', all .. ':sizes', 'all', 0 - size) -- the text of -0 is not an integer
        redis.call('HINCRBY', all .. ':sizes', owned, 0 - size)
    end
    if redis.call('EXISTS', below .. ':used') == 0 then redis.call('HDEL', all .. ':sizes', owned) end
    if redis.call('EXISTS', all .. ':used') == 0 then redis.call('HDEL', all .. ':sizes', 'all') end
    return redis.call('DEL', below .. ':document:' .. of_entry)
end
"""
"""`entries` maps each entry (owner and name) to its size and aliases; `used` and `expires` order them by time."""

_KEEP = """
local value, size, now, lifetime = ARGV[4], tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7])
local max_entries, max_size, max_owned = tonumber(ARGV[8]), tonumber(ARGV[9]), tonumber(ARGV[10])
local below, entry = all .. ':' .. owner, owner .. ':' .. name

local function size_of(who) return tonumber(redis.call('HGET', all .. ':sizes', who) or 0) end

local function remove_oldest(used, who)
    local oldest = redis.call('ZRANGE', used, 0, 0)[1]
    if oldest then remove(oldest) else redis.call('HDEL', all .. ':sizes', who) end
end

local count = redis.call('ZCARD', all .. ':used')
local is_whole = count == redis.call('ZCARD', all .. ':expires') and count == redis.call('HLEN', all .. ':entries')
    and (count > 0) == (redis.call('HEXISTS', all .. ':sizes', 'all') == 1)
local is_admitted = size <= math.min(max_size, max_owned) and max_entries > 0
if is_admitted then redis.call('HINCRBY', all .. ':sizes', 'all', 0) end
if not is_whole then redis.call('DEL', all .. ':used', all .. ':expires', all .. ':entries', all .. ':sizes') end
remove(entry)
if not is_admitted then return end
local aliases = {}
for i = 11, #ARGV do
    aliases[#aliases + 1] = ARGV[i]
    redis.call('SET', below .. ':alias:' .. ARGV[i], name, 'PX', lifetime)
end
redis.call('SET', below .. ':document:' .. name, value, 'PX', lifetime)
redis.call('HSET', all .. ':entries', entry, cmsgpack.pack({size, aliases}))
redis.call('ZADD', all .. ':used', now, entry)
redis.call('ZADD', below .. ':used', now, entry)
redis.call('ZADD', all .. ':expires', now + lifetime, entry)
redis.call('HINCRBY', all .. ':sizes', 'all', size)
redis.call('HINCRBY', all .. ':sizes', owner, size)
for _, expired in ipairs(redis.call('ZRANGEBYSCORE', all .. ':expires', '-inf', now, 'LIMIT', 0, 100)) do
    remove(expired)
end
while size_of(owner) > max_owned do remove_oldest(below .. ':used', owner) end
while size_of('all') > max_size or redis.call('ZCARD', all .. ':used') > max_entries do
    remove_oldest(all .. ':used', 'all')
end
for _, index in ipairs({all .. ':entries', all .. ':used', all .. ':expires', all .. ':sizes', below .. ':used'}) do
    redis.call('PEXPIRE', index, lifetime)
end
"""
"""Keeps a document. A full server refuses the first command that takes memory only where nothing was written before; so
one that changes nothing comes first. Where the server has evicted an index, all indexes begin anew: what they knew
expires by itself."""

_FORGET = "return remove(owner .. ':' .. name)"


def connect(address: StoreAddress, password: str) -> Redis:
    """Return a client for a server; it connects when it is used."""
    pool = BlockingConnectionPool(
        max_connections=_MAX_CONNECTIONS,
        timeout=_TIMEOUT,
        connection_class=SSLConnection if address.tls else Connection,
        host=address.host,
        port=address.port,
        db=address.database,
        username=address.user or None,
        password=password or None,
        socket_timeout=_TIMEOUT,
        socket_connect_timeout=_TIMEOUT,
        retry=Retry(NoBackoff(), 1),  # an idle connection may have been closed, which is not an outage
        protocol=2,
    )
    return Redis(connection_pool=pool)


class RedisStore:
    """Documents in the server that `client` reaches; `clock` returns the Unix time, which all processes share."""

    def __init__(self, client: Redis, limits: StoreLimits, clock: Callable[[], float] = time.time) -> None:
        self._client = client
        self._limits = limits
        self._clock = clock
        self._keep_script = client.register_script(_REMOVE + _KEEP)
        self._forget_script = client.register_script(_REMOVE + _FORGET)

    async def keep(self, owner: str, document: StoredDocument) -> bool:
        """Store a document; return whether the limits admit it. Raises `StoreError`."""
        limits = self._limits
        is_admitted = limits.admits(document)
        value = document.value if is_admitted else b""
        numbers = (document.size(), self._now(), max(1, int(limits.lifetime * 1000)))
        bounds = (limits.entries, limits.size, limits.owner_size)
        aliases = map(_encode, document.aliases)
        with _store_errors():
            await self._keep_script(args=[PREFIX, owner, _encode(document.name), value, *numbers, *bounds, *aliases])
        return is_admitted

    async def find(self, owner: str, names: Sequence[str]) -> dict[str, bytes]:
        """Return the documents of these names, as far as they exist, and mark them as used. Raises `StoreError`."""
        if not names:
            return {}
        entries = {owner.encode() + b":" + _encode(name): self._now() for name in names}
        with _store_errors():
            async with self._client.pipeline(transaction=False) as pipeline:
                pipeline.mget([_key(owner, "document", name) for name in names])
                pipeline.zadd(f"{PREFIX}:used", entries, xx=True)
                pipeline.zadd(f"{PREFIX}:{owner}:used", entries, xx=True)
                values, *_ = await pipeline.execute(raise_on_error=False)  # a full server can still be read
            if isinstance(values, Exception):
                raise values
        return {name: value for name, value in zip(names, values, strict=True) if value is not None}

    async def resolve(self, owner: str, aliases: Sequence[str]) -> dict[str, str]:
        """Return the names of the documents that have these aliases, as far as they exist. Raises `StoreError`."""
        if not aliases:
            return {}
        with _store_errors():
            names = await self._client.mget([_key(owner, "alias", alias) for alias in aliases])
        return {alias: _decode(name) for alias, name in zip(aliases, names, strict=True) if name is not None}

    async def forget(self, owner: str, name: str) -> bool:
        """Delete a document and its aliases; return whether it existed. Raises `StoreError`."""
        with _store_errors():
            return bool(await self._forget_script(args=[PREFIX, owner, _encode(name)]))

    async def aclose(self) -> None:
        """Close the connections."""
        with _store_errors():
            await self._client.connection_pool.disconnect()

    def _now(self) -> int:
        return int(self._clock() * 1000)


@contextmanager
def _store_errors() -> Iterator[None]:
    try:
        yield
    except (RedisError, OSError) as error:
        reason = str(error) or type(error).__name__
        # Before a password is sent, the server takes no long command, and says so in other words.
        if isinstance(error, AuthenticationError) or "unauthenticated" in reason:
            reason += _HINT
        raise StoreError(reason) from error


def _key(owner: str, kind: str, name: str) -> bytes:
    return f"{PREFIX}:{owner}:{kind}:".encode() + _encode(name)


def _encode(text: str) -> bytes:
    """Return a name as bytes; JSON allows lone surrogates."""
    return text.encode("utf-8", "surrogatepass")


def _decode(data: bytes | str) -> str:
    return data.decode("utf-8", "surrogatepass") if isinstance(data, bytes) else data
