"""Runs the proxy on a socket: uvicorn with uvloop and httptools, and signal handling.

Rule: the first SIGTERM or SIGINT rejects new requests and lets running ones finish. A second signal, or the end of
`drain_timeout`, ends them.
"""

import asyncio
import contextlib
import logging
import signal
import socket
import sys
from collections.abc import Callable, Coroutine, Generator
from pathlib import Path

import uvicorn

from fcshim.config import Config
from fcshim.errors import ConfigError
from fcshim.server.app import App, create_app
from fcshim.server.banner import own_url, show_banner
from fcshim.server.guard import check_exposure
from fcshim.server.memory_trim import MemoryTrimmer, freeze_start, trim_memory
from fcshim.server.protocol import limited_protocol, process_budget
from fcshim.server.reload import ReloadableApp
from fcshim.server.request_log import configure_request_log
from fcshim.upstream import os_error_reason

logger = logging.getLogger("fcshim.server")

_SWITCH_INTERVAL = 0.001
"""Seconds for which a thread that prepares a large request may keep the event loop waiting."""
_GRACE_PERIOD = 1.0
"""Seconds for streams to send their error event before their connections are cut."""


class ProxyServer(uvicorn.Server):
    """A uvicorn server that drains running requests before it exits."""

    def __init__(self, config: Config, app: App | ReloadableApp) -> None:
        self.app = app
        self._drain_timeout = config.drain_timeout
        self._trimmer = MemoryTrimmer(trim_memory)
        super().__init__(
            uvicorn.Config(
                app,
                http=limited_protocol(config, process_budget()),
                ws="none",
                lifespan="on",
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,
            )
        )

    def request_exit(self) -> None:
        """Exit when the running requests have finished; a second call ends them."""
        if self.should_exit:
            self._end_streams()
        self.should_exit = True

    async def on_tick(self, counter: int) -> bool:
        """Return memory after a load; uvicorn calls this ten times a second."""
        if counter % 10 == 0:
            self._trimmer.check(total=self.app.request_count, running=len(self.server_state.tasks))
        return await super().on_tick(counter)

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None]:
        """Do not install uvicorn's signal handlers, which re-raise the signal on exit; `serve` installs its own."""
        yield

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Close the listeners, then wait up to `drain_timeout` seconds for running requests."""
        drain_timer = asyncio.get_running_loop().call_later(self._drain_timeout, self._end_streams)
        try:
            await super().shutdown(sockets)
        finally:
            drain_timer.cancel()

    def _end_streams(self) -> None:
        self.app.stop()
        asyncio.get_running_loop().call_later(_GRACE_PERIOD, self._force_exit)

    def _force_exit(self) -> None:
        self.force_exit = True


def serve(config: Config, load: Callable[[], Config] | None = None, *, watched: Path | None = None) -> None:
    """Serve until a signal ends the process. Raises `ConfigError` if the address cannot be bound.

    With `load`, SIGHUP loads the settings again, and so does a change of the file `watched`.
    """
    configure_request_log(config.log_level.upper(), config.log_format)
    silence_library_logs()
    sys.setswitchinterval(_SWITCH_INTERVAL)
    with listen(config) as listener:
        app = create_app(config) if load is None else ReloadableApp(config, load)
        server = ProxyServer(config, app)
        with asyncio.Runner(loop_factory=server.config.get_loop_factory()) as runner:
            reloading = _reload_on_signal(app, server, watched) if isinstance(app, ReloadableApp) else None
            runner.run(_serve(server, listener, config, reloading))


def listen(config: Config) -> socket.socket:
    """Bind the configured address. Raises `ConfigError`, also for one that others can reach without a key."""
    check_exposure(config)
    family = socket.AF_INET6 if ":" in config.host else socket.AF_INET
    try:
        listener = socket.create_server((config.host, config.port), family=family, backlog=2048)
    except OSError as error:
        raise ConfigError(f"cannot listen on {config.host} port {config.port}: {os_error_reason(error)}") from error
    # Accepted sockets inherit this. uvloop sets it by itself; asyncio's own loop (Windows) does not where the protocol
    # number is 0, as here, and Nagle's algorithm then delays each reply on a kept connection by 40 ms.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


def silence_library_logs() -> None:
    """Keep routine messages of the libraries out of the log."""
    for name in ("httpx", "uvicorn.error", "uvicorn.access"):
        logging.getLogger(name).setLevel(logging.WARNING)
    logging.getLogger("uvicorn.error").addFilter(_is_worth_logging)


def _is_worth_logging(record: logging.LogRecord) -> bool:
    """Drop uvicorn's report of an unfinished response.

    The proxy leaves a response unfinished only on purpose, to cut the connection, and logs the reason.
    """
    return "without completing response" not in record.msg


async def _reload_on_signal(app: ReloadableApp, server: ProxyServer, watched: Path | None) -> None:
    """Reload on SIGHUP, or when `watched` changes, until cancelled."""
    at_terminal = sys.stderr.isatty()

    def on_hangup() -> None:
        """Reload; but a terminal that is gone ends the program, as it ends any other."""
        if at_terminal and not sys.stderr.isatty():
            server.request_exit()
        else:
            app.reload()

    if hasattr(signal, "SIGHUP"):  # not on Windows
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, on_hangup)
    await app.run(watched)


async def _serve(
    server: ProxyServer, listener: socket.socket, config: Config, reloading: Coroutine[None, None, None] | None = None
) -> None:
    reload_task = None if reloading is None else asyncio.create_task(reloading, name="reload")
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        with contextlib.suppress(NotImplementedError):  # Windows
            loop.add_signal_handler(number, server.request_exit)
    freeze_start()
    host, port = f"[{config.host}]" if ":" in config.host else config.host, listener.getsockname()[1]
    logger.info("serving http://%s:%d/v1 for %s", host, port, ", ".join(config.upstreams) or config.upstream)
    app = server.app
    banner = asyncio.create_task(show_banner(config, app.capabilities, own_url(config.host, port), app.pool))
    await server.serve(sockets=[listener])
    banner.cancel()
    if reload_task is not None:
        reload_task.cancel()
