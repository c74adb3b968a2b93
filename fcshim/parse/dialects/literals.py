"""Dialects with calls as literals: Python calls, and Gemma's syntax `call:f{key:value}`.

Rule: rows only; `literals.python_body` and `literals.gemma_body` define and read the syntax.
"""

from fcshim.parse.body_selection import UnionBody
from fcshim.parse.dialect import CallMarkers, Dialect, Markers, TurnMarkup
from fcshim.parse.json.body import JsonShape
from fcshim.parse.literals.gemma_body import GemmaCalls
from fcshim.parse.literals.python_body import PythonCalls

_PYTHON_OR_JSON = UnionBody((PythonCalls(), JsonShape()))
"""Some models write JSON between the same markers, on request or unprompted."""

PYTHONIC = Dialect(
    name="pythonic",
    summary="Llama 3.2 and 3.3, Gemma 3, and others: a list of Python calls, without any marker",
    call=CallMarkers(starts="["),
    body=PythonCalls(bare=True),
    result=Markers("<function_result", "</function_result>"),
)

LLAMA4 = Dialect(
    name="llama4",
    summary="Llama 4: a list of Python calls between <|python_start|> and <|python_end|>",
    call=CallMarkers("<|python_start|>", "<|python_end|>"),
    body=_PYTHON_OR_JSON,
    turn=TurnMarkup(tokens=("<|eom|>", "<|eot|>")),
    result=Markers("<function_result", "</function_result>"),
)

OLMO3 = Dialect(
    name="olmo3",
    summary="OLMo 3: Python calls, one a line, between <function_calls> tags",
    call=CallMarkers("<function_calls>", "</function_calls>"),
    body=PythonCalls(),
    result=Markers("<function_result", "</function_result>"),
)

LFM2 = Dialect(
    name="lfm2",
    summary="LFM2 and LFM2.5: a list of Python calls between <|tool_call_start|> and <|tool_call_end|>",
    call=CallMarkers("<|tool_call_start|>", "<|tool_call_end|>"),
    body=_PYTHON_OR_JSON,
    result=Markers("<|tool_response_start|>", "<|tool_response_end|>"),
)

TOOL_CODE = Dialect(
    name="tool_code",
    summary="Gemma 3 and Gemini in prompts: Python calls, one a line, in a code fence named tool_code",
    call=CallMarkers("```tool_code", "```", opens=("```python", "```tool_call")),
    body=PythonCalls(),
    result=Markers("<tool_output", "</tool_output>"),
)

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

LITERALS = (PYTHONIC, LLAMA4, OLMO3, LFM2, TOOL_CODE, GEMMA4, FUNCTIONGEMMA)
