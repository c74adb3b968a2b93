"""Measures the work of a function in bytecode instructions, or in lines: without a clock, the same on every machine.

Work inside C functions (regular expressions, joins) is not counted; `benchmarks/` measures time.
"""

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any, Literal


def steps(function: Callable[[], object], unit: Literal["opcode", "line"] = "opcode") -> int:
    """Run the function and count the bytecode instructions that it executes, or the lines: a quarter of the cost.

    A loop within one line counts once for each time around.
    """
    count = 0

    def each(_: FrameType, event: str, __: object) -> None:
        nonlocal count
        if event == unit:
            count += 1

    def trace(frame: FrameType, _: str, __: object) -> Any:
        frame.f_trace_lines, frame.f_trace_opcodes = unit == "line", unit == "opcode"
        return each

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        function()
    finally:
        sys.settrace(before)
    return count
