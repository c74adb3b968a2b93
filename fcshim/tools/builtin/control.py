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

import msgspec

from fcshim.errors import ConfigError, ToolError
from fcshim.tools.base import Traits
from fcshim.tools.builtin.command import run_command
from fcshim.tools.front_matter import read_front_matter
from fcshim.tools.function import FunctionTool
from fcshim.tools.rules import PermissionRule, parse_rules

_NOTIFY_SECONDS = 5.0
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_SIZE_LIMIT = 64 * 1024

Notifier: TypeAlias = Callable[[str, str], Awaitable[None]]
"""Shows a notification: (title, body)."""


Restrict: TypeAlias = Callable[[tuple[PermissionRule, ...]], None]
"""Allows only the calls that these rules allow, until the end of the turn."""


class SlashCommand(msgspec.Struct, frozen=True):
    """A command's text; `allowed`: what its `allowed-tools` says, None for all tools."""

    name: str
    text: str
    description: str = ""
    allowed: str | None = None

    def fill(self, args: str) -> str:
        """Return the text with `$ARGUMENTS` replaced by the arguments, or with the arguments at its end."""
        return self.text.replace("$ARGUMENTS", args) if "$ARGUMENTS" in self.text else f"{self.text}\n{args}".rstrip()

    @property
    def rules(self) -> tuple[PermissionRule, ...]:
        """The rules of `allowed-tools`: `Read, Bash(git add:*)`. Raises `ToolError` for an invalid rule."""
        listed = re.findall(r"[^\s,()]+(?:\([^)]*\))?", (self.allowed or "").strip("[]"))
        try:
            return parse_rules("allow", listed)
        except ConfigError as error:
            raise ToolError(f"/{self.name}: allowed-tools: {error.message}") from error


class Control:
    """Notify and slash_command; `notifier` defaults to the desktop's, `commands` is the folder of command texts.

    With `restrict`, a command's `allowed-tools` are enforced, not only shown to the model.
    """

    def __init__(
        self, *, notifier: Notifier | None = None, commands: Path | None = None, restrict: Restrict | None = None
    ) -> None:
        self._notifier = notifier or notify_desktop
        self._commands = commands
        self._restrict = restrict

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
        assert self._commands is not None
        found = await asyncio.to_thread(load_command, self._commands, command.removeprefix("/"))
        filled = found.fill(args)
        if found.allowed is None:
            return filled
        if self._restrict is not None:
            self._restrict(found.rules)
        return f"{filled}\n(Use only these tools: {found.allowed})"


def load_command(folder: Path, name: str) -> SlashCommand:
    """Read a command of a folder. Raises `ToolError` if there is none."""
    file = folder / f"{name}.md"
    if not _NAME.fullmatch(name) or not file.is_file():
        known = ", ".join(command_names(folder)) or "none"
        raise ToolError(f"There is no command /{name[:64]}. There are: {known}.")
    with file.open(encoding="utf-8", errors="replace") as content:
        fields, text = read_front_matter(content.read(_SIZE_LIMIT))
    return SlashCommand(name, text, fields.get("description", ""), fields.get("allowed-tools"))


def command_names(folder: Path) -> list[str]:
    """Return the names of a folder's commands."""
    return sorted(each.stem for each in folder.glob("*.md") if _NAME.fullmatch(each.stem))


async def notify_desktop(title: str, body: str) -> None:
    """Show a desktop notification. Raises `ToolError` if that is not possible."""
    program = shutil.which("notify-send")
    if program is None:
        raise ToolError("There is no desktop here to show a notification on.")
    result = await run_command([program, "--", title, body], cwd=Path("/"), seconds=_NOTIFY_SECONDS, max_output=1_000)
    if result.code != 0:
        raise ToolError(f"The notification was not shown: {result.output.decode(errors='replace')}")
