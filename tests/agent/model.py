"""A model that says what the test has written for it."""

import asyncio
import json

from fcshim.events import Stop, Text, ToolCallChunk, ToolCallEnd, ToolCallStart
from fcshim.messages import TextPart, UserMessage

HANG_FOREVER = object()
"""In a reply: say nothing more until whoever listens has left."""


def user_message(text):
    """Make a user's message."""
    return UserMessage((TextPart(text),))


def text_reply(text):
    """Make a reply that only says something."""
    return [Text(text), Stop("complete")]


def call_reply(*made, text=""):
    """Make a reply with calls: (name, arguments) each."""
    events = [Text(text)] if text else []
    for index, (name, arguments) in enumerate(made):
        written = json.dumps(arguments)
        events += [
            ToolCallStart(f"call_{index}", name, index),
            ToolCallChunk(f"call_{index}", written, index),
            ToolCallEnd(f"call_{index}", name, written, index),
        ]
    return [*events, Stop("tool_use")]


class ScriptedModel:
    """Gives its replies in their order; keeps what it was asked, and whether it was left alone before its end."""

    def __init__(self, *replies):
        self._replies = iter(replies)
        self.conversations = []
        self.tool_names = []
        self.models = []
        self.cancelled_count = 0

    def __call__(self, messages, tools, model=None):
        self.conversations.append(messages)
        self.tool_names.append([tool.name for tool in tools])
        self.models.append(model)
        return self._events(next(self._replies))

    async def _events(self, reply):
        try:
            for event in reply:
                if event is HANG_FOREVER:
                    await asyncio.Event().wait()
                await asyncio.sleep(0)
                yield event
        except (GeneratorExit, asyncio.CancelledError):
            self.cancelled_count += 1
            raise
