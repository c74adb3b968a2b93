"""Makes the store that the settings name.

Rule: a file that cannot be used ends the start with an error; a server that is unavailable does not, since most
requests need no store.
"""

from pathlib import Path

from fcshim.config import Config, StoreAddress, parse_store_address
from fcshim.server.store import MemoryStore, Store, StoreLimits
from fcshim.server.store.outage import OutageGuard


def open_store(config: Config) -> Store:
    """Return the store. Raises `ConfigError`."""
    limits = StoreLimits(
        entries=config.memory_entries,
        size=config.memory_bytes,
        owner_size=config.memory_client_bytes,
        lifetime=config.memory_lifetime,
    )
    address = parse_store_address(config.store)
    match address.kind:
        case "memory":
            return MemoryStore(limits)
        case "sqlite":
            return OutageGuard(_open_file(address, limits), f"the store {config.store}")
        case "redis":
            return OutageGuard(_connect(address, config, limits), f"the store {config.store}")


def _open_file(address: StoreAddress, limits: StoreLimits) -> Store:
    from fcshim.server.store.sqlite import SqliteStore, check_file  # noqa: PLC0415 - only where it is used

    path = Path(address.path).expanduser().absolute()
    check_file(path)
    return SqliteStore(path, limits)


def _connect(address: StoreAddress, config: Config, limits: StoreLimits) -> Store:
    from fcshim.server.store.redis import RedisStore, connect  # noqa: PLC0415 - needs an extra

    return RedisStore(connect(address, config.store_key.reveal() if config.store_key else ""), limits)
