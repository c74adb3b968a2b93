"""The slash commands: `/tools`, `/model`, `/plan`, `/save` and so on.

Rule: a command is a row of `COMMANDS` and a method; none of them is sent to the model.
"""

import difflib
import shlex
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeAlias

from fcshim.chat.conversation import ChatConversation, UndoneTurn
from fcshim.chat.edits import restore
from fcshim.chat.session import SessionStore
from fcshim.chat.terminal_view import TerminalView, count_of
from fcshim.chat.user_commands import UserCommands
from fcshim.errors import ConfigError
from fcshim.messages import ToolMessage, UserMessage, text_of
from fcshim.tools import AnyTool
from fcshim.tools.base import tool_category
from fcshim.tools.permission import PermissionMode, parse_mode

COMMANDS = {
    "help": "list the commands",
    "tools": "list the tools, and whether their calls need approval",
    "model": "[NAME]: list the models, or use this one from now on",
    "plan": "only read and plan; once more to act again",
    "mode": "[ask | accept_edits | read_only | allow]: which calls need approval",
    "call": "[NUMBER]: show a call whole, by default the last one",
    "result": "[NUMBER]: show a tool's whole result, by default the last one",
    "undo": "take the last turn back; files that it changed can be put back, too",
    "compact": "[TURNS]: have the model sum up all but the last turns, by default 2",
    "raw": "show the text of the last reply as the model wrote it, with markup",
    "save": "[FILE]: save the conversation, for --resume",
    "quit": "leave; so does ctrl-D",
}
_MODES: dict[PermissionMode, str] = {
    "ask": "what may do more than read waits for your answer",
    "accept_edits": "edits of files run, other calls wait for your answer",
    "read_only": "the model has only tools that read",
    "allow": "every call runs that no rule forbids",
}
_SHORTEST_NAMES = 20
"""Columns of the names of tools on a narrow terminal."""
_QUESTION_SIZE = 80
"""Characters of a question in a line: enough to recognise it."""
Agree: TypeAlias = Callable[[str], Awaitable[bool]]
"""Asks the user a yes-or-no question."""
KEYS = {
    "alt-Enter": "begins another line; so does a backslash at the end of one",
    "@FILE": "sends a file's content with the question; Tab completes its name",
    "ctrl-C": "ends the turn",
}
_Handler: TypeAlias = Callable[[str], Awaitable[None]]


