"""A program behind two pipes, as a transport of the SDK.

Rule: the program leads its own process group; at the end it has three seconds to exit, then the whole group is killed.
Output that is not a message is skipped; an oversized line fails only the request that it answers.

The SDK's own transport has no limit on a line, and leaves processes behind: children of a server that exited, and the
server itself if we are killed.
"""

import asyncio
import contextlib
import errno
import os
import re
import shutil
from collections.abc import AsyncIterator, Callable, Mapping
from typing import TYPE_CHECKING

import anyio
from mcp.client.stdio import get_default_environment
from mcp.shared.message import SessionMessage
from mcp.types import INTERNAL_ERROR, ErrorData, JSONRPCError, JSONRPCRequest, jsonrpc_message_adapter

from fcshim.mcp.flood_limits import RateLimit
from fcshim.mcp.line_splitter import BoundedLineSplitter, OversizedLine
from fcshim.tools.child_process import ChildProcess, start_child
from fcshim.tools.process_guard import ProcessGuard, end_group, mark_environment
from fcshim.tools.subreaper import wrap

if TYPE_CHECKING:
    from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
    from mcp.client._transport import TransportStreams

GRACE = 3.0
"""Seconds for a server to end: two thirds after its input closed, one third after SIGTERM."""
_READ_SIZE = 64 * 1024
_LINE_RATE = (200_000, 20_000)
"""Lines that are read at once, then each second: a server that only writes log lines must not fill the event loop."""
_PASSED_ENVIRONMENT = ("LANG", "LC_ALL", "LC_CTYPE", "TMPDIR", "TZ")
"""Variables that a program gets besides the SDK's. No more: the rest of our environment holds secrets."""
_STDERR_LIMIT = 2_000
"""Characters of standard error that are kept for error messages."""
# The id is searched only at either end of the object, since anything in between may be a tool's text.
_ID = rb'"id"\s*:\s*(\d{1,18}|"[^"\\]{1,100}")'
_ID_AT_HEAD = re.compile(rb'\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?' + _ID)
_ID_AT_TAIL = re.compile(_ID + rb'(?:\s*,\s*"jsonrpc"\s*:\s*"2\.0")?\s*\}\s*\Z')
_ANSWER = re.compile(rb'"(?:result|error)"\s*:')
_EXCERPT = 200
"""Bytes at either end of a line in which its id is searched."""


class ServerProcess:
    """A running server."""

    def __init__(self, child: ChildProcess, mark: str) -> None:
        self.child = child
        self.mark = mark
        self.exited_by_itself = False
        self._stderr = ""

    @property
    def stderr_tail(self) -> str:
        """The end of its standard error."""
        return self._stderr.strip()

    def add_stderr(self, data: bytes) -> None:
        """Take bytes of standard error; only the end is kept."""
        self._stderr = (self._stderr + data.decode(errors="replace"))[-_STDERR_LIMIT:]

    async def stop(self) -> None:
        """Close its input, wait, then end its group and the marked processes outside it."""
        self.exited_by_itself = self.child.exited.is_set()
        if self.child.process.stdin is not None:
            self.child.process.stdin.close()
        draining = asyncio.create_task(self._drain())
        await self.child.wait_exit(GRACE * 2 / 3)
        await end_group(self.child.group_id, self.mark, GRACE / 3)
        await self.child.wait_exit(GRACE)
        draining.cancel()
        self.child.close()

    async def _drain(self) -> None:
        """Discard its output: a program that blocks on a full pipe does not notice that its input closed."""
        output = self.child.process.stdout
        while output is not None and await output.read(_READ_SIZE):
            pass


@contextlib.asynccontextmanager
async def open_stdio(
    command: str,
    args: tuple[str, ...],
    env: Mapping[str, str],
    cwd: str | None,
    *,
    guard: ProcessGuard,
    line_limit: int,
    not_sent_token: str,
    on_start: Callable[[ServerProcess], None],
) -> AsyncIterator["TransportStreams"]:
    """Start the program and yield the streams of its messages. Raises `OSError` if it cannot be started.

    A request that could not be written gets an error response with `not_sent_token` as its data.
    """
    await guard.start()
    program = await _start_process(command, args, env, cwd, guard)
    on_start(program)
    incoming, read = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    write, outgoing = anyio.create_memory_object_stream[SessionMessage](0)
    try:
        async with anyio.create_task_group() as group, incoming, read, write, outgoing:
            group.start_soon(_read_stdout, program, incoming, line_limit)
            group.start_soon(_write_stdin, program, outgoing, incoming, not_sent_token)
            group.start_soon(_read_stderr, program)
            yield read, write
            group.cancel_scope.cancel()
    finally:
        with anyio.CancelScope(shield=True):
            await program.stop()
            guard.remove_group(program.child.group_id)


