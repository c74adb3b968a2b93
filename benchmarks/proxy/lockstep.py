"""Measures what a chunk costs the proxy, apart from what its request costs, in CPU time or in instructions.

Rule: the next chunk is sent when the client has got the last, so that each is a read of its own, however busy the
machine is. A short stream is subtracted from a long one, so that only chunks are left. Instructions are counted by
callgrind, without those of the kernel; the time of memory accesses shows only in CPU time.
"""

import asyncio
import contextlib
import json
import os
import re
import socket
import statistics
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from benchmarks.proxy.load import encode_request
from benchmarks.proxy.processes import cpu_seconds
from benchmarks.proxy.upstream import CALL, CALL_END, CALL_START, FILLER, HEAD, encode_event, http_chunk

_SHORT, _LONG = 100, 1_000
"""Chunks of the two streams."""
_WARM_UP = 3
"""Long streams before anything is counted: the interpreter adapts its instructions to what it sees."""
_STAMP = re.compile(rb"@\d{12} ")
_END = b"[DONE]"
_MAX_WAIT = 120.0
"""Seconds for each wait; callgrind makes Python 50 times slower."""


class _LockStepUpstream(asyncio.Protocol):
    """Sends a chunk whenever `received` is released; one stream at a time."""

    def __init__(self, received: asyncio.Semaphore) -> None:
        self._received = received
        self._buffer = b""
        self._task: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        head, end, body = self._buffer.partition(b"\r\n\r\n")
        length = re.search(rb"content-length: (\d+)", head.lower())
        if not end or len(body) < (int(length[1]) if length else 0):
            return
        self._buffer = b""
        if head.startswith(b"GET"):
            self._transport.write(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n")
        else:
            self._task = asyncio.ensure_future(self._play(json.loads(body)["messages"][-1]["content"]))

    async def _play(self, script: str) -> None:
        kind, count = script.split(":")
        write = self._transport.write
        write(HEAD + encode_event(""))
        if kind == CALL:
            write(encode_event(CALL_START))
        for number in range(int(count)):
            write(encode_event(f"@{number:012} {FILLER}"))
            await asyncio.wait_for(self._received.acquire(), _MAX_WAIT)
        if kind == CALL:
            write(encode_event(CALL_END))
        write(encode_event(None, "stop") + http_chunk(b"data: [DONE]\n\n") + b"0\r\n\r\n")


class LockStepProxies:
    """Several configurations of the proxy in one process."""

    def __init__(
        self,
        process: asyncio.subprocess.Process,
        ports: Mapping[str, int],
        folder: Path,
        received: asyncio.Semaphore,
    ) -> None:
        self._process = process
        self._ports = ports
        self._folder = folder
        self._received = received
        self._dumps = 0

    async def count_instructions(self, name: str, kind: str) -> float:
        """Return the instructions for a chunk; callgrind must run."""
        await self.warm_up(name, kind)
        # Other work of the process now and then can only add instructions.
        short, long = [min([await self._count(name, kind, count) for _ in range(2)]) for count in (_SHORT, _LONG)]
        return (long - short) / (_LONG - _SHORT)

    async def measure_seconds(self, name: str, kind: str) -> tuple[float, float]:
        """Return the seconds of CPU of a short stream and of a long one; see `seconds_of_a_chunk`."""
        short, long = [await self._measure(name, kind, count) for count in (_SHORT, _LONG)]
        return short, long

    async def warm_up(self, name: str, kind: str) -> None:
        """Read some streams before anything is measured."""
        for _ in range(_WARM_UP):
            await self._read_stream(name, kind, _LONG)

    async def wait_until_ready(self) -> None:
        """Wait until every configuration serves. Raises `RuntimeError` if the process ends, `TimeoutError`."""
        async with asyncio.timeout(_MAX_WAIT):
            for port in self._ports.values():
                while not await _serves(port):
                    if self._process.returncode is not None:
                        raise RuntimeError(f"the proxies ended with code {self._process.returncode}")
                    await asyncio.sleep(0.2)

    async def _measure(self, name: str, kind: str, count: int) -> float:
        before = cpu_seconds(self._process.pid)
        await self._read_stream(name, kind, count)
        await asyncio.sleep(0.02)  # for what is done after the reply
        return cpu_seconds(self._process.pid) - before

    async def _count(self, name: str, kind: str, count: int) -> int:
        await self._control("--zero")
        await self._read_stream(name, kind, count)
        await asyncio.sleep(0.5)  # for what is done after the reply, such as writing a record
        await self._control("--dump")
        await asyncio.sleep(0.5)
        self._dumps += 1
        dump = (self._folder / f"callgrind.{self._dumps}").read_text()
        return sum(map(int, re.findall(r"^totals: (\d+)", dump, re.MULTILINE)))

    async def _control(self, action: str) -> None:
        arguments = ("callgrind_control", action, str(self._process.pid))
        process = await asyncio.create_subprocess_exec(*arguments, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        await process.wait()

    async def _read_stream(self, name: str, kind: str, count: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", self._ports[name])
        try:
            writer.write(encode_request(f"{kind}:{count}"))
            text, found = b"", 0
            while _END not in text:
                data = await asyncio.wait_for(reader.read(65536), _MAX_WAIT)
                if not data:
                    raise RuntimeError(f"the stream of {name} broke off after {found} chunks")
                text = text[-20:] + data
                stamps = list(_STAMP.finditer(text))
                text = text[stamps[-1].end() :] if stamps else text
                found += len(stamps)
                for _ in stamps:
                    self._received.release()
        finally:
            writer.close()


@asynccontextmanager
async def lockstep_proxies(
    variants: Mapping[str, Mapping[str, str | bool]], *, counted: bool = False, hash_seed: int = 0
) -> AsyncIterator[LockStepProxies]:
    """Run `fcshim` once with several configurations, each on a port of its own; `counted`: under callgrind."""
    received = asyncio.Semaphore(0)
    server = await asyncio.get_running_loop().create_server(lambda: _LockStepUpstream(received), "127.0.0.1", 0)
    upstream = server.sockets[0].getsockname()[1]
    flags = [{"upstream": f"http://127.0.0.1:{upstream}", "log_level": "error", **each} for each in variants.values()]
    # The process inherits its listeners: between the choice of a free port and its use, another program may take it.
    with contextlib.ExitStack() as stack, tempfile.TemporaryDirectory() as folder:
        listeners = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in flags]
        files = [listener.fileno() for listener in listeners]
        process = await asyncio.create_subprocess_exec(
            *_command(flags, files, Path(folder), counted=counted),
            # An export may come at any time.
            env={**os.environ, "PYTHONHASHSEED": str(hash_seed), "OTEL_BSP_SCHEDULE_DELAY": "3600000"},
            stdout=subprocess.DEVNULL,
            pass_fds=files,
        )
        ports = {name: listener.getsockname()[1] for name, listener in zip(variants, listeners, strict=True)}
        proxies = LockStepProxies(process, ports, Path(folder), received)
        try:
            await proxies.wait_until_ready()
            yield proxies
        finally:
            server.close()
            if process.returncode is None:
                process.kill()
            await process.wait()


def _command(
    flags: Sequence[Mapping[str, str | bool]], files: Sequence[int], folder: Path, *, counted: bool
) -> list[str]:
    command, settings = [sys.executable, "-m", "benchmarks.proxy.variants"], [json.dumps(flags), json.dumps(files)]
    if not counted:
        return [*command, *settings]
    return [
        "valgrind",
        "--quiet",
        "--tool=callgrind",
        f"--callgrind-out-file={folder}/callgrind",
        *command,
        "--still",
        *settings,
    ]


def seconds_of_a_chunk(found: Sequence[tuple[float, float]]) -> float:
    """Return the seconds of CPU of a chunk, from lower quartiles: other work on the machine can only add."""
    short, long = [statistics.quantiles(each, n=4)[0] for each in zip(*found, strict=True)]
    return (long - short) / (_LONG - _SHORT)


async def _serves(port: int) -> bool:
    """Return whether requests are answered: connections are accepted before."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET /health HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n\r\n")
    try:
        return b"200" in await asyncio.wait_for(reader.readline(), 5)
    except (TimeoutError, OSError):
        return False
    finally:
        writer.close()
