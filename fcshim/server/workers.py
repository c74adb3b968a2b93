"""Several processes on one port: the supervisor of `fcshim serve --workers N`.

Rule: the supervisor holds the listeners and the settings, and serves nothing. A worker is a whole proxy, forked from
it. One that ends is replaced, after a pause if it ended at once; if none can start, the program ends with the reason.
Workers end with their supervisor, however that ends.

uvicorn's own supervisor runs uvicorn's own server, which neither drains nor reloads as ours does, and replaces a worker
that cannot start without a pause.
"""

import contextlib
import gc
import logging
import math
import multiprocessing
import os
import shutil
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from pathlib import Path

import msgspec

from fcshim.config import Config, check_worker_settings
from fcshim.errors import ConfigError, FcshimError
from fcshim.server.guard import check_exposure
from fcshim.server.reload import WatchedFile, keep_what_needs_restart

logger = logging.getLogger("fcshim.server")

_STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)
_SIGNALS = (*_STOP_SIGNALS, *([signal.SIGHUP] if hasattr(signal, "SIGHUP") else []))
END_SIGNAL = getattr(signal, "SIGUSR1", signal.SIGTERM)
"""With this, the supervisor has its workers end their streams. SIGTERM, which others send too, only starts to drain."""
_STABLE = 10.0
"""Seconds after which the end of a worker is not a failed start."""
_MAX_PAUSE = 8.0
"""Seconds before a worker that keeps ending at once is started again. Connections in its queue wait meanwhile."""
_POLL = 1.0
"""Seconds between two checks of the settings file and of the clock."""
_KILL_DELAY = 10.0
"""Seconds beyond `drain_timeout` after which a worker that still runs is killed."""


def check_workers(config: Config) -> None:
    """Raise `ConfigError` if the settings cannot be served by several processes."""
    if config.workers == 1:
        return
    if not hasattr(os, "fork"):
        raise ConfigError("workers: expected 1 on a system whose processes cannot fork")
    check_worker_settings(config)


def share_of_worker(config: Config, index: int) -> Config:
    """Return the settings of one worker: its part of what is limited for all of them together."""
    upstreams = {
        name: msgspec.structs.replace(section, max_concurrent=_share(section.max_concurrent, index, config.workers))
        for name, section in config.upstreams.items()
    }
    record = config.record and str(Path(config.record) / f"worker-{index}")
    record_bytes = max(_share(config.record_bytes, index, config.workers), 1)
    return msgspec.structs.replace(config, upstreams=upstreams, record=record, record_bytes=record_bytes)


def _share(total: int, index: int, count: int) -> int:
    return total // count + (index < total % count)


def listen_for_workers(config: Config, listen: Callable[..., socket.socket]) -> list[socket.socket]:
    """Bind one listener for each worker. Raises `ConfigError`.

    Linux spreads new connections evenly over listeners with SO_REUSEPORT. From one that all share, the first worker to
    wake up takes a whole burst: of 200 connections to four workers, 158 went to one. The supervisor holds the listeners
    too, so that what waits for a worker that has crashed is served by its replacement.
    """
    with listen(config) as probe:  # with SO_REUSEPORT alone, a second program could listen beside us unnoticed
        bound = msgspec.structs.replace(config, port=probe.getsockname()[1])
        if sys.platform != "linux":
            return [probe.dup() for _ in range(config.workers)]
    return [listen(bound, reuse_port=True) for _ in range(config.workers)]


@dataclass(frozen=True)
class WorkerLink:
    """A worker's connection to its supervisor: `lifeline` can be read when the supervisor has ended."""

    index: int
    is_first: bool
    """Whether this worker prints the banner."""
    lifeline: int
    metrics_folder: Path | None
    """Where the workers keep their figures; None without metrics."""
    _report: "Connection[str | None, None]"

    def tell_ready(self) -> None:
        """Report to the supervisor that requests are served."""
        self._report.send(None)

    def tell_problem(self, message: str) -> None:
        """Report to the supervisor why this worker cannot start."""
        self._report.send(message)

    @staticmethod
    def accept_signals() -> None:
        """Let the signals in that came before there were handlers for them."""
        signal.pthread_sigmask(signal.SIG_UNBLOCK, (*_SIGNALS, END_SIGNAL))


