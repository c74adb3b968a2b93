"""How much work a parser does, counted in instructions: no clock, no noise.

Rule: a reply comes in pieces of four characters, and is ended.
Neighbours: the tests of law 7 compare the work of a reply with that of one four times as long.
"""

import sys
from collections.abc import Sequence
from types import FrameType
from typing import Any

from fcshim.parse.stream import StreamParser


def work(text: str, dialect: str, tools: Sequence[Any]) -> int:
    """Count the bytecode instructions that reading the text takes."""
    parser = StreamParser(dialect, tools)
    count = 0

    def trace(frame: FrameType, event: str, _: object) -> Any:
        nonlocal count
        frame.f_trace_lines, frame.f_trace_opcodes = False, True
        count += event == "opcode"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        for at in range(0, len(text), 4):
            parser.feed(text[at : at + 4])
        parser.close()
    finally:
        sys.settrace(before)
    return count
