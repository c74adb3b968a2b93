"""Runs an interactive conversation: the prompt, the turns, the approval of calls.

Rule: ctrl-C ends the turn, never the program; ctrl-D at the prompt ends the program. The session is saved after each
turn. At the prompt Enter sends. Alt+Enter, a backslash at the end of the line, and a paste make further lines; so does
Enter between three quotation marks and three more.
"""

import asyncio
import contextlib
import re
import signal
import sys
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from prompt_toolkit import PromptSession
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.input.typeahead import clear_typeahead
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.patch_stdout import patch_stdout

from fcshim.chat.advice import explain
from fcshim.chat.attachments import Attachments, has_images
from fcshim.chat.commands import COMMANDS, SlashCommands
from fcshim.chat.conversation import ChatConversation
from fcshim.chat.elicitation import fill_form
from fcshim.chat.question import describe_call, quote
from fcshim.chat.servers import Report
from fcshim.chat.session import SessionStore
from fcshim.chat.terminal_view import TerminalView, TurnFigures
from fcshim.chat.user_commands import TurnInput, UserCommands
from fcshim.errors import FcshimError
from fcshim.events import JSON
from fcshim.messages import UserMessage
from fcshim.sanitize import sanitize_line
from fcshim.tools import PermissionDecision, PermissionRequest

if sys.platform != "win32":
    import termios

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
_WAITING_SECONDS = 1.0
"""Seconds between two lines about a reply that has not begun."""
_LISTING_SECONDS = 3.0
"""Seconds before the first prompt to learn which prompts servers have; later they only lack completion."""
_QUOTES = '"""'
_BEGUN_MENTION = re.compile(r'(?:^|[\s(])@(?:"([^"\n]*)|([^\s"]*))$')