@dataclass
class WorkerSlot:
    """The place of one worker, and the process that has it."""

    index: int
    listener: socket.socket
    process: "multiprocessing.context.ForkProcess | None" = None
    report: "Connection[None, str | None] | None" = None
    started_at: float = -math.inf
    start_at: float = 0.0
    quick_ends: int = 0
    problem: str = ""

    def read_report(self) -> bool:
        """Read the worker's reports; return whether it is ready."""
        with contextlib.suppress(EOFError, OSError):
            if self.report is not None and self.report.poll():
                message = self.report.recv()
                self.problem = message or ""
                self.report.close()
                self.report = None
                return message is None
        return False


Work = Callable[[Config, socket.socket, WorkerLink], None]
"""Serves in a forked process until a signal ends it. Raises `ConfigError`."""


class Supervisor:
    """Runs `work` in one process for each of `listeners`. With `load`, SIGHUP or a change of `watched` reloads."""

    def __init__(
        self,
        config: Config,
        listeners: Sequence[socket.socket],
        work: Work,
        *,
        load: Callable[[], Config] | None = None,
        watched: Path | None = None,
    ) -> None:
        self._config = config
        self._slots = [WorkerSlot(index, listener) for index, listener in enumerate(listeners)]
        self._work = work
        self._load = load
        self._watched = WatchedFile(watched)
        self._next_poll = 0.0
        self._was_ready = False
        self._kill_at = math.inf
        self._lifeline = os.pipe()
        self._at_terminal = sys.stderr.isatty()
        self._metrics_folder = Path(tempfile.mkdtemp(prefix="fcshim-metrics-")) if config.metrics else None

    @property
    def _is_stopping(self) -> bool:
        return self._kill_at < math.inf

    def run(self) -> None:
        """Serve until a signal ends it. Raises `FcshimError` if no worker can start."""
        gc.freeze()  # else the first collection of each worker copies every page
        try:
            with _received_signals() as signals:
                while not self._is_stopping or any(slot.process for slot in self._slots):
                    self._start_due()
                    self._wait(signals)
        finally:
            self._close()

    def _start_due(self) -> None:
        for slot in self._slots:
            if slot.process is None and not self._is_stopping and time.monotonic() >= slot.start_at:
                self._start(slot)

    def _start(self, slot: WorkerSlot) -> None:
        """Fork a worker. Signals wait until it has handlers: their default would end it."""
        context = multiprocessing.get_context("fork")
        slot.report, report = context.Pipe(duplex=False)
        is_first = slot.index == 0 and slot.started_at < 0
        link = WorkerLink(slot.index, is_first, self._lifeline[0], self._metrics_folder, report)
        slot.process = context.Process(target=self._run_worker, args=(slot, link), name=f"worker-{slot.index}")
        signal.pthread_sigmask(signal.SIG_BLOCK, (*_SIGNALS, END_SIGNAL))
        try:
            slot.process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, (*_SIGNALS, END_SIGNAL))
        report.close()
        slot.started_at, slot.problem = time.monotonic(), ""

    def _run_worker(self, slot: WorkerSlot, link: WorkerLink) -> None:
        """Serve; this runs in the worker."""
        signal.set_wakeup_fd(-1)
        for number in _SIGNALS:
            signal.signal(number, signal.SIG_DFL)
        os.close(self._lifeline[1])
        for other in self._slots:
            if other is not slot:
                other.listener.close()
        try:
            self._work(share_of_worker(self._config, slot.index), slot.listener, link)
        except ConfigError as error:
            link.tell_problem(error.message)
            sys.exit(2)

    def _wait(self, signals: socket.socket) -> None:
        """Wait for a signal, a report, the end of a worker or the next look, and handle it."""
        reports = [slot.report for slot in self._slots if slot.report is not None]
        ends = [slot.process.sentinel for slot in self._slots if slot.process is not None]
        wait([signals, *reports, *ends], self._seconds_to_wait())
        for number in _read_signals(signals):
            self._handle_signal(number)
        for slot in self._slots:
            self._was_ready |= slot.read_report()
            if slot.process is not None and slot.process.exitcode is not None:
                self._handle_end(slot, slot.process.exitcode)
        self._poll()

    def _seconds_to_wait(self) -> float:
        due = min((slot.start_at for slot in self._slots if slot.process is None), default=math.inf)
        return max(min(_POLL, due - time.monotonic()), 0.01)

    def _handle_signal(self, number: int) -> None:
        is_hangup = number not in _STOP_SIGNALS
        # A closed terminal ends the program, as usual.
        if is_hangup and self._load is not None and not (self._at_terminal and not sys.stderr.isatty()):
            self._reload()
        else:
            self._stop()

    def _stop(self) -> None:
        """Refuse new connections and let running streams end; called again, end them."""
        if self._is_stopping:
            self._send_signal(END_SIGNAL)
            return
        self._kill_at = time.monotonic() + self._config.drain_timeout + _KILL_DELAY
        for slot in self._slots:
            slot.listener.close()
        self._send_signal(signal.SIGTERM)

    def _send_signal(self, number: signal.Signals) -> None:
        for slot in self._slots:
            if slot.process is not None and slot.process.pid is not None and slot.process.exitcode is None:
                os.kill(slot.process.pid, number)

    def _reload(self) -> None:
        """Load the settings again for workers to come, and have the others do so. Wrong ones change nothing."""
        assert self._load is not None
        try:
            config = keep_what_needs_restart(self._load(), self._config)
            check_exposure(config)
            check_workers(config)
        except ConfigError as error:
            logger.error("the settings stay as they are: %s", error.message)  # noqa: TRY400 - the operator's mistake
            return
        self._config = config
        self._send_signal(signal.SIGHUP)

    def _handle_end(self, slot: WorkerSlot, code: int) -> None:
        """Handle the end of a worker. Raises `FcshimError` if none has ever served."""
        assert slot.process is not None
        self._was_ready |= slot.read_report()  # its last report
        slot.process.close()
        slot.process = None
        if slot.report is not None:
            slot.report.close()
            slot.report = None
        self._drop_live_figures(slot.index)
        if self._is_stopping:
            return
        reason = slot.problem or (f"signal {-code}" if code < 0 else f"status {code}")
        if not self._was_ready:
            raise (
                ConfigError(slot.problem) if slot.problem else FcshimError(f"a worker ended before it served: {reason}")
            )
        self._schedule(slot)
        pause = slot.start_at - time.monotonic()
        delay = f" in {pause:.0f} s" if pause > 0 else ""
        logger.warning("worker %d has ended (%s); another one takes its place%s", slot.index, reason, delay)

    def _schedule(self, slot: WorkerSlot) -> None:
        """Set when the next worker starts: at once, unless the last one has ended at once."""
        now = time.monotonic()
        slot.quick_ends = slot.quick_ends + 1 if now - slot.started_at < _STABLE else 0
        slot.start_at = now + min(2.0 ** (slot.quick_ends - 1), _MAX_PAUSE) if slot.quick_ends else now

    def _drop_live_figures(self, index: int) -> None:
        """Forget the requests that a worker served when it ended; its counts stay, and its successor adds to them."""
        if self._metrics_folder is not None:
            for file in self._metrics_folder.glob(f"gauge_live*_{index}.db"):
                file.unlink(missing_ok=True)

    def _poll(self) -> None:
        """Check the settings file and the clock."""
        now = time.monotonic()
        if now >= self._kill_at:
            for slot in self._slots:
                if slot.process is not None:
                    slot.process.kill()
        if now >= self._next_poll:
            self._next_poll = now + _POLL
            if self._watched.has_settled() and not self._is_stopping:
                self._reload()

    def _close(self) -> None:
        """End the remaining workers: there are none, unless no worker could start."""
        self._send_signal(signal.SIGTERM)
        for slot in self._slots:
            slot.listener.close()
            if slot.process is not None:
                slot.process.join(_KILL_DELAY)
                slot.process.kill()
        for end in self._lifeline:
            os.close(end)
        if self._metrics_folder is not None:
            shutil.rmtree(self._metrics_folder, ignore_errors=True)


@contextlib.contextmanager
def _received_signals() -> Iterator[socket.socket]:
    """Yield a socket from which the numbers of signals can be read, as they arrive."""
    reader, writer = socket.socketpair()
    with reader, writer:
        reader.settimeout(0)
        writer.settimeout(0)
        earlier = signal.set_wakeup_fd(writer.fileno())
        handlers = {number: signal.signal(number, lambda *_: None) for number in _SIGNALS}
        try:
            yield reader
        finally:
            signal.set_wakeup_fd(earlier)
            for number, handler in handlers.items():
                signal.signal(number, handler)


def _read_signals(reader: socket.socket) -> bytes:
    """Return the numbers of the signals that have arrived. A repeated one counts as often as it came."""
    with contextlib.suppress(BlockingIOError):
        return reader.recv(64)
    return b""
