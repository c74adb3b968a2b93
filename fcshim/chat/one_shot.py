"""Runs one turn for scripts: the answer on stdout, or every event as a line of JSON.

Rule: stdout has only the model's text, or only JSON; everything else goes to stderr. The user is never asked.
"""

import sys
from collections.abc import AsyncGenerator
from contextlib import aclosing

import msgspec

from fcshim.agent import RoundEnded
from fcshim.chat.conversation import ChatConversation, ChatEvent
from fcshim.chat.terminal_view import TerminalView
from fcshim.errors import FcshimError
from fcshim.events import Text, Usage, total_usage
from fcshim.sanitize import sanitize


async def print_text(sent: AsyncGenerator[ChatEvent, None], view: TerminalView) -> None:
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


async def print_json(conversation: ChatConversation, sent: AsyncGenerator[ChatEvent, None]) -> None:
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
