"""A pseudo-terminal that runs a command, types into it and waits for output.

Rule: every wait has a time limit; the process and everything it started have ended at the end of the block.
"""

import asyncio
import contextlib
import fcntl
import os
import re
import signal
import struct
import subprocess
import sys
import termios
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path

import pyte

CTRL_C, CTRL_D, ENTER = "\x03", "\x04", "\r"
_TIMEOUT = 60.0
"""Seconds for any output. A program takes 20 to start on a machine with ten times the work that it can do."""
_HEIGHT = 50
_ESCAPE_CODES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_=>])")
"""What a terminal interprets instead of showing it."""
_STYLE_CODES = re.compile(rb"\x1b\[([\d;]*)m")
_PROGRAM = """
import fcntl, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)  # or ctrl-C would signal nobody
from fcshim.cli import main
sys.exit(main())
"""


def emulate(raw: bytes, width: int, height: int) -> pyte.HistoryScreen:
    """Return the screen after this output. The emulator knows no dim text, so that is gray."""
    screen = pyte.HistoryScreen(width, height, history=10_000)
    pyte.ByteStream(screen).feed(_STYLE_CODES.sub(_dim_as_gray, raw))
    return screen


def _dim_as_gray(found: re.Match[bytes]) -> bytes:
    codes = found[1].split(b";")
    dim = b"2" in codes and b"38" not in codes and b"48" not in codes
    return b"\x1b[" + b";".join(b"90" if code == b"2" else code for code in codes) + b"m" if dim else found[0]


class PseudoTerminal:
    """One command in a terminal of its own."""

    def __init__(self, process: subprocess.Popen[bytes], master: int, width: int) -> None:
        self.process = process
        self._width = width
        self.raw = b""
        self._master = master
        self._seen = 0
        self._new_output = asyncio.Event()

    @property
    def output(self) -> str:
        """All output so far, without escape sequences."""
        return _ESCAPE_CODES.sub("", self.raw.decode(errors="replace")).replace("\r\n", "\n")

    @property
    def screen(self) -> pyte.HistoryScreen:
        """What a terminal makes of all output."""
        return emulate(self.raw, self._width, _HEIGHT)

    @property
    def rows(self) -> list[str]:
        """What a terminal shows of all output, scrolled rows included: each row as the user sees it."""
        screen = self.screen
        gone = ["".join(row[at].data for at in range(self._width)) for row in screen.history.top]
        return [row.rstrip() for row in (*gone, *screen.display)]

    def type(self, text: str) -> None:
        """Type text, without the return key."""
        os.write(self._master, text.encode())

    def enter(self, text: str) -> None:
        """Type a line."""
        self.type(text + ENTER)

    async def expect(self, text: str) -> str:
        """Wait until new output contains the text; return the new output up to its end."""
        try:
            async with asyncio.timeout(_TIMEOUT):
                while (at := self.output.find(text, self._seen)) < 0:
                    self._new_output.clear()
                    await self._new_output.wait()
        except TimeoutError:
            raise AssertionError(f"{text!r} was not shown, but: {self.output[self._seen :]!r}") from None
        new = self.output[self._seen : at + len(text)]
        self._seen = at + len(text)
        return new

    async def wait_exit(self) -> int:
        """Wait until the command has ended; return its exit code."""
        return await asyncio.wait_for(asyncio.to_thread(self.process.wait), _TIMEOUT)

    def read(self) -> None:
        """Read the available output."""
        with contextlib.suppress(OSError):
            self.raw += os.read(self._master, 65536)
        self._new_output.set()


@contextlib.asynccontextmanager
async def terminal(
    *arguments: str, state: Path, width: int = 200, environment: Mapping[str, str] | None = None
) -> AsyncIterator[PseudoTerminal]:
    """Run `fcshim` with these arguments in a terminal."""
    master, slave = os.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", _HEIGHT, width, 0, 0))
    _keep_output_on_interrupt(slave)
    # A size in the environment, as test runners set it, would take the place of the terminal's own.
    inherited = {name: value for name, value in os.environ.items() if name not in {"COLUMNS", "LINES"}}
    env = {**inherited, "XDG_STATE_HOME": str(state), "TERM": "xterm-256color", "PROMPT_TOOLKIT_NO_CPR": "1"}
    env |= environment or {}
    process = _start(arguments, slave, env)
    shown = PseudoTerminal(process, master, width)
    loop = asyncio.get_running_loop()
    loop.add_reader(master, shown.read)
    try:
        yield shown
    finally:
        loop.remove_reader(master)
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        os.close(master)


def _keep_output_on_interrupt(slave: int) -> None:
    """Have ctrl-C keep what was written before it: Linux discards what the terminal has not read yet."""
    attributes = termios.tcgetattr(slave)
    attributes[3] |= termios.NOFLSH
    termios.tcsetattr(slave, termios.TCSANOW, attributes)


def _start(arguments: Sequence[str], slave: int, env: Mapping[str, str]) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-c", _PROGRAM, *arguments]
    process = subprocess.Popen(command, stdin=slave, stdout=slave, stderr=slave, env=env, start_new_session=True)
    os.close(slave)
    return process
