"""Makes the store that the settings name."""

from fcshim.config import Config
from fcshim.server.store import Store, StoreLimits
from fcshim.server.store.memory import MemoryStore


def open_store(config: Config) -> Store:
    """Return the store. Raises `ConfigError`."""
    limits = StoreLimits(entries=config.memory_entries, size=config.memory_bytes, owner_size=config.memory_bytes)
    return MemoryStore(limits)