async def _start_process(
    command: str, args: tuple[str, ...], env: Mapping[str, str], cwd: str | None, guard: ProcessGuard
) -> ServerProcess:
    mark = guard.new_mark()
    passed = {name: os.environ[name] for name in _PASSED_ENVIRONMENT if name in os.environ}
    environment = {**get_default_environment(), **passed, **env, **mark_environment(mark)}
    if shutil.which(command, path=environment.get("PATH")) is None:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), command)
    child = await start_child(wrap((command, *args)), cwd=cwd, env=environment)
    guard.add_group(child.group_id)
    return ServerProcess(child, mark)


async def _read_stdout(
    process: ServerProcess, incoming: "MemoryObjectSendStream[SessionMessage | Exception]", line_limit: int
) -> None:
    lines = RateLimit(*_LINE_RATE)
    async with incoming:
        with contextlib.suppress(anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
            async for line in _output_lines(process, line_limit):
                message = _parse_line(line)
                # Even if all these lines were read at once, the event loop's other tasks run between them.
                await asyncio.sleep(lines.delay(1, asyncio.get_running_loop().time()))
                if message is not None:
                    await incoming.send(message)


async def _output_lines(process: ServerProcess, line_limit: int) -> AsyncIterator[bytes | OversizedLine]:
    splitter = BoundedLineSplitter(line_limit)
    output = process.child.process.stdout
    assert output is not None
    while data := await output.read(_READ_SIZE):
        for line in splitter.feed(data):
            yield line


def _parse_line(line: bytes | OversizedLine) -> SessionMessage | None:
    """Parse a line; return None if it is not a message, such as the output of a stray `print`."""
    if isinstance(line, OversizedLine):
        return _answer_error(line.head, line.tail, f"the answer is {line.reason}")
    try:
        return SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False)) if line.strip() else None
    except ValueError:
        head, tail = line[:_EXCERPT], line[-_EXCERPT:]
        is_answer = b'"jsonrpc"' in head + tail and _ANSWER.search(head) is not None  # else it may be a log in JSON
        return _answer_error(head, tail, "the answer is nested too deeply, or not a message") if is_answer else None


def _answer_error(head: bytes, tail: bytes, message: str) -> SessionMessage | None:
    """Return an error response for the request that a line answers, so that its caller does not wait."""
    found = _ID_AT_HEAD.match(head) or _ID_AT_TAIL.search(tail)
    if found is None:
        return None
    raw_id = found[1].decode(errors="replace")
    request_id = int(raw_id) if raw_id.isdecimal() else raw_id.strip('"')
    return _error_message(request_id, ErrorData(code=INTERNAL_ERROR, message=message))


async def _write_stdin(
    process: ServerProcess,
    outgoing: "MemoryObjectReceiveStream[SessionMessage]",
    incoming: "MemoryObjectSendStream[SessionMessage | Exception]",
    not_sent_token: str,
) -> None:
    async with outgoing:
        async for item in outgoing:
            message = item.message
            text = message.model_dump_json(by_alias=True, exclude_unset=True)
            if not await _write_line(process, text) and isinstance(message, JSONRPCRequest):
                error = ErrorData(code=INTERNAL_ERROR, message="the server has ended", data=not_sent_token)
                with contextlib.suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
                    await incoming.send(_error_message(message.id, error))


async def _write_line(process: ServerProcess, text: str) -> bool:
    """Write a line to the program; return false if the program has ended."""
    pipe = process.child.process.stdin
    assert pipe is not None
    try:
        if not process.child.exited.is_set():
            pipe.write(text.encode() + b"\n")
            await pipe.drain()
            return True
    except OSError:
        pass
    return False


async def _read_stderr(process: ServerProcess) -> None:
    """Read standard error: a full pipe would block the program."""
    errors = process.child.process.stderr
    assert errors is not None
    while data := await errors.read(_READ_SIZE):
        process.add_stderr(data)


def _error_message(request_id: int | str, error: ErrorData) -> SessionMessage:
    return SessionMessage(JSONRPCError(jsonrpc="2.0", id=request_id, error=error))
