"""Replicas of the proxy as processes, and a small balancer in front of them.

Rule: the balancer works on layer 4: it relays bytes without parsing HTTP; it gives each connection to the next replica
that accepts it, and never repeats a request.
"""

import asyncio
import contextlib
import signal
import sys
from collections.abc import AsyncIterator, Sequence

from benchmarks.proxy.processes import free_port

START_SECONDS = 120.0


class Replica:
    """One `fcshim serve` on a port of its own, which can be killed, ended and started again.

    `module` is run instead of `fcshim` where it has more to do.
    """

    def __init__(self, upstream_port: int, options: Sequence[str] = (), *, module: str = "fcshim") -> None:
        self.port = free_port()
        given = f"serve --upstream http://127.0.0.1:{upstream_port} --port {self.port} --log-level error"
        self._command = [sys.executable, "-m", module, *given.split(), *options]
        self._process: asyncio.subprocess.Process | None = None

    @property
    def pid(self) -> int:
        """The id of its process."""
        assert self._process is not None
        return self._process.pid

    async def start(self) -> None:
        """Start it, and wait until it accepts connections."""
        self._process = await asyncio.create_subprocess_exec(*self._command)
        async with asyncio.timeout(START_SECONDS):
            while not await _accepts(self.port):
                if self._process.returncode is not None:
                    raise RuntimeError(f"a replica ended with status {self._process.returncode}")
                await asyncio.sleep(0.02)

    async def kill(self) -> None:
        """End it as a crash does."""
        if self._process is not None and self._process.returncode is None:
            self._process.kill()
            await self._process.wait()

    def reload(self) -> None:
        """Let it load its settings again."""
        assert self._process is not None
        self._process.send_signal(signal.SIGHUP)

    async def terminate(self) -> None:
        """Let it drain, and wait for its end."""
        assert self._process is not None
        self._process.terminate()
        await self._process.wait()


@contextlib.asynccontextmanager
async def running_replicas(
    count: int, upstream_port: int, *options: str, module: str = "fcshim"
) -> AsyncIterator[list[Replica]]:
    """Run `count` replicas in front of one endpoint."""
    replicas = [Replica(upstream_port, options, module=module) for _ in range(count)]
    try:
        for replica in replicas:
            await replica.start()
        yield replicas
    finally:
        for replica in replicas:
            await replica.kill()


class Balancer:
    """Gives each new connection to the next of `ports` that accepts it."""

    def __init__(self, ports: Sequence[int]) -> None:
        self.ports = list(ports)
        self.port = 0
        self._next = 0

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator["Balancer"]:
        """Listen on a free port of loopback."""
        server = await asyncio.start_server(self._relay, "127.0.0.1", 0, backlog=2048)
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            server.close()

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            upstream_reader, upstream_writer = await self._connect()
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(_copy(reader, upstream_writer))
                tasks.create_task(_copy(upstream_reader, writer))
        writer.close()

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Connect to a replica. Raises `OSError` if none accepts."""
        for _ in range(len(self.ports)):
            self._next += 1
            with contextlib.suppress(OSError):
                return await asyncio.open_connection("127.0.0.1", self.ports[self._next % len(self.ports)])
        raise ConnectionRefusedError("no replica accepts connections")


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    except OSError:
        pass
    finally:
        writer.close()


async def _accepts(port: int) -> bool:
    with contextlib.suppress(OSError):
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.close()
        return True
    return False