class Terminal:
    """The user interface of one conversation.

    `save` is called after each turn; `history` has the typed lines. A turn awaits `before_turn` before it asks
    the model. A question that waits for `bell` seconds rings.
    """

    def __init__(
        self,
        conversation: ChatConversation,
        view: TerminalView,
        *,
        store: SessionStore,
        save: Callable[[], None],
        history: Path | None,
        commands: UserCommands,
        attachments: Attachments,
        before_turn: Callable[[], Awaitable[None]],
        bell: float | None,
    ) -> None:
        self._user_commands = commands
        self._conversation = conversation
        self._view = view
        self._save = save
        self._commands = SlashCommands(conversation, view, store, commands, self.agree)
        typed_lines: History = InMemoryHistory() if history is None else FileHistory(str(history))
        self._command_names = [f"/{name}" for name in COMMANDS]  # the user's commands are added when they are known
        self._attachments = attachments
        self._before_turn = before_turn
        self._bell = bell
        self._prompt_session = input_session(typed_lines, InputCompleter(self._command_names, attachments.complete))
        self._question_session: PromptSession[str] = PromptSession()
        self._figures = TurnFigures(time.monotonic)
        self._output_lock = asyncio.Lock()  # one question at a time, and no output beside it
        self._turn_task: asyncio.Task[None] | None = None

    async def run(self) -> None:
        """Read lines and run turns until the user leaves."""
        await self._list_commands()
        while True:
            mode = self._conversation.permissions.mode
            prompt = "› " if mode == "ask" else f"{mode.replace('read_only', 'plan')} › "
            try:
                with patch_stdout(raw=True):  # a line about a server comes above the prompt
                    text = entered_text(await self._prompt_session.prompt_async(prompt))
            except KeyboardInterrupt:
                continue
            except EOFError:
                return
            if text.startswith("/"):
                if not await self._run_command(text):
                    return
            elif text:
                await self.run_turn(text)

    async def announce(self, report: Report) -> None:
        """Show a report about a server between other output; the server's prompts may be new commands."""
        async with self._output_lock:
            self._view.report(report.text, failed=report.failed)
        await self._list_commands()

    async def _list_commands(self) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LISTING_SECONDS):
                known = [f"/{name}" for name in (*COMMANDS, *await self._user_commands.list())]
                self._command_names[:] = known

    async def run_turn(self, text: str | TurnInput) -> None:
        """Run one turn; ctrl-C ends it."""
        before = self._conversation.session.messages
        await self._run_interruptible(self._stream_turn(text))
        if (
            self._turn_task is not None
            and self._turn_task.cancelled()
            and self._conversation.session.messages != before
        ):
            self._view.note("What came until then is kept; /undo takes it back.")

    async def _run_interruptible(self, work: Coroutine[None, None, None]) -> None:
        loop = asyncio.get_running_loop()
        self._turn_task = loop.create_task(work)
        with contextlib.suppress(NotImplementedError):  # Windows
            loop.add_signal_handler(signal.SIGINT, self._turn_task.cancel)
        try:
            with _hidden_keys():
                await asyncio.wait([self._turn_task])
        finally:
            with contextlib.suppress(NotImplementedError):
                loop.remove_signal_handler(signal.SIGINT)
            self._turn_task.cancel()
        self._view.end_turn()
        if self._turn_task.cancelled():
            self._view.note("(interrupted)")
        elif (error := self._turn_task.exception()) is not None:
            if isinstance(error, FcshimError):
                self._view.error(explain(error, filled_by_tools=self._conversation.is_filled_by_tools))
            elif isinstance(error, OSError):
                self._view.error(f"{error.filename}: {error.strerror}" if error.filename else str(error))
            else:
                raise error
        self._save()

    async def ask(self, request: PermissionRequest) -> PermissionDecision:
        """Show the whole call and ask the user whether it may run; ctrl-C ends the turn."""
        async with self._output_lock:
            call = describe_call(request, self._view.output.width)
            while True:
                self._view.write_rows(call.rows)
                choices = "[v]iew it whole, " if call.folded else f"[a]lways ({request.scope}), never, "
                answer = await self._read_line(f"  run it? [y]es, [n]o, {choices}or what to do instead: ")
                if not (call.folded and answer in ("v", "view")):
                    return _decision(answer, remember=not call.folded)
                call = describe_call(request, self._view.output.width, whole=True)

    async def confirm(self, action: str) -> bool:
        """Ask the user about an action other than a call."""
        async with self._output_lock:
            self._quote(action)
            return await self._read_line("  let it? [y]es, [n]o: ") in ("y", "yes")

    async def agree(self, question: str) -> bool:
        """Ask the user a yes-or-no question."""
        async with self._output_lock:
            return await self._read_line(f"  {question} [y]es, [n]o: ") in ("y", "yes")

    async def fill_form(self, form: "ElicitationForm") -> Mapping[str, JSON] | None:
        """Ask the user to fill in a server's form."""
        async with self._output_lock:
            return await fill_form(form, self._read_line, self._quote)

    def _quote(self, text: str) -> None:
        self._view.write_rows(quote(text, self._view.output.width))

    async def _read_line(self, question: str) -> str | None:
        """Ask for a line; return None if the user ends the turn instead.

        Input typed before the question is discarded: it cannot be an answer to it.
        """
        clear_typeahead(self._question_session.input)
        if sys.platform != "win32":
            with contextlib.suppress(termios.error, OSError, ValueError):
                termios.tcflush(sys.stdin, termios.TCIFLUSH)
        try:
            with patch_stdout(raw=True), self._figures.paused(), self._ringing():
                return (await self._question_session.prompt_async(sanitize_line(question))).strip()
        except (KeyboardInterrupt, EOFError):
            if self._turn_task is not None:
                self._turn_task.cancel()
            return None

    @contextlib.contextmanager
    def _ringing(self) -> Iterator[None]:
        """Ring once if the block lasts, unless the user has begun to answer."""
        timer = None if self._bell is None else asyncio.get_running_loop().call_later(self._bell, self._ring)
        try:
            yield
        finally:
            if timer is not None:
                timer.cancel()

    def _ring(self) -> None:
        if self._view.output.is_terminal and not self._question_session.default_buffer.text:
            self._question_session.output.bell()

    async def _stream_turn(self, given: str | TurnInput) -> None:
        self._view.show_waiting()
        self._figures = figures = TurnFigures(time.monotonic)
        turn = await self._with_files(given) if isinstance(given, str) else given
        await self._before_turn()
        async with aclosing(self._conversation.send(turn.messages, turn.allowed)) as events:
            waiting = asyncio.create_task(self._show_waiting(figures), name="waiting")
            try:
                async for event in events:
                    async with self._output_lock:  # nothing is painted over a question
                        figures.count(event)
                        self._view.show(event)
            finally:
                waiting.cancel()
        if has_images(turn.messages[-1].content) and (reason := await self._attachments.image_refusal()):
            self._view.note(f"the picture did not reach the model: {reason}")
        self._view.note(figures.line(await self._conversation.context_length()))

    async def _show_waiting(self, figures: TurnFigures) -> None:
        """Show each second how far the server has read the prompt, while nothing of the reply has come."""
        while True:
            await asyncio.sleep(_WAITING_SECONDS)
            stream = self._conversation.stream
            if stream is not None:
                async with self._output_lock:
                    self._view.update_waiting(figures.waiting_line(stream.progress, stream.prompt_tokens))

    async def _with_files(self, text: str) -> TurnInput:
        """Return a turn with the files that its question names, and show which are sent."""
        attached = await self._attachments.attach(text)
        for note in attached.notes:
            self._view.note(note)
        if attached.notes:
            self._view.show_waiting()
        return TurnInput((UserMessage(attached.content),))

    async def _run_command(self, text: str) -> bool:
        continues = True

        async def run() -> None:
            nonlocal continues
            name = text[1:].partition(" ")[0]
            turn = None
            if name not in (*COMMANDS, "exit"):
                await self._before_turn()  # the command may be a prompt of a server
                turn = await self._user_commands.find(text)
            if turn is None:
                continues = await self._commands.run(text)
            else:
                await self._stream_turn(turn)

        await self._run_interruptible(run())
        return continues


