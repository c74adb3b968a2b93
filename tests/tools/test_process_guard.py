"""No child process outlives its parent, however the parent ends: servers, and the commands of the built-in tools."""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.mcp.server_programs import SERVERS, eventually, is_running, manager, server

PARENT = """
import asyncio, sys
from tests.mcp.server_programs import manager, server

async def main():
    manners = ("good", "good", "stubborn", "child", "daemon", "hidden")
    servers = [server("raw", manner, sys.argv[1], called=f"{manner}{at}") for at, manner in enumerate(manners)]
    async with manager(*servers) as made:
        for each in made.status():
            print((await made.call(f"{each.name}:work", {})).text)
        print("ready", flush=True)
        {end}

asyncio.run(main())
"""
WAIT = "await asyncio.Event().wait()"
ROUNDS = int(os.environ.get("FCSHIM_KILLS", "3"))


@contextlib.contextmanager
def running(program, *arguments):
    """Run a parent process until the block ends."""
    command = [sys.executable, "-c", program, *map(str, arguments)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=SERVERS.parents[2]) as parent:
        try:
            yield parent
        finally:
            parent.kill()


def when_ready(parent, file):
    """Wait for a parent's servers; return the processes that must not outlive it."""
    lines = []
    while (line := parent.stdout.readline().strip()) != "ready":
        assert line
        lines.append(int(line))
    return lines + [int(line) for line in file.read_text().split()]


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
async def test_a_killed_parent_leaves_no_process(tmp_path, number):
    """SIGKILL included: servers, one that ignores signals, children that left their group and their environment."""
    for attempt in range(ROUNDS if number == signal.SIGKILL else 1):
        file = tmp_path / f"{attempt}"
        with running(PARENT.replace("{end}", WAIT), file) as parent:
            processes = await asyncio.to_thread(when_ready, parent, file)

            assert 9 == len(processes)
            assert all(map(is_running, processes))

            parent.send_signal(number)
            await eventually(
                lambda gone=processes: not any(map(is_running, gone)), 8.0 if number == signal.SIGINT else 5.0
            )


async def test_a_parent_that_exits_without_closing_leaves_no_process(tmp_path):
    """Requirement 27: the safety net."""
    file = tmp_path / "file"
    with running(PARENT.replace("{end}", "import os; os._exit(0)"), file) as parent:
        processes = await asyncio.to_thread(when_ready, parent, file)
        await eventually(lambda: not any(map(is_running, processes)))


COMMAND = """
import asyncio, sys
from fcshim.tools.builtin import Shell, Workspace

(bash,) = Shell(Workspace(sys.argv[1])).tools()
command = (
    "echo $$ > a; sleep 600 & echo $! > b; setsid sleep 600 & echo $! > c; "
    "env -i setsid sleep 600 & echo $! > d; touch ready; sleep 600"
)
asyncio.run(bash.call({"command": command}))
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
async def test_a_killed_parent_leaves_no_command_running(tmp_path, number):
    """Including one that has left its process group."""
    with running(COMMAND, tmp_path) as parent:
        await eventually((tmp_path / "ready").exists)
        processes = [int((tmp_path / name).read_text()) for name in "abcd"]

        assert all(map(is_running, processes))

        parent.send_signal(number)
        await eventually(lambda: not any(map(is_running, processes)))


@pytest.mark.security
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has subreapers")
async def test_an_orphan_without_session_and_environment_ends_with_its_server(tmp_path):
    """The server's process that started it has ended long before."""
    async with manager(server("raw", "orphan", str(tmp_path / "a"), called="s")) as made:
        await made.call("s:work", {})
        await eventually((tmp_path / "a").exists)
        (orphan,) = [int(line) for line in (tmp_path / "a").read_text().split()]

        assert is_running(orphan)
    assert not is_running(orphan)


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="without /proc only announced groups are found")
async def test_a_parent_killed_during_start_leaves_no_process(tmp_path):
    """At any moment of the start, even before a server is reported to the reaper."""
    for attempt in range(ROUNDS):
        file = tmp_path / f"{attempt}"
        with running(PARENT.replace("{end}", WAIT), file) as parent:
            await eventually(lambda file=file: len(_holding(file)) > 1, 30.0)
            await asyncio.sleep(attempt * 0.005)
            parent.kill()
            parent.wait()
        await eventually(lambda file=file: not _holding(file))


def _holding(file):
    """Return the processes whose command names this file."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if str(file).encode() in (folder / "cmdline").read_bytes() and is_running(int(folder.name)):
                found.append(folder.name)
    return found