class SlashCommands:
    """The commands of one conversation."""

    def __init__(
        self, conversation: ChatConversation, view: TerminalView, store: SessionStore, user: UserCommands, agree: Agree
    ) -> None:
        self._agree = agree
        self._user = user
        self._conversation = conversation
        self._view = view
        self._store = store
        self._mode_before_plan: PermissionMode = "ask"
        self._handlers: dict[str, _Handler] = {
            "help": self._help,
            "tools": self._tools,
            "model": self._model,
            "plan": self._plan,
            "mode": self._mode,
            "call": self._call,
            "result": self._result,
            "undo": self._undo,
            "compact": self._compact,
            "raw": self._raw,
            "save": self._save,
        }

    async def run(self, line: str) -> bool:
        """Run a command line; return whether the chat continues. Raises `FcshimError` and `OSError`."""
        name, _, rest = line[1:].partition(" ")
        if name in ("quit", "exit"):
            return False
        if name not in self._handlers:
            similar = difflib.get_close_matches(name, [*COMMANDS, *await self._user.list()], n=1)
            raise ConfigError(
                f"there is no /{name}" + (f", did you mean /{similar[0]}?" if similar else "; /help lists all")
            )
        await self._handlers[name](rest.strip())
        return True

    async def _help(self, _: str) -> None:
        for name, about in COMMANDS.items():
            self._view.write_line(f"  /{name:<8} {about}")
        for name, about in (await self._user.list()).items():
            self._view.write_line(f"  /{name} {about}")
        for key, about in KEYS.items():
            self._view.write_line(f"  {key:<10} {about}")

    async def _tools(self, _: str) -> None:
        tools = self._conversation.registry
        longest = max((len(tool.definition.name) for tool in tools), default=0)
        category, width = "", min(longest, max(self._view.output.width // 2, _SHORTEST_NAMES))
        for tool in tools:
            if (own := tool_category(tool)) != category:
                category = own
                self._view.write_line(f"{category}:")
            self._view.write_line(self._tool_row(tool, width))
        if len(tools):
            self._view.note(f"{count_of(len(tools), 'tool')}. A call of one that `asks` waits for your answer.")
        else:
            self._view.note("There are no tools; fcshim chat --root DIR and --mcp FILE add some.")

    def _tool_row(self, tool: AnyTool, name_width: int) -> str:
        """Return a tool's line, cut to the terminal: one word for its permission, its name, its description."""
        permissions = self._conversation.permissions
        label = "off"
        if permissions.offers(tool):
            label = "runs" if permissions.runs_unasked(tool.traits) else "asks"
        about = " ".join(tool.definition.description.strip().partition("\n")[0].split())
        row = f"  {label:<5} {tool.definition.name:<{name_width}}  {about}".rstrip()
        return row if len(row) < self._view.output.width else f"{row[: self._view.output.width - 2]}…"

    async def _model(self, name: str) -> None:
        session = self._conversation.session
        if name:
            session.model = name
            self._view.note(f"From now on {name} answers.")
            return
        names = await self._conversation.client.models()
        for each in names:
            self._view.write_line(f"{'*' if each == session.model else ' '} {each}")
        if not names:
            self._view.note("The endpoint lists no models; /model NAME uses one anyway.")

    async def _plan(self, _: str) -> None:
        permissions = self._conversation.permissions
        if permissions.mode == "read_only":
            permissions.mode = self._mode_before_plan
        else:
            self._mode_before_plan, permissions.mode = permissions.mode, "read_only"
        self._say_mode()

    async def _mode(self, name: str) -> None:
        if name:
            self._conversation.permissions.mode = parse_mode(name)
        self._say_mode()

    def _say_mode(self) -> None:
        mode = self._conversation.permissions.mode
        self._view.note(f"Mode {mode}: {_MODES[mode]}.")

    async def _call(self, number: str) -> None:
        self._view.show_full_call(_chosen("call", number, len(self._view.calls)))

    async def _result(self, number: str) -> None:
        self._view.show_full_result(_chosen("result", number, len(self._view.results)))

    async def _undo(self, _: str) -> None:
        undone = self._conversation.undo()
        asked = text_of(undone.messages[0].content) if isinstance(undone.messages[0], UserMessage) else ""
        first = asked.strip().partition("\n")[0]
        self._view.note(f"The last turn is taken back: › {first[:_QUESTION_SIZE]}")
        if undone.edits:
            self._view.note(f"It changed {', '.join(map(str, undone.edits))}.")
            request = "put it back as it was" if len(undone.edits) == 1 else "put them back as they were"
            if await self._agree(f"{request}?"):
                for line in restore(undone.edits):
                    self._view.note(line)
        if others := self._lasting_calls(undone):
            self._view.note(f"What these did stays: {', '.join(others)}.")

    def _lasting_calls(self, undone: UndoneTurn) -> list[str]:
        """Return the names of tools whose calls may have changed something that undo does not restore."""
        done = [each.name for each in undone.messages if isinstance(each, ToolMessage) and not each.is_error]
        restored = ("safe", "edit") if undone.edits else ("safe",)
        lasting = []
        for name in dict.fromkeys(done):
            tool = self._conversation.registry.get(name)
            if tool is None or not (tool.traits.reads_only or tool.traits.sensitivity in restored):
                lasting.append(name)
        return lasting

    async def _compact(self, turns: str) -> None:
        if turns and not turns.isdecimal():
            raise ConfigError(f"/compact: expected how many turns stay, got {turns}")
        self._view.show_waiting()
        done = await self._conversation.compact(*([int(turns)] if turns else []))
        kept = f"the last {count_of(done.kept, 'turn')} stay" if done.kept else "no turn stays"
        self._view.note(f"{count_of(done.replaced, 'turn')} summed up, {kept} as they were. The summary:")
        self._view.write_line(done.summary)

    async def _raw(self, _: str) -> None:
        if not self._conversation.raw_reply:
            raise ConfigError("there is no reply of this session to show yet; ask the model first")
        self._view.write_line(self._conversation.raw_reply)

    async def _save(self, file: str) -> None:
        session = self._conversation.session
        saved = self._store.save(session, Path(file if file.endswith(".json") else f"{file}.json") if file else None)
        self._view.note(
            f"Saved. To continue it: fcshim chat --resume {shlex.quote(str(saved)) if file else session.id}"
        )


def _chosen(noun: str, number: str, count: int) -> int:
    """Return the number of the call or result to show, by default the last one. Raises `ConfigError`."""
    wanted = int(number) if number.isdecimal() else 0 if number else count
    if not count:
        raise ConfigError(f"there is no {noun} yet; no tool has run")
    if not 0 < wanted <= count:
        raise ConfigError(f"there is no {noun} {number}: expected a number from 1 to {count}")
    return wanted
