"""Several processes on one port: the supervisor of `fcshim serve --workers N`.

Rule: the supervisor holds the listeners and the settings, and serves nothing. A worker is a whole proxy, forked from
it. One that ends is replaced, after a pause if it ended at once; if none can start, the program ends with the reason.
One whose event loop stands still is ended: the connections on its listener would wait for ever.
One that drains, since it alone got a signal, is replaced at once, as the connections on its listener would wait.
Workers end with their supervisor, however that ends.

uvicorn's own supervisor runs uvicorn's own server, which neither drains nor reloads as ours does, and replaces a worker
that cannot start without a pause.
"""

import contextlib
import ctypes
import enum
import gc
import itertools
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
_STUCK_POLLS = 60
"""Checks of the clock, of `_POLL` seconds, without a turn of a worker's event loop after which the worker is killed.
Longer than a busy machine stops a process. They do not go on while the supervisor is stopped too."""
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


class WorkerState(enum.Enum):
    """What a worker reports to its supervisor."""

    READY = enum.auto()
    DRAINING = enum.auto()


@dataclass(frozen=True)
class WorkerLink:
    """A worker's connection to its supervisor: `lifeline` can be read when the supervisor has ended."""

    index: int
    is_first: bool
    """Whether this worker prints the banner."""
    lifeline: int
    metrics_folder: Path | None
    """Where the workers keep their figures; None without metrics."""
    figures: int
    """The number of the files with this worker's figures."""
    turns: "ctypes.c_ulong"
    """Counted up by this worker as long as its event loop runs; its supervisor reads it."""
    _report: "Connection[WorkerState | str, None]"

    def tell(self, state: WorkerState | str) -> None:
        """Report the state to the supervisor, or why this worker cannot start; one that has ended needs no report."""
        with contextlib.suppress(OSError):
            self._report.send(state)

    def count_turn(self) -> None:
        """Show the supervisor that the event loop runs."""
        self.turns.value += 1

    @staticmethod
    def accept_signals() -> None:
        """Let the signals in that came before there were handlers for them."""
        signal.pthread_sigmask(signal.SIG_UNBLOCK, (*_SIGNALS, END_SIGNAL))


@dataclass
class WorkerProcess:
    """A worker, as its supervisor sees it."""

    process: "multiprocessing.context.ForkProcess"
    report: "Connection[None, WorkerState | str]"
    figures: int
    turns: "ctypes.c_ulong"
    started_at: float
    seen_turns: int = 0
    polls_without_turn: int = 0
    kill_at: float = math.inf
    """When it must have ended."""
    problem: str = ""

    def read_states(self) -> list[WorkerState]:
        """Return the states that it has reported since the last call, and keep its problem."""
        messages: list[WorkerState | str] = []
        try:
            while not self.report.closed and self.report.poll():
                messages.append(self.report.recv())
        except (EOFError, OSError):
            self.report.close()
        self.problem = next((each for each in messages if isinstance(each, str)), self.problem)
        return [each for each in messages if isinstance(each, WorkerState)]

    def is_stuck(self) -> bool:
        """Return whether its event loop has stood still for `_STUCK_POLLS` calls; one that starts has no turn yet."""
        turns = self.turns.value
        self.polls_without_turn = self.polls_without_turn + 1 if turns == self.seen_turns > 0 else 0
        self.seen_turns = turns
        return self.polls_without_turn >= _STUCK_POLLS

    def send_signal(self, number: signal.Signals) -> None:
        """Send a signal unless it has ended."""
        if self.process.pid is not None and self.process.exitcode is None:
            os.kill(self.process.pid, number)


