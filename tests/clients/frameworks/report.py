"""What every framework's program does: read its arguments, have one conversation, print a report.

Rule: the last line of the output is JSON: the final text, and the arguments with which the tool was called, even if the
conversation ended with an error.
"""

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable

QUESTION = "What is 1 + 2?"
called: list[list] = []


def add(a: int, b: int) -> int:
    """Add two numbers.

    Args:
        a: the one
        b: the other
    """
    called.append([a, b])
    return a + b


def run(converse: Callable[[str, str, bool], Awaitable[str]]) -> None:
    """Call `converse(api, url, stream)`, which returns the final text."""
    api, url, mode = sys.argv[1:]
    text = ""
    try:
        text = asyncio.run(converse(api, url, mode == "streamed"))
    finally:
        sys.stdout.write("\n" + json.dumps({"text": text, "called": called}) + "\n")
