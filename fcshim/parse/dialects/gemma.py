"""Dialects in Gemma's syntax for calls: `call:f{key:value}`.

Rule: rows only; `literals.gemma_body` defines and reads the syntax.
"""

from fcshim.parse.dialect import Dialect
from fcshim.parse.literals.gemma_body import GemmaCalls

GEMMA4 = Dialect(
    name="gemma4",
    summary='Gemma 4: call:name{key:value} between <|tool_call> and <tool_call|>, strings between <|"|> tokens',
    open="<|tool_call>",
    close="<tool_call|>",
    words=("call:",),
    body=GemmaCalls(),
    quote='<|"|>',
    result_open="<|tool_response>",
    result_close="<tool_response|>",
    markup=("<turn|>",),
)

FUNCTIONGEMMA = Dialect(
    name="functiongemma",
    summary="FunctionGemma: call:name{key:value} between <start_function_call> tags, strings between <escape> tokens",
    open="<start_function_call>",
    close="<end_function_call>",
    body=GemmaCalls(),
    quote="<escape>",
    result_open="<start_function_response>",
    result_close="<end_function_response>",
    markup=("<end_of_turn>",),
)

GEMMA = (GEMMA4, FUNCTIONGEMMA)
