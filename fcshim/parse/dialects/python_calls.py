"""Dialects with calls as Python.

Rule: rows only; `literals.python_body` defines and reads the syntax.
"""

from fcshim.parse.body_selection import UnionBody
from fcshim.parse.dialect import Dialect
from fcshim.parse.json.body import JsonShape
from fcshim.parse.literals.python_body import PythonCalls

_PYTHON_OR_JSON = UnionBody((PythonCalls(), JsonShape()))
"""Some models write JSON between the same markers, on request or unprompted."""

PYTHONIC = Dialect(
    name="pythonic",
    summary="Llama 3.2 and 3.3, Gemma 3, and others: a list of Python calls, without any marker",
    open="",
    close="",
    body=PythonCalls(bare=True),
    starts="[",
    result_open="<function_result",
    result_close="</function_result>",
)

LLAMA4 = Dialect(
    name="llama4",
    summary="Llama 4: a list of Python calls between <|python_start|> and <|python_end|>",
    open="<|python_start|>",
    close="<|python_end|>",
    body=_PYTHON_OR_JSON,
    markup=("<|eom|>", "<|eot|>"),
    result_open="<function_result",
    result_close="</function_result>",
)

OLMO3 = Dialect(
    name="olmo3",
    summary="OLMo 3: Python calls, one a line, between <function_calls> tags",
    open="<function_calls>",
    close="</function_calls>",
    body=PythonCalls(),
    result_open="<function_result",
    result_close="</function_result>",
)

LFM2 = Dialect(
    name="lfm2",
    summary="LFM2 and LFM2.5: a list of Python calls between <|tool_call_start|> and <|tool_call_end|>",
    open="<|tool_call_start|>",
    close="<|tool_call_end|>",
    body=_PYTHON_OR_JSON,
    result_open="<|tool_response_start|>",
    result_close="<|tool_response_end|>",
)

TOOL_CODE = Dialect(
    name="tool_code",
    summary="Gemma 3 and Gemini in prompts: Python calls, one a line, in a code fence named tool_code",
    open="```tool_code",
    opens=("```python", "```tool_call"),
    close="```",
    body=PythonCalls(),
    result_open="<tool_output",
    result_close="</tool_output>",
)

PYTHON_CALLS = (PYTHONIC, LLAMA4, OLMO3, LFM2, TOOL_CODE)
