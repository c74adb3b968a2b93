"""Adapts the chat to the embedded demo model: a tool, an introduction, and the questions that it cannot answer.

Rule: the tiny model only copies from commands of a few forms. Anything else is not sent to it, and the answer says what
to type instead.
"""

from collections.abc import Collection

from fcshim.demo.tool_client import COMMAND, add_numbers
from fcshim.tools import FunctionTool, Traits

REPLY_TOKENS = 256
"""Tokens of one reply; a tiny model that repeats itself would not stop before its context is full."""
_CALL_WORDS = ("call", "use", "run")
_ECHO_WORDS = ("say", "repeat", "echo")


def demo_tool() -> FunctionTool:
    """Return the tool of a chat that has no others."""
    return FunctionTool(add_numbers, traits=Traits(sensitivity="safe", reads_only=True, source="builtin:demo"))


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
    if first.lower() in _CALL_WORDS and second in names:
        return ""
    return f"The demo model cannot understand this, so it was not asked. Type:\n{_examples(names)}"


def _examples(names: Collection[str]) -> str:
    call = COMMAND if add_numbers.__name__ in names else "call NAME with KEY=VALUE, KEY=VALUE   (/tools has the names)"
    return f"  {call}\n  say hello there\nA real model needs its address: fcshim chat http://127.0.0.1:8080"
