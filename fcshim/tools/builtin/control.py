"""The tools Notify and slash_command.

Rule: a notification runs the desktop's program with two arguments, never a shell. A slash command is a text of the
operator's with the model's arguments inserted; its front matter may name the tools to use.
"""

import asyncio
import re
import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeAlias

from fcshim.errors import ToolError
from fcshim.tools.base import Traits
from fcshim.tools.builtin.command import run_command
from fcshim.tools.function import FunctionTool

_NOTIFY_SECONDS = 5.0
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_ALLOWED_TOOLS = re.compile(r"^allowed-tools:(.*)$", re.MULTILINE)
_SIZE_LIMIT = 64 * 1024

Notifier: TypeAlias = Callable[[str, str], Awaitable[None]]
"""Shows a notification: (title, body)."""


class Control:
    """Notify and slash_command; `notifier` defaults to the desktop's, `commands` is the folder of command texts."""

    def __init__(self, *, notifier: Notifier | None = None, commands: Path | None = None) -> None:
        self._notifier = notifier or notify_desktop
        self._commands = commands

    def tools(self) -> list[FunctionTool]:
        """Return the tools."""
        tools = [FunctionTool(self.notify, name="Notify", traits=Traits(sensitivity="safe", source="builtin:control"))]
        if self._commands is not None:
            traits = Traits(source="builtin:control", subject="command")
            tools.append(FunctionTool(self.slash_command, traits=traits))
        return tools

    async def notify(self, title: str, body: str = "") -> str:
        """Show a notification to the user."""
        await self._notifier(title[:200], body[:1_000])
        return "Shown."

    async def slash_command(self, command: str, args: str = "") -> str:
        """Get the text of one of the user's commands, such as /review, to act by it.

        Args:
            command: its name
            args: what stands behind it
        """
        head, text = _split_front_matter(await asyncio.to_thread(self._read_command, command.removeprefix("/")))
        filled = text.replace("$ARGUMENTS", args) if "$ARGUMENTS" in text else f"{text}\n{args}".rstrip()
        allowed = _ALLOWED_TOOLS.search(head)
        return f"{filled}\n(Use only these tools: {allowed[1].strip()})" if allowed else filled

    def _read_command(self, name: str) -> str:
        assert self._commands is not None
        file = self._commands / f"{name}.md"
        if not _NAME.fullmatch(name) or not file.is_file():
            known = ", ".join(sorted(each.stem for each in self._commands.glob("*.md"))) or "none"
            raise ToolError(f"There is no command /{name[:64]}. There are: {known}.")
        return file.read_text(encoding="utf-8", errors="replace")[:_SIZE_LIMIT]


def _split_front_matter(text: str) -> tuple[str, str]:
    """Split a command's file into its front matter, between lines of `---`, and the command."""
    if not text.startswith("---\n") or "\n---\n" not in text:
        return "", text
    head, _, rest = text[4:].partition("\n---\n")
    return head, rest.lstrip("\n")


async def notify_desktop(title: str, body: str) -> None:
    """Show a desktop notification. Raises `ToolError` if that is not possible."""
    program = shutil.which("notify-send")
    if program is None:
        raise ToolError("There is no desktop here to show a notification on.")
    result = await run_command([program, "--", title, body], cwd=Path("/"), seconds=_NOTIFY_SECONDS, max_output=1_000)
    if result.code != 0:
        raise ToolError(f"The notification was not shown: {result.output.decode(errors='replace')}")
