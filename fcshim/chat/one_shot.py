"""Runs one turn for scripts: the answer on stdout, or every event as a line of JSON.

Rule: stdout has only the model's text, or only JSON; everything else goes to stderr. The user is never asked.
"""

import sys
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import TYPE_CHECKING

import msgspec

from fcshim.agent import RoundEnded
from fcshim.chat.advice import explain
from fcshim.chat.conversation import ChatConversation, ChatEvent
from fcshim.chat.settings import ChatSettings
from fcshim.chat.terminal_view import TerminalView
from fcshim.chat.tools import ChatTools
from fcshim.chat.user_commands import TurnInput
from fcshim.errors import FcshimError
from fcshim.events import Text, Usage, total_usage
from fcshim.messages import TextPart, UserMessage
from fcshim.sanitize import sanitize
from fcshim.tools.permission import describe_untrusted

if TYPE_CHECKING:
    from fcshim.chat.servers import ServerWatch

_QUIET_SECONDS = 3.0
"""Seconds of waiting before a message says so."""


async def run_script(
    conversation: ChatConversation, tools: ChatTools, prompt: str, view: TerminalView, settings: ChatSettings
) -> None:
    """Run one turn, with the tools of the servers that connect in time. Raises `FcshimError`, with advice."""
    if tools.servers is not None:
        await _wait_for_servers(tools.servers, settings.script_wait, view)
    if untrusted := describe_untrusted(tools.registry, conversation.permissions.may_run_unasked):
        view.note(untrusted)
    turn = await tools.commands.find(prompt) if prompt.startswith("/") else None
    turn = turn or TurnInput((UserMessage((TextPart(prompt),)),))
    events = conversation.send(turn.messages, turn.allowed)
    try:
        await (_print_json(conversation, events) if settings.json else _print_text(events, view))
    except FcshimError as error:
        error.message = explain(error, script=True, filled_by_tools=conversation.is_filled_by_tools)
        raise


async def _wait_for_servers(servers: "ServerWatch", seconds: float, view: TerminalView) -> None:
    """Wait for servers, and report on stderr those that are slow or failed."""
    await servers.wait(min(seconds, _QUIET_SECONDS))
    if connecting := servers.connecting():
        view.note(f"waiting for {', '.join(connecting)} to connect, {seconds:g} s at most")
        await servers.wait(seconds - _QUIET_SECONDS)
    for report in servers.changes():
        if report.failed:
            view.error(report.text)
    if connecting := servers.connecting():
        names = ", ".join(connecting)
        view.error(f"{names}: no answer within {seconds:g} s; the turn runs without. --wait SECONDS waits longer.")


async def _print_text(sent: AsyncGenerator[ChatEvent, None], view: TerminalView) -> None:
    """Stream the model's text to stdout, and everything else to the terminal. Raises `FcshimError`."""
    clean = sanitize if sys.stdout.isatty() else str
    last = "\n"
    async with aclosing(sent) as events:
        async for event in events:
            view.show(event)
            if isinstance(event, Text):
                _write(clean(event.text))
                last = event.text
            elif isinstance(event, RoundEnded):
                if event.answer and event.answer != event.reply.text:  # a tool's final result, which was not streamed
                    last = event.answer
                    _write(clean(last))
                if not last.endswith("\n"):
                    _write("\n")
                last = "\n"


async def _print_json(conversation: ChatConversation, sent: AsyncGenerator[ChatEvent, None]) -> None:
    """Write every event as a line; the last one has the answer. Raises `FcshimError`, after a line with it."""
    session = conversation.session
    _write_json(
        {"type": "session", "id": session.id, "model": session.model, "tools": conversation.registry.get_names()},
    )
    usages: list[Usage | None] = []
    answer: str | None = None
    try:
        async with aclosing(sent) as events:
            async for event in events:
                if isinstance(event, RoundEnded):  # without its messages, which the session's file has
                    answer, stop_reason = event.answer, event.reply.stop_reason
                    _write_json({"type": "round_ended", "answer": answer, "stop_reason": stop_reason})
                else:
                    _write_json(event)
                    if isinstance(event, Usage):
                        usages.append(event)
    except FcshimError as error:
        _write_json({"type": "error", "kind": error.kind, "message": error.message})
        raise
    usage = msgspec.to_builtins(total_usage(usages) or Usage())
    _write_json({"type": "answer", "text": answer or "", "usage": usage, "session": session.id})


def _write_json(value: object) -> None:
    text = msgspec.json.encode(value).decode()
    _write((sanitize(text) if sys.stdout.isatty() else text) + "\n")


def _write(text: str) -> None:
    sys.stdout.buffer.write(text.encode(errors="replace"))
    sys.stdout.buffer.flush()
