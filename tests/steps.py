"""Measures the work of a function in bytecode instructions: without a clock, the same on every machine.

Work inside C functions (regular expressions, joins) is not counted; `benchmarks/` measures time.
"""

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any


def steps(function: Callable[[], object]) -> int:
    """Run the function and count the bytecode instructions that it executes."""
    count = 0

    def trace(frame: FrameType, event: str, _: object) -> Any:
        nonlocal count
        frame.f_trace_lines, frame.f_trace_opcodes = False, True
        count += event == "opcode"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        function()
    finally:
        sys.settrace(before)
    return count
