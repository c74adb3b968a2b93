"""The user's own slash commands: texts of a folder, and prompts of servers as `/server:prompt`.

Rule: such a command becomes the user's message of a turn; tools that its `allowed-tools` does not name cannot run in
it.
"""

import shlex
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from fcshim.errors import ConfigError, ToolError
from fcshim.messages import Message, TextPart, UserMessage
from fcshim.tools import PermissionRule
from fcshim.tools.builtin.control import command_names, load_command

if TYPE_CHECKING:
    from fcshim.mcp.resources import ServerOffers, ServerPrompt


class TurnInput(msgspec.Struct, frozen=True):
    """The messages that begin a turn; `allowed`: the only rules by which its calls may run, None for all."""

    messages: tuple[Message, ...]
    allowed: tuple[PermissionRule, ...] | None = None


class UserCommands:
    """The commands of a folder and the prompts of servers; either may be None."""

    def __init__(self, folder: Path | None, offers: "Callable[[], ServerOffers] | None") -> None:
        self._folder = folder
        self._offers = offers
        self._prompts: list[ServerPrompt] = []

    async def list(self) -> dict[str, str]:
        """Return the names, each with a description."""
        self._prompts = await self._offers().all_prompts() if self._offers is not None else []
        listed = {}
        for name in command_names(self._folder) if self._folder is not None else ():
            assert self._folder is not None
            listed[name] = load_command(self._folder, name).description
        for prompt in self._prompts:
            wanted = " ".join(each if needed else f"[{each}]" for each, needed in prompt.arguments.items())
            listed[f"{prompt.server}:{prompt.name}"] = " ".join(filter(None, (wanted, prompt.description)))
        return listed

    async def find(self, line: str) -> TurnInput | None:
        """Return the turn of a line such as `/review a.py`; None if it names no command of the user's.

        Raises `ConfigError` for missing arguments, and `ToolError` if a server fails.
        """
        name, _, rest = line.removeprefix("/").partition(" ")
        listed = await self.list()
        if name not in listed:
            return None
        for prompt in self._prompts:
            if name == f"{prompt.server}:{prompt.name}":
                assert self._offers is not None
                arguments = _arguments(prompt, rest)
                return TurnInput(await self._offers().get_prompt(prompt.server, prompt.name, arguments))
        assert self._folder is not None
        command = load_command(self._folder, name)
        text = UserMessage((TextPart(command.fill(rest.strip())),))
        return TurnInput((text,), None if command.allowed is None else command.rules)


def _arguments(prompt: "ServerPrompt", line: str) -> dict[str, str]:
    """Read `a b` or `name=value`, in the order of the prompt's arguments; the last one takes the rest of the line."""
    try:
        words = shlex.split(line)
    except ValueError as error:
        raise ToolError(f"/{prompt.server}:{prompt.name}: {error}") from error
    given: dict[str, str] = {}
    names = list(prompt.arguments)
    for word in words:
        name, equals, value = word.partition("=")
        free = [each for each in names if each not in given]
        if equals and name in names:
            given[name] = value
        elif free:
            given[free[0]] = word
        elif names:
            given[names[-1]] += f" {word}"
    missing = [name for name, needed in prompt.arguments.items() if needed and name not in given]
    if missing:
        usage = " ".join(name.upper() if needed else f"[{name.upper()}]" for name, needed in prompt.arguments.items())
        raise ConfigError(
            f"/{prompt.server}:{prompt.name} needs {', '.join(missing)}; type /{prompt.server}:{prompt.name} {usage}"
        )
    return given