@dataclass
class WorkerSlot:
    """The place of one worker, and the worker that has it."""

    index: int
    listener: socket.socket
    worker: WorkerProcess | None = None
    was_started: bool = False
    start_at: float = 0.0
    quick_ends: int = 0


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
        self._is_stopping = False
        self._draining: list[WorkerProcess] = []
        """Workers that others have replaced; they end when their requests have ended."""
        self._lifeline = os.pipe()
        self._at_terminal = sys.stderr.isatty()
        self._metrics_folder = Path(tempfile.mkdtemp(prefix="fcshim-metrics-")) if config.metrics else None

    def run(self) -> None:
        """Serve until a signal ends it. Raises `FcshimError` if no worker can start."""
        gc.freeze()  # else the first collection of each worker copies every page
        try:
            with _received_signals() as signals:
                while not self._is_stopping or self._workers():
                    self._start_due()
                    self._wait(signals)
        finally:
            self._close()

    def _workers(self) -> list[WorkerProcess]:
        """Return the workers that have not been seen to end."""
        return [slot.worker for slot in self._slots if slot.worker is not None] + self._draining

    @property
    def _may_start(self) -> bool:
        """Whether a free slot may get a worker. Those that drain are limited, as each may do so for long."""
        return not self._is_stopping and len(self._draining) <= len(self._slots)

    def _start_due(self) -> None:
        for slot in self._slots:
            if slot.worker is None and self._may_start and time.monotonic() >= slot.start_at:
                self._start(slot)

    def _start(self, slot: WorkerSlot) -> None:
        """Fork a worker. Signals wait until it has handlers: their default would end it."""
        context = multiprocessing.get_context("fork")
        reader, writer = context.Pipe(duplex=False)
        # Two processes must not write the same files.
        figures = next(
            number for number in itertools.count() if all(each.figures != number for each in self._workers())
        )
        is_first = slot.index == 0 and not slot.was_started
        turns = context.RawValue(ctypes.c_ulong)
        link = WorkerLink(slot.index, is_first, self._lifeline[0], self._metrics_folder, figures, turns, writer)
        process = context.Process(target=self._run_worker, args=(slot, link), name=f"worker-{slot.index}")
        signal.pthread_sigmask(signal.SIG_BLOCK, (*_SIGNALS, END_SIGNAL))
        try:
            process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, (*_SIGNALS, END_SIGNAL))
        writer.close()
        slot.worker, slot.was_started = WorkerProcess(process, reader, figures, turns, time.monotonic()), True

    def _run_worker(self, slot: WorkerSlot, link: WorkerLink) -> None:
        """Serve; this runs in the worker."""
        signal.set_wakeup_fd(-1)
        for number in _SIGNALS:
            signal.signal(number, signal.SIG_DFL)
        os.close(self._lifeline[1])
        for other in self._slots:
            if other is not slot:
                other.listener.close()
        for worker in self._workers():  # else the last of many workers holds hundreds of descriptors
            worker.report.close()
            os.close(worker.process.sentinel)
        try:
            self._work(share_of_worker(self._config, slot.index), slot.listener, link)
        except ConfigError as error:
            link.tell(error.message)
            sys.exit(2)

    def _wait(self, signals: socket.socket) -> None:
        """Wait for a signal, a report, the end of a worker or the next look, and handle it."""
        reports = [each.report for each in self._workers() if not each.report.closed]
        ends = [each.process.sentinel for each in self._workers()]
        starts = [slot.start_at for slot in self._slots if slot.worker is None and self._may_start]
        wait([signals, *reports, *ends], max(min(_POLL, min(starts, default=math.inf) - time.monotonic()), 0.01))
        arrived = b""
        with contextlib.suppress(BlockingIOError):
            arrived = signals.recv(64)
        for number in arrived:  # a repeated signal counts as often as it came
            self._handle_signal(number)
        for slot in self._slots:
            if slot.worker is not None:
                self._check(slot, slot.worker)
        self._forget_drained()
        self._poll()

    def _check(self, slot: WorkerSlot, worker: WorkerProcess) -> None:
        """Handle what a worker has reported, and its end."""
        code = worker.process.exitcode  # before its reports, which are complete if it has ended
        states = worker.read_states()
        self._was_ready |= WorkerState.READY in states
        if WorkerState.DRAINING in states and not self._is_stopping:
            self._replace(slot, worker)
        elif code is not None:
            self._handle_end(slot, worker, code)

    def _replace(self, slot: WorkerSlot, worker: WorkerProcess) -> None:
        """Free the slot of a worker that drains."""
        logger.warning("worker %d ends when its requests have ended; another one takes its place", slot.index)
        worker.report.close()
        worker.kill_at = self._end_of_draining()
        self._draining.append(worker)
        slot.worker, slot.start_at = None, 0.0

    def _end_of_draining(self) -> float:
        return time.monotonic() + self._config.drain_timeout + _KILL_DELAY

    def _forget_drained(self) -> None:
        """Forget the replaced workers that have ended."""
        for worker in [each for each in self._draining if each.process.exitcode is not None]:
            if worker.process.exitcode:
                logger.warning("a worker that drained has ended (%s)", _end_reason(worker.process.exitcode))
            self._draining.remove(worker)
            self._forget(worker)

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
            for worker in self._workers():
                worker.kill_at = min(worker.kill_at, time.monotonic() + _KILL_DELAY)
            self._send_signal(END_SIGNAL)
            return
        self._is_stopping = True
        for slot in self._slots:
            slot.listener.close()
        for worker in self._workers():
            worker.kill_at = min(worker.kill_at, self._end_of_draining())
        self._send_signal(signal.SIGTERM)

    def _send_signal(self, number: signal.Signals) -> None:
        for worker in self._workers():
            worker.send_signal(number)

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

    def _handle_end(self, slot: WorkerSlot, worker: WorkerProcess, code: int) -> None:
        """Handle the end of a worker that does not drain. Raises `FcshimError` if none has ever served."""
        slot.worker = None
        self._forget(worker)
        if self._is_stopping:
            return
        reason = worker.problem or _end_reason(code)
        if not self._was_ready:
            message = worker.problem
            raise ConfigError(message) if message else FcshimError(f"a worker ended before it served: {reason}")
        self._schedule(slot, worker.started_at)
        pause = slot.start_at - time.monotonic()
        delay = f" in {pause:.0f} s" if pause > 0 else ""
        logger.warning("worker %d has ended (%s); another one takes its place%s", slot.index, reason, delay)

    def _forget(self, worker: WorkerProcess) -> None:
        """Release what a worker that has ended leaves here."""
        worker.process.close()
        worker.report.close()
        # The requests that it served when it ended are forgotten; its counts stay, and its successor adds to them.
        if self._metrics_folder is not None:
            for file in self._metrics_folder.glob(f"gauge_live*_{worker.figures}.db"):
                file.unlink(missing_ok=True)

    def _schedule(self, slot: WorkerSlot, started_at: float) -> None:
        """Set when the next worker starts: at once, unless the last one has ended at once."""
        now = time.monotonic()
        slot.quick_ends = slot.quick_ends + 1 if now - started_at < _STABLE else 0
        slot.start_at = now + min(2.0 ** (slot.quick_ends - 1), _MAX_PAUSE) if slot.quick_ends else now

    def _poll(self) -> None:
        """Check the clock, and once per period whether event loops stand still and the settings file has changed."""
        now = time.monotonic()
        for worker in self._workers():
            if now >= worker.kill_at:
                worker.process.kill()
        if now < self._next_poll:
            return
        self._next_poll = now + _POLL
        for slot in self._slots:  # workers that drain have a time at which they are killed
            if slot.worker is not None and not self._is_stopping and slot.worker.is_stuck():
                logger.error("worker %d has not gone on for %.0f s and is ended", slot.index, _STUCK_POLLS * _POLL)
                slot.worker.process.kill()
        if self._watched.has_settled() and not self._is_stopping:
            self._reload()

    def _close(self) -> None:
        """End the remaining workers: there are none, unless no worker could start."""
        self._send_signal(signal.SIGTERM)
        for slot in self._slots:
            slot.listener.close()
        for worker in self._workers():
            worker.process.join(_KILL_DELAY)
            worker.process.kill()
        for end in self._lifeline:
            os.close(end)
        if self._metrics_folder is not None:
            shutil.rmtree(self._metrics_folder, ignore_errors=True)


def _end_reason(code: int) -> str:
    return f"signal {-code}" if code < 0 else f"status {code}"


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
