"""A scripted model: it returns the replies that a test gives it."""

import asyncio
import json

from fcshim.events import Stop, Text, ToolCallChunk, ToolCallEnd, ToolCallStart
from fcshim.messages import TextPart, UserMessage

HANG_FOREVER = object()
"""In a reply: wait until the reader has closed the stream."""


def user_message(text):
    """Make a user's message."""
    return UserMessage((TextPart(text),))


def text_reply(text):
    """Make a reply of text only."""
    return [Text(text), Stop("complete")]


def call_reply(*made, text=""):
    """Make a reply with calls, each a name and arguments."""
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
    """Returns its replies in order; records the requests, and how many replies were cancelled."""

    def __init__(self, *replies):
        self._replies = iter(replies)
        self.conversations = []
        self.tool_names = []
        self.models = []
        self.cancelled_count = 0
        self.hanging = asyncio.Event()

    def __call__(self, messages, tools, model=None):
        self.conversations.append(messages)
        self.tool_names.append([tool.name for tool in tools])
        self.models.append(model)
        return self._events(next(self._replies))

    async def _events(self, reply):
        try:
            for event in reply:
                if event is HANG_FOREVER:
                    self.hanging.set()
                    await asyncio.Event().wait()
                await asyncio.sleep(0)
                yield event
        except (GeneratorExit, asyncio.CancelledError):
            self.cancelled_count += 1
            raise