@contextlib.contextmanager
def _hidden_keys() -> Iterator[None]:
    """Keep the terminal from echoing keys in the middle of the output; the next prompt shows them."""
    try:
        kept = termios.tcgetattr(sys.stdin) if sys.platform != "win32" else None
    except (termios.error, OSError, ValueError):  # no terminal
        kept = None
    if sys.platform == "win32" or kept is None:
        yield
        return
    hidden = [*kept[:3], kept[3] & ~termios.ECHO, *kept[4:]]
    termios.tcsetattr(sys.stdin, termios.TCSADRAIN, hidden)
    try:
        yield
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, kept)


def _decision(answer: str | None, *, remember: bool) -> PermissionDecision:
    """Return the decision of an answer; it is remembered only if the call was shown whole."""
    if answer is None:
        return PermissionDecision(allowed=False)
    refusal = PermissionDecision(allowed=False, reason=f"The user refused: {answer}")
    decision = _DECISIONS.get(answer.lower(), refusal)
    return decision if remember else msgspec.structs.replace(decision, remember=False)


class InputCompleter(Completer):
    """Completes `/command` and `@file`; `commands` may grow, `complete_path` returns the paths with a prefix."""

    def __init__(self, commands: Sequence[str], complete_path: Callable[[str], Sequence[str]]) -> None:
        self._commands = commands
        self._complete_path = complete_path

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterator[Completion]:  # noqa: ARG002 - the base class's
        """Yield the completions of the text before the cursor."""
        before = document.text_before_cursor
        if before.startswith("/"):
            yield from (Completion(name, -len(before)) for name in self._commands if name.startswith(before))
        if (begun := _BEGUN_MENTION.search(before)) is not None:
            quoted = begun[1] is not None
            start = begun[1] if quoted else begun[2]
            for path in self._complete_path(start):
                shown = f'"{path}"' if quoted or re.search(r"\s", path) else path
                yield Completion(shown, -len(start) - quoted, display=path)


def input_session(history: History, completer: Completer) -> PromptSession[str]:
    """Return the prompt."""
    return PromptSession(
        history=history,
        completer=completer,
        complete_while_typing=False,
        multiline=True,
        key_bindings=_key_bindings(),
        prompt_continuation=lambda width, _number, _wrapped: " " * width,
    )


def entered_text(text: str) -> str:
    """Return the entered text without blanks around it, and without the quotes around several lines."""
    text = text.strip()
    quoted = len(text) >= 2 * len(_QUOTES) and text.startswith(_QUOTES) and text.endswith(_QUOTES)
    return text[len(_QUOTES) : -len(_QUOTES)].strip("\n") if quoted else text


def _key_bindings() -> KeyBindings:
    bindings = KeyBindings()

    @bindings.add("escape", "enter")
    def new_line(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text("\n")

    @bindings.add("enter")
    def send(event: KeyPressEvent) -> None:
        if not _continue_text(event.current_buffer):
            event.current_buffer.validate_and_handle()

    return bindings


def _continue_text(buffer: Buffer) -> bool:
    """Begin a new line if the text asks for one; return whether it does."""
    before = buffer.document.text_before_cursor
    if before.endswith("\\") and not buffer.document.text_after_cursor:
        buffer.delete_before_cursor()
    elif not (before.lstrip().startswith(_QUOTES) and buffer.text.count(_QUOTES) == 1):
        return False
    buffer.insert_text("\n")
    return True
