"""Adapts the chat to the embedded demo model: a tool, an introduction, and the limits of what it can be asked.

Rule: the tiny model only copies from commands of a few forms. Anything else is not sent to it, and the answer says what
to type instead.
"""

import difflib
from collections.abc import Collection, Sequence

from fcshim.chat.conversation import ModelLimits
from fcshim.demo.tool_client import COMMAND, add_numbers
from fcshim.mcp.tool_names import SEPARATOR
from fcshim.messages import Message, Tool, UserMessage, text_of
from fcshim.sampling import Sampling
from fcshim.tools import FunctionTool, Registry, Traits

_MIN_SIMILARITY = 0.7
"""Similarity ratio of `difflib`, from 0 to 1, above which a name, or its last part, is suggested."""
REPLY_TOKENS = 256
"""Tokens of one reply; a tiny model that repeats itself would not stop before its context is full."""
MAX_TOOLS = 3
"""Tools that one request offers: the definitions of more do not fit its context."""
_CALL_WORDS = ("call", "use", "run")
_ECHO_WORDS = ("say", "repeat", "echo")


def demo_tool() -> FunctionTool:
    """Return the tool of a chat that has no others."""
    return FunctionTool(add_numbers, traits=Traits(sensitivity="safe", reads_only=True, source="builtin:demo"))


class DemoLimits(ModelLimits):
    """What the embedded model can be asked, with the tools of `registry`."""

    sampling: Sampling = {"max_tokens": REPLY_TOKENS}

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    def refusal(self, text: str) -> str:
        """Return why a question is not sent to it, and what to type instead."""
        return refusal(text, self._registry.get_names())

    def narrow(
        self, messages: tuple[Message, ...], tools: tuple[Tool, ...]
    ) -> tuple[tuple[Message, ...], tuple[Tool, ...]]:
        """Return the current turn and the few tools that fit its context."""
        turn = current_turn(messages)
        return turn, chosen_tools(turn, tools)


def introduction(names: Collection[str]) -> str:
    """Return what the model can and cannot do with these tools."""
    return (
        "The demo model is tiny and only copies: it writes calls that you dictate, and\n"
        f"repeats words. It understands nothing, so it is asked nothing else. Type:\n{_examples(names)}"
    )


def refusal(text: str, names: Collection[str]) -> str:
    """Return why a text is not sent to the model, and what to type instead; empty for a supported command."""
    words = text.split()
    if words[:1] and words[0].lower() == "please":
        del words[0]
    first, second, *_ = (*words, "", "")
    if first in names or (first.lower() in _ECHO_WORDS and second):
        return ""
    is_call = first.lower() in _CALL_WORDS
    if is_call and second in names:
        return ""
    called = second if is_call else first
    by_part = {part: name for name in names for part in (name.rpartition(SEPARATOR)[2].lower(), name.lower())}
    similar = difflib.get_close_matches(called.lower(), by_part, n=1, cutoff=_MIN_SIMILARITY) if called else []
    if similar:
        return f"There is no tool {called!r:.80}, did you mean {by_part[similar[0]]}?"
    return f"The demo model cannot understand this, so it was not asked. Type:\n{_examples(names)}"


def current_turn(messages: Sequence[Message]) -> tuple[Message, ...]:
    """Return the messages from the last question on: the model copies from whatever it sees."""
    start = max((at for at, each in enumerate(messages) if isinstance(each, UserMessage)), default=0)
    return tuple(messages[start:])


def chosen_tools(messages: Sequence[Message], tools: Sequence[Tool]) -> tuple[Tool, ...]:
    """Return at most `MAX_TOOLS` tools: those that the question names, then the first ones, in their order."""
    words = {word for each in messages if isinstance(each, UserMessage) for word in text_of(each.content).split()}
    chosen = sorted(tools, key=lambda tool: tool.name not in words)[:MAX_TOOLS]
    return tuple(tool for tool in tools if tool in chosen)


def _examples(names: Collection[str]) -> str:
    call = COMMAND if add_numbers.__name__ in names else "call NAME with KEY=VALUE, KEY=VALUE   (/tools has the names)"
    return f"  {call}\n  say hello there\nA real model needs its address: fcshim chat http://127.0.0.1:8080"
