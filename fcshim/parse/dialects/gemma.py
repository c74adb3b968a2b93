"""Dialects in Gemma's syntax for calls: `call:f{key:value}`.

Rule: rows only; `literals.gemma_body` defines and reads the syntax.
"""

from fcshim.parse.dialect import CallMarkers, Dialect, Markers, TurnMarkup
from fcshim.parse.literals.gemma_body import GemmaCalls

GEMMA4 = Dialect(
    name="gemma4",
    summary='Gemma 4: call:name{key:value} between <|tool_call> and <tool_call|>, strings between <|"|> tokens',
    call=CallMarkers("<|tool_call>", "<tool_call|>", words=("call:",)),
    body=GemmaCalls(),
    quote='<|"|>',
    result=Markers("<|tool_response>", "<tool_response|>"),
    turn=TurnMarkup(tokens=("<turn|>",)),
)

FUNCTIONGEMMA = Dialect(
    name="functiongemma",
    summary="FunctionGemma: call:name{key:value} between <start_function_call> tags, strings between <escape> tokens",
    call=CallMarkers("<start_function_call>", "<end_function_call>"),
    body=GemmaCalls(),
    quote="<escape>",
    result=Markers("<start_function_response>", "<end_function_response>"),
    turn=TurnMarkup(tokens=("<end_of_turn>",)),
)

GEMMA = (GEMMA4, FUNCTIONGEMMA)
