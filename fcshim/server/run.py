"""Runs the proxy on a socket: uvicorn with uvloop and httptools, and signal handling; in workers, if there are several.

Rule: the first SIGTERM or SIGINT rejects new requests and lets running ones finish. A second signal, or the end of
`drain_timeout`, ends them. Of a worker, only its supervisor ends them.
"""

import asyncio
import contextlib
import errno
import functools
import logging
import os
import signal
import socket
import sys
from collections.abc import Callable, Generator, Mapping
from pathlib import Path

import msgspec
import uvicorn

from fcshim.config import FILE_VARIABLE, NOT_NAMED, Config, load_config, parse_store_address
from fcshim.errors import ConfigError
from fcshim.server.app import App, create_app
from fcshim.server.banner import own_url, show_banner
from fcshim.server.guard import check_exposure
from fcshim.server.inspector.capture import CaptureRing
from fcshim.server.memory_trim import MemoryTrimmer, freeze_start, trim_memory
from fcshim.server.protocol import ClientProtocol, limited_protocol, process_budget
from fcshim.server.reload import ReloadableApp
from fcshim.server.request_log import configure_request_log
from fcshim.server.workers import (
    END_SIGNAL,
    Supervisor,
    WorkerLink,
    WorkerState,
    check_workers,
    listen_for_workers,
    share_of_worker,
)
from fcshim.upstream import os_error_reason


def handle_signals(loop: asyncio.AbstractEventLoop, handlers: Mapping[int, Callable[[], object]]) -> None:
    """Call a handler in the loop for each arrival of its signal, until the process ends. Not on Windows."""
    if sys.platform == "win32":
        return

    # Not by `loop.add_signal_handler`: uvloop reads the numbers of signals from a pipe, and from what its own handler
    # has noted. A signal that arrives while it handles another one is in both, and its callback ran twice, so that one
    # SIGTERM beside a ctrl-C of the terminal counted as two, and ended streams that should have finished.
    def on_signal(number: int, _: object) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: the process is about to end
            loop.call_soon_threadsafe(handlers[number])

    for number in handlers:
        signal.signal(number, on_signal)
        signal.siginterrupt(number, False)  # noqa: FBT003 - restart system calls, as `add_signal_handler` does


logger = logging.getLogger("fcshim.server")

_SWITCH_INTERVAL = 0.001
"""Seconds for which a thread that prepares a large request may keep the event loop waiting."""
_GRACE_PERIOD = 1.0
"""Seconds for streams to send their error event before their connections are cut."""
_FIRST_REQUEST_TURNS = 100
"""Turns of the event loop, 10 ms each, that the server waits for the request on a connection accepted just before it
closed the listener. Turns are counted, not seconds: on a busy machine the client is as slow as this process."""
_BACKLOG = 2048
"""Connections that wait to be accepted."""


