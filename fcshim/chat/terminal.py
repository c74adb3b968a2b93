"""An interactive conversation: the prompt, the turns, the approval of calls.

Rule: ctrl-C ends the turn, never the program; ctrl-D at the prompt ends the program. The session is saved after each
turn.
"""

import asyncio
import contextlib
import json
import signal
from collections.abc import Callable, Mapping
from contextlib import aclosing
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from prompt_toolkit import PromptSession
from prompt_toolkit.completion import Completer, WordCompleter
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.patch_stdout import patch_stdout

from fcshim.chat.commands import COMMANDS, SlashCommands
from fcshim.chat.conversation import ChatConversation
from fcshim.chat.elicitation import fill_form
from fcshim.chat.session import SessionStore
from fcshim.chat.terminal_view import TerminalView
from fcshim.errors import FcshimError
from fcshim.events import JSON
from fcshim.sanitize import sanitize
from fcshim.tools import PermissionDecision, PermissionRequest

if TYPE_CHECKING:
    from fcshim.mcp.server_requests import ElicitationForm

_DECISIONS = {
    "y": PermissionDecision(allowed=True),
    "yes": PermissionDecision(allowed=True),
    "a": PermissionDecision(allowed=True, remember=True),
    "always": PermissionDecision(allowed=True, remember=True),
    "n": PermissionDecision(allowed=False),
    "no": PermissionDecision(allowed=False),
    "": PermissionDecision(allowed=False),
    "never": PermissionDecision(allowed=False, remember=True),
}
_EXCERPT = 1_000
"""Characters of an argument that are shown; of the subject (a command, a path) all are."""


class Terminal:
    """The user interface of one conversation. `save` is called after each turn; `history` has the typed lines."""

    def __init__(
        self,
        conversation: ChatConversation,
        view: TerminalView,
        *,
        store: SessionStore,
        save: Callable[[], None],
        history: Path | None,
    ) -> None:
        self._conversation = conversation
        self._view = view
        self._save = save
        self._commands = SlashCommands(conversation, view, store)
        typed_lines: History = InMemoryHistory() if history is None else FileHistory(str(history))
        completer: Completer = WordCompleter([f"/{name}" for name in COMMANDS], sentence=True)
        self._prompt_session: PromptSession[str] = PromptSession(
            history=typed_lines, completer=completer, complete_while_typing=False
        )
        self._question_session: PromptSession[str] = PromptSession()
        self._prompt_lock = asyncio.Lock()  # one question at a time
        self._turn_task: asyncio.Task[None] | None = None

    async def run(self) -> None:
        """Read lines and run turns until the user leaves."""
        while True:
            try:
                text = (await self._prompt_session.prompt_async(self._prompt_text())).strip()
            except KeyboardInterrupt:
                continue
            except EOFError:
                return
            if text.startswith("/"):
                if not await self._run_command(text):
                    return
            elif text:
                await self.run_turn(text)

    async def run_turn(self, text: str) -> None:
        """Run one turn; ctrl-C ends it."""
        loop = asyncio.get_running_loop()
        self._turn_task = loop.create_task(self._stream_turn(text))
        with contextlib.suppress(NotImplementedError):  # Windows
            loop.add_signal_handler(signal.SIGINT, self._turn_task.cancel)
        try:
            await asyncio.wait([self._turn_task])
        finally:
            with contextlib.suppress(NotImplementedError):
                loop.remove_signal_handler(signal.SIGINT)
            self._turn_task.cancel()
        self._view.end_turn()
        if self._turn_task.cancelled():
            self._view.note("(interrupted)")
        elif (error := self._turn_task.exception()) is not None:
            if not isinstance(error, FcshimError):
                raise error
            self._view.error(error.message)
        self._save()

    async def ask(self, request: PermissionRequest) -> PermissionDecision:
        """Ask the user whether a call may run; ctrl-C ends the turn."""
        shown, whole = _shown_arguments(request)
        hint = " (its server says that it only reads)" if request.traits.reads_only else ""
        always = f"[a]lways ({request.scope}), never, " if whole else ""
        answer = await self._read_line(
            f"  run {request.name} {shown}{hint}?\n  [y]es, [n]o, {always}or what to do instead: "
        )
        if answer is None:
            return PermissionDecision(allowed=False)
        decision = _DECISIONS.get(answer.lower()) or PermissionDecision(
            allowed=False, reason=f"The user refused: {answer}"
        )
        return decision if whole else msgspec.structs.replace(decision, remember=False)

    async def confirm(self, action: str) -> bool:
        """Ask the user about an action other than a call."""
        return await self._read_line(f"  {' '.join(action.split())}\n  let it? [y]es, [n]o: ") in ("y", "yes")

    async def fill_form(self, form: "ElicitationForm") -> Mapping[str, JSON] | None:
        """Ask the user to fill in a server's form."""
        return await fill_form(form, self._read_line)

    async def _read_line(self, text: str) -> str | None:
        """Ask for a line; return None if the user ends the turn instead."""
        async with self._prompt_lock:
            self._view.end_turn()
            try:
                with patch_stdout(raw=True):
                    return (await self._question_session.prompt_async(sanitize(text))).strip()
            except (KeyboardInterrupt, EOFError):
                if self._turn_task is not None:
                    self._turn_task.cancel()
                return None

    async def _stream_turn(self, text: str) -> None:
        self._view.show_waiting()
        async with aclosing(self._conversation.send(text)) as events:
            async for event in events:
                self._view.show(event)

    async def _run_command(self, text: str) -> bool:
        try:
            return await self._commands.run(text)
        except FcshimError as error:
            self._view.error(error.message)
        except OSError as error:
            self._view.error(str(error))
        return True

    def _prompt_text(self) -> str:
        mode = self._conversation.permissions.mode
        return "› " if mode == "ask" else f"{mode.replace('read_only', 'plan')} › "


def _shown_arguments(request: PermissionRequest) -> tuple[str, bool]:
    """Return the arguments as they are shown, and whether that is all of them: nobody can agree to what is hidden."""
    subject = request.traits.subject
    shown = {name: value if name == subject else _excerpt(value) for name, value in request.arguments.items()}
    return json.dumps(shown, ensure_ascii=False), shown == dict(request.arguments)


def _excerpt(value: JSON) -> JSON:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return value if len(text) <= _EXCERPT else f"{text[:_EXCERPT]}… ({len(text) - _EXCERPT} more characters)"
