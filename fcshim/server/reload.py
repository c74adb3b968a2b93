"""Loads the settings again while the proxy runs: on SIGHUP, or when their file changes.

Rule: a request is served to its end by the settings with which it began. Settings that are wrong change nothing; the
log says why. The capabilities of an upstream are kept if its section is unchanged; unused connections are closed.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable
from pathlib import Path

import msgspec

from fcshim.config import Config
from fcshim.errors import ConfigError
from fcshim.server.app import App, create_app, run_lifespan
from fcshim.server.client_connection import Receive, Scope, Send
from fcshim.server.guard import check_exposure
from fcshim.upstream import Upstream
from fcshim.upstream.capabilities import Capabilities
from fcshim.upstream.model_report import ModelReport

logger = logging.getLogger("fcshim.server")

_NEEDS_RESTART = (
    "host", "port", "max_headers", "head_timeout", "drain_timeout", "log_level",
    "store", "store_key", "memory_entries", "memory_bytes", "memory_client_bytes", "memory_lifetime",
    "mcp", "allow", "strict_packages", "web_search", "web_search_key", "max_rounds", "max_reply", "pins",
    "inspect", "inspect_port", "inspect_bytes", "metrics", "record", "record_bytes", "log_format", "workers",
)  # fmt: skip
"""Settings of what stays: processes, the listener, stored replies, the tools that run here, what is observed."""
_MAX_RETIRED = 64
"""Earlier settings that still serve a request, some 100 KB each. Streams are minutes long, reloads are rare."""
_POLL = 1.0
"""Seconds between two checks of the file, and of whether earlier settings are still in use."""


class ReloadableApp:
    """The ASGI application of `config`, then of the latest valid settings that `load` gives. Raises `ConfigError`."""

    def __init__(self, config: Config, load: Callable[[], Config], *, inspector_port: int = 0) -> None:
        self._load = load
        self._current = create_app(config, inspector_port=inspector_port)
        self._retired: list[App] = []
        self._retired_requests = 0

    @property
    def config(self) -> Config:
        """The settings in use."""
        return self._current.config

    @property
    def capabilities(self) -> Capabilities:
        """The capabilities of the first upstream."""
        return self._current.capabilities

    async def reports(self) -> list[ModelReport]:
        """Return a report for every model. Raises `UpstreamError`."""
        return await self._current.reports()

    @property
    def request_count(self) -> int:
        """Requests so far, under all settings."""
        return self._retired_requests + self._current.request_count

    @property
    def retired_count(self) -> int:
        """How many earlier settings still serve requests."""
        return len(self._retired)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one ASGI scope with the settings of this moment."""
        if scope["type"] == "lifespan":
            await run_lifespan(receive, send, self._current.open, self._aclose)
        else:
            await self._current(scope, receive, send)

    async def _aclose(self) -> None:
        for upstream in (each for app in self._retired for each in _upstreams(app)):
            await upstream.aclose()
        await self._current.aclose()

    def stop(self) -> None:
        """End every running request, under all settings."""
        for app in (*self._retired, self._current):
            app.stop()

    def reload(self) -> bool:
        """Load the settings again; return whether they are used. Wrong ones are logged, and change nothing."""
        try:
            app = self._load_app()
        except ConfigError as error:
            logger.error("the settings stay as they are: %s", error.message)  # noqa: TRY400 - the operator's mistake
            return False
        if app is None:
            logger.info("the settings have not changed")
            return False
        self._retired_requests += self._current.request_count
        self._retired.append(self._current)
        self._current = app
        logger.info("the settings were loaded again")
        return True

    def _load_app(self) -> App | None:
        """Return the application of the new settings; None if they are the old ones. Raises `ConfigError`."""
        config = keep_what_needs_restart(self._load(), self._current.config)
        check_exposure(config)
        if config == self._current.config:
            return None
        if len(self._retired) >= _MAX_RETIRED:
            raise ConfigError(f"requests still run under {_MAX_RETIRED} earlier settings")
        return create_app(config, self._current)

    async def close_unused(self) -> None:
        """Close the upstreams of earlier settings that serve no request any more."""
        idle = [app for app in self._retired if app.is_idle]
        if not idle:
            return
        self._retired = [app for app in self._retired if not app.is_idle]
        used = {id(upstream) for app in (*self._retired, self._current) for upstream in _upstreams(app)}
        for upstream in {id(each): each for app in idle for each in _upstreams(app)}.values():
            if id(upstream) not in used:
                await upstream.aclose()

    async def run(self, watched: Path | None = None) -> None:
        """Close unused upstreams, and reload when the file `watched` changes, until cancelled."""
        file = WatchedFile(watched)
        while True:
            await asyncio.sleep(_POLL)
            await self.close_unused()
            if file.has_settled():
                self.reload()


class WatchedFile:
    """Detects changes of a file; without a file there are none."""

    def __init__(self, file: Path | None) -> None:
        self._file = file
        self._used = self._last = _fingerprint(file)

    def has_settled(self) -> bool:
        """Return whether the file has changed and then rested since the last look.

        One that still changes is half written: an empty file of settings would be valid, and have no keys.
        """
        found = _fingerprint(self._file)
        settled = found == self._last and found not in (self._used, None)
        self._last = found
        if settled:
            self._used = found
        return settled


def _upstreams(app: App) -> list[Upstream]:
    return [capabilities.upstream for _, capabilities in app.endpoints]


def _fingerprint(file: Path | None) -> tuple[int, int, int] | None:
    """Return what changes whenever the file does; None if there is none."""
    with contextlib.suppress(OSError):
        if file is not None:
            status = file.stat()
            return status.st_mtime_ns, status.st_size, status.st_ino
    return None


def keep_what_needs_restart(new: Config, old: Config) -> Config:
    """Return the new settings, but for those that only a restart can change, which are logged."""
    changed = {name: getattr(old, name) for name in _NEEDS_RESTART if getattr(old, name) != getattr(new, name)}
    if not changed:
        return new
    logger.warning("only a restart changes: %s", ", ".join(changed))
    return msgspec.structs.replace(new, **changed)