class ProxyServer(uvicorn.Server):
    """A uvicorn server that drains running requests before it exits."""

    def __init__(
        self,
        config: Config,
        app: App | ReloadableApp,
        *,
        report: Callable[[WorkerState], None] | None = None,
        on_turn: Callable[[], None] | None = None,
    ) -> None:
        self.app = app
        self._report = report
        self._on_turn = on_turn
        self._drain_timeout = config.drain_timeout
        self._trimmer = MemoryTrimmer(trim_memory)
        self._protocol = limited_protocol(config, process_budget())
        self._listeners: list[socket.socket] = []
        self._late_connections: list[asyncio.Task[object]] = []
        super().__init__(
            uvicorn.Config(
                app,
                http=self._protocol,
                ws="none",
                lifespan="on",
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,
            )
        )
        self.servers = []  # uvicorn sets it when it starts, and a signal may come before that

    def request_exit(self) -> None:
        """Exit when the running requests have finished; a second call ends them."""
        if self.should_exit:
            self.end_requests()
        else:
            self.drain()

    def drain(self) -> None:
        """Exit when the running requests have finished, however often this is called."""
        if self.should_exit:
            return
        self.should_exit = True
        self._stop_listening()  # at once: uvicorn's next tick would close unanswered what is accepted until then
        if self._report is not None:
            self._report(WorkerState.DRAINING)

    def end_requests(self) -> None:
        """End the running requests, then exit."""
        self.should_exit = True
        self.app.stop()
        asyncio.get_running_loop().call_later(_GRACE_PERIOD, self._cut_connections)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start to serve, and report it."""
        await super().startup(sockets)
        self._listeners = list(sockets or [])
        if self._report is not None:
            self._report(WorkerState.READY)

    async def on_tick(self, counter: int) -> bool:
        """Return memory after a load, and show that the event loop runs; uvicorn calls this ten times a second."""
        if self._on_turn is not None:
            self._on_turn()
        if counter % 10 == 0:
            self._trimmer.check(total=self.app.request_count, running=len(self.server_state.tasks))
        return await super().on_tick(counter)

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None]:
        """Do not install uvicorn's signal handlers, which re-raise the signal on exit; `serve` installs its own."""
        yield

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Close the listeners, then wait up to `drain_timeout` seconds for running requests."""
        drain_timer = asyncio.get_running_loop().call_later(self._drain_timeout, self.end_requests)
        self._stop_listening()
        try:
            await self._wait_for_first_requests()
            await super().shutdown(sockets)
        finally:
            drain_timer.cancel()

    def _stop_listening(self) -> None:
        """Close the listeners, but accept first what waits there: its clients are connected and send their requests.

        libuv accepts one connection in a turn of the event loop, so that a busy process nearly always has some waiting;
        the system resets those when their listener is closed. Listeners are non-blocking since their loop serves them.
        """
        loop = asyncio.get_running_loop()
        for listener, server in zip(self._listeners, self.servers, strict=False):
            with contextlib.suppress(OSError):  # no other one waits, or there is no free file descriptor
                for _ in range(_BACKLOG):
                    accepted = loop.connect_accepted_socket(self._make_protocol, listener.accept()[0])
                    self._late_connections.append(loop.create_task(accepted))
            server.close()
        self._listeners = []

    def _make_protocol(self) -> asyncio.Protocol:
        return self._protocol(self.config, self.server_state, self.lifespan.state)

    async def _wait_for_first_requests(self) -> None:
        """Let new connections send their request, and read the next one of others where it has arrived.

        uvicorn closes connections that run no request, and their clients would lose what they have sent.
        """
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._drain_timeout):
                await asyncio.gather(*self._late_connections, return_exceptions=True)
                for _ in range(_FIRST_REQUEST_TURNS):
                    await asyncio.sleep(0.01)
                    if all(getattr(each, "cycle", None) is not None for each in self.server_state.connections):
                        break

    def _cut_connections(self) -> None:
        """Cut the connections whose clients do not take the end of their reply; their requests end with them."""
        for connection in list(self.server_state.connections):
            if isinstance(connection, ClientProtocol):
                connection.cut()
        asyncio.get_running_loop().call_later(_GRACE_PERIOD, self._force_exit)

    def _force_exit(self) -> None:
        """Wait for nothing more: what still runs is cancelled with the event loop."""
        self.force_exit = True


def serve(config: Config, load: Callable[[], Config] | None = None, *, watched: Path | None = None) -> None:
    """Serve until a signal ends the process. Raises `ConfigError` if the address cannot be bound.

    With `load`, SIGHUP loads the settings again, and so does a change of the file `watched`.
    """
    configure_request_log(config.log_level.upper(), config.log_format)
    silence_library_logs()
    sys.setswitchinterval(_SWITCH_INTERVAL)
    check_workers(config)
    if config.workers == 1:
        with listen(config) as listener, listen_for_inspector(config) as inspector:
            _run(config, listener, load, watched=watched, inspector=inspector)
        return
    work = functools.partial(_run_worker, load=load)
    Supervisor(config, listen_for_workers(config, listen), work, load=load, watched=watched).run()


def serve_inspector(config: Config, fill: Callable[[CaptureRing], int]) -> None:
    """Serve the inspector alone, with the requests that `fill` puts into it, until a signal ends the process.

    Raises what `fill` raises, and `ConfigError` if the address cannot be bound or others can reach it without a key.
    """
    configure_request_log(config.log_level.upper(), config.log_format)
    silence_library_logs()
    check_exposure(config)
    with listen_for_inspector(config) as listener:
        assert listener is not None
        port = listener.getsockname()[1]
        app = create_app(config, inspector_port=port)
        captures = app.state.observers.captures
        assert captures is not None
        count = fill(captures)
        server = ProxyServer(config, app)

        async def run() -> None:
            _handle_signals(server, None)
            logger.info("%d requests are shown at %s/fcshim/", count, own_url(config.host, port))
            await server.serve(sockets=[listener])

        with asyncio.Runner(loop_factory=server.config.get_loop_factory()) as runner:
            runner.run(run())


def config_from_env() -> Config:
    """Load the settings from the environment and the file that it names; the upstream may be missing.

    Raises `ConfigError`.
    """
    file = os.environ.get(FILE_VARIABLE)
    return load_config(env=os.environ, file=Path(file) if file else None, defaults={"upstream": NOT_NAMED})


def app_from_env() -> App:
    """Make the application from the environment and the file that it names, for another ASGI server.

    Raises `ConfigError`.
    """
    config = config_from_env()
    if config.upstream == NOT_NAMED and not config.upstreams:
        raise ConfigError(
            f"expected FCSHIM_UPSTREAM, or {FILE_VARIABLE} with a file of settings that names an upstream"
        )
    if config.workers > 1:
        raise ConfigError("workers belong to fcshim serve: expected the option of your server that starts processes")
    check_exposure(config)
    return create_app(config)


def _run_worker(
    config: Config, listener: socket.socket, link: WorkerLink, *, load: Callable[[], Config] | None
) -> None:
    if link.metrics_folder is not None:
        from fcshim.server.metrics import share_figures  # noqa: PLC0415 - its extra may be missing

        share_figures(link.metrics_folder, link.figures)

    def load_share() -> Config:
        assert load is not None
        loaded = msgspec.structs.replace(load(), workers=config.workers)
        check_workers(loaded)
        return share_of_worker(loaded, link.index)

    _run(config, listener, None if load is None else load_share, link=link)


def _run(
    config: Config,
    listener: socket.socket,
    load: Callable[[], Config] | None,
    *,
    watched: Path | None = None,
    link: WorkerLink | None = None,
    inspector: socket.socket | None = None,
) -> None:
    port = 0 if inspector is None else inspector.getsockname()[1]
    app = create_app(config, inspector_port=port) if load is None else ReloadableApp(config, load, inspector_port=port)
    server = (
        ProxyServer(config, app)
        if link is None
        else ProxyServer(config, app, report=link.tell, on_turn=link.count_turn)
    )
    with asyncio.Runner(loop_factory=server.config.get_loop_factory()) as runner:
        listeners = [listener] if inspector is None else [listener, inspector]
        runner.run(_serve(server, listeners, config, watched, link))


def listen(config: Config, *, reuse_port: bool = False) -> socket.socket:
    """Bind the configured address. Raises `ConfigError`, also for one that others can reach without a key."""
    check_exposure(config)
    return _bind(config.host, config.port, "--port", reuse_port=reuse_port)


@contextlib.contextmanager
def listen_for_inspector(config: Config) -> Generator[socket.socket | None]:
    """Bind the inspector's port, if there is an inspector. Raises `ConfigError`."""
    if not config.inspect:
        yield None
        return
    with _bind(config.host, config.inspect_port, "--inspect-port") as listener:
        yield listener


def _bind(host: str, port: int, flag: str, *, reuse_port: bool = False) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, port), family=family, backlog=_BACKLOG, reuse_port=reuse_port)
    except OSError as error:
        hint = f"; another program uses it: choose another with {flag}" if error.errno == errno.EADDRINUSE else ""
        raise ConfigError(f"cannot listen on {host} port {port}: {os_error_reason(error)}{hint}") from error
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


async def _serve(
    server: ProxyServer, listeners: list[socket.socket], config: Config, watched: Path | None, link: WorkerLink | None
) -> None:
    """Serve the API at the first of `listeners`, the inspector at the second, if there is one."""
    app = server.app
    tasks = [asyncio.create_task(app.run(watched), name="reload")] if isinstance(app, ReloadableApp) else []
    _handle_signals(server, link)
    freeze_start()
    if link is None or link.is_first:
        host = f"[{config.host}]" if ":" in config.host else config.host
        port, *inspector = (listener.getsockname()[1] for listener in listeners)
        upstreams, workers = ", ".join(config.upstreams) or config.upstream, f" with {config.workers} workers"
        logger.info("serving http://%s:%d/v1 for %s%s", host, port, upstreams, workers if link is not None else "")
        if link is not None and parse_store_address(config.store).kind == "memory":
            logger.warning(
                "each worker remembers replies and turns for itself: a follow-up (previous_response_id) that reaches "
                "another worker is refused; share them with --store sqlite:PATH or redis://HOST:PORT"
            )
        urls = [own_url(config.host, each) for each in (port, *inspector)]
        banner = show_banner(config, app.capabilities, app.reports, *urls)
        tasks.append(asyncio.create_task(banner, name="banner"))
    await server.serve(sockets=listeners)
    for task in tasks:
        task.cancel()


def _handle_signals(server: ProxyServer, link: WorkerLink | None) -> None:
    """Install the handlers of signals, and of the supervisor's end."""
    loop = asyncio.get_running_loop()
    app = server.app
    handlers: dict[int, Callable[[], object]] = dict.fromkeys((signal.SIGTERM, signal.SIGINT), server.request_exit)
    if link is not None:
        # What is sent to all processes comes twice, once from the supervisor; only the supervisor knows a second order.
        handlers = {signal.SIGTERM: server.drain, signal.SIGINT: _ignore, END_SIGNAL: server.end_requests}
    if isinstance(app, ReloadableApp) and hasattr(signal, "SIGHUP"):  # not on Windows
        handlers[signal.SIGHUP] = app.reload if link else _hangup_handler(server, app)
    handle_signals(loop, handlers)
    if link is not None:
        loop.add_reader(link.lifeline, _drain_once, loop, server, link.lifeline)
        link.accept_signals()


def _hangup_handler(server: ProxyServer, app: ReloadableApp) -> Callable[[], None]:
    """Return a function that reloads; but a closed terminal ends the program, as usual."""
    at_terminal = sys.stderr.isatty()

    def on_hangup() -> None:
        if at_terminal and not sys.stderr.isatty():
            server.request_exit()
        else:
            app.reload()

    return on_hangup


def _drain_once(loop: asyncio.AbstractEventLoop, server: ProxyServer, lifeline: int) -> None:
    loop.remove_reader(lifeline)
    server.drain()


def _ignore() -> None:
    """Do nothing."""
