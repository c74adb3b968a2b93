"""Dialects with a call as a JSON object, or an array of them, between tags.

Rule: rows only; `JsonShape` defines the keys of the JSON.
"""

from fcshim.parse.call_keys import ARGUMENT_KEYS, NAME_KEYS
from fcshim.parse.dialect import Dialect
from fcshim.parse.json.body import JsonShape

PARAMETERS_FIRST = ("parameters", *(key for key in ARGUMENT_KEYS if key != "parameters"))
TOOL_NAME_FIRST = ("tool_name", *(key for key in NAME_KEYS if key != "tool_name"))


def _case_variants(*tags: str) -> tuple[str, ...]:
    """Return the other letter cases in which models write a tag."""
    return tuple(spelled for tag in tags for spelled in (tag.upper(), tag.title()))


FUNCTION_CALL = Dialect(
    name="function_call",
    summary="fcshim's own format: a JSON object with name and arguments between <function_call> tags",
    open="<function_call>",
    close="</function_call>",
    opens=_case_variants("<function_call>"),
    closes=(*_case_variants("</function_call>"), "</tool_call>"),
    body=JsonShape(),
    result_open="<function_result",
    result_close="</function_result>",
)

HERMES = Dialect(
    name="hermes",
    summary="Hermes, Qwen and many others: a JSON object with name and arguments between <tool_call> tags",
    open="<tool_call>",
    close="</tool_call>",
    opens=_case_variants("<tool_call>"),
    closes=(*_case_variants("</tool_call>"), "</function_call>"),
    body=JsonShape(),
    result_open="<tool_response",
    result_close="</tool_response>",
)

ERNIE = Dialect(
    name="ernie",
    summary="ERNIE 4.5: a JSON object with name and arguments between <tool_call> tags, results in <tool_output> tags",
    open="<tool_call>",
    close="</tool_call>",
    opens=_case_variants("<tool_call>"),
    closes=(*_case_variants("</tool_call>"), "</function_call>"),
    body=JsonShape(),
    result_open="<tool_output",
    result_close="</tool_output>",
    markup=("<response>", "</response>"),
    templates="hermes",
)

GRANITE = Dialect(
    name="granite",
    summary="Granite 3, Phi-4-mini: a JSON array of calls after <|tool_call|>, without an end tag",
    open="<|tool_call|>",
    close="",
    opens=("<tool_call>",),
    closes=("<|/tool_call|>", "</tool_call>"),
    body=JsonShape(),
    result_open="<tool_response",
    result_close="</tool_response>",
)

GRANITE_20B_FC = Dialect(
    name="granite_20b_fc",
    summary="Granite 20B function calling: a JSON object after <function_call>, without an end tag",
    open="<function_call>",
    # Models trained on Glaive's data write this, with the arguments between single quotes.
    opens=("<functioncall>",),
    close="",
    body=JsonShape(),
    closes=("</function_call>", "</functioncall>"),
    result_open="<function_response",
    result_close="</function_response>",
)

JAMBA = Dialect(
    name="jamba",
    summary="Jamba, Apriel: a JSON array of calls between <tool_calls> tags",
    open="<tool_calls>",
    close="</tool_calls>",
    opens=_case_variants("<tool_calls>"),
    closes=_case_variants("</tool_calls>"),
    body=JsonShape(),
    result_open="<tool_response",
    result_close="</tool_response>",
    templates="json_array",
)

HUNYUAN = Dialect(
    name="hunyuan",
    summary="Hunyuan A13B: a JSON array of calls between <tool_calls> tags, results in <tool_responses> tags",
    open="<tool_calls>",
    close="</tool_calls>",
    opens=_case_variants("<tool_calls>"),
    closes=_case_variants("</tool_calls>"),
    body=JsonShape(),
    result_open="<tool_responses",
    result_close="</tool_responses>",
    templates="json_array",
)

NEMOTRON_JSON = Dialect(
    name="nemotron_json",
    summary="Nemotron Nano 2: a JSON array of calls between <TOOLCALL> tags",
    open="<TOOLCALL>",
    close="</TOOLCALL>",
    body=JsonShape(),
    result_open="<TOOL_RESPONSE",
    result_close="</TOOL_RESPONSE>",
    templates="json_array",
)

GIGACHAT31 = Dialect(
    name="gigachat31",
    summary="GigaChat 3.1: a JSON object with name and arguments after <|function_call|>, without an end tag",
    open="<|function_call|>",
    close="",
    body=JsonShape(),
    result_open="<tool_response",
    result_close="</tool_response>",
    markup=("<|message_sep|>",),
    templates="granite_20b_fc",
)

SARASHINA = Dialect(
    name="sarashina",
    summary="Sarashina: an array of calls after <|tool_calls|>, in JSON or Python's notation",
    open="<|tool_calls|>",
    close="",
    body=JsonShape(keyed=True),
    starts="[",
    result_open="<tool_response",
    result_close="</tool_response>",
    waits="calls in Python's notation (single quotes, True) are sent whole: they are read as JSON at their end",
    templates="granite",
)

LM_STUDIO = Dialect(
    name="lm_studio",
    summary="LM Studio, for models without tools: a JSON object with name and arguments between [TOOL_REQUEST] markers",
    open="[TOOL_REQUEST]",
    close="[END_TOOL_REQUEST]",
    closes=("[/TOOL_REQUEST]",),
    body=JsonShape(),
    result_open="<tool_response",
    result_close="</tool_response>",
    templates="hermes",
)

TOOL_CALL_BLOCK = Dialect(
    name="tool_call_block",
    summary='MiniMax M2 in agents: {tool => "name", args => {--key "value"}}, or JSON, between [TOOL_CALL] markers',
    open="[TOOL_CALL]",
    close="[/TOOL_CALL]",
    body=JsonShape(),
    result_open="<tool_response",
    result_close="</tool_response>",
    waits="arguments in the notation of a command line are sent whole: they are read at their end",
    templates="hermes",
)

INTERNLM2 = Dialect(
    name="internlm2",
    summary="InternLM 2: a JSON object with name and parameters between <|action_start|><|plugin|> and <|action_end|>",
    open="<|action_start|><|plugin|>",
    opens=("<|action_start|> <|plugin|>",),
    close="<|action_end|>",
    body=JsonShape(argument_keys=PARAMETERS_FIRST),
    result_open="<tool_response",
    result_close="</tool_response>",
)

COHERE = Dialect(
    name="cohere",
    summary="Command R7B, Command A: an array of {tool_call_id, tool_name, parameters} between <|START_ACTION|>, "
    "<|END_ACTION|>",
    open="<|START_ACTION|>",
    close="<|END_ACTION|>",
    body=JsonShape(name_keys=TOOL_NAME_FIRST, argument_keys=PARAMETERS_FIRST),
    result_open="<|START_TOOL_RESULT|>",
    result_close="<|END_TOOL_RESULT|>",
    markup=("<|START_RESPONSE|>", "<|END_RESPONSE|>", "<|START_TEXT|>", "<|END_TEXT|>", "<|END_OF_TURN_TOKEN|>"),
)

APERTUS = Dialect(
    name="apertus",
    summary="Apertus: an array of objects with a tool's name as key and its arguments as value",
    open="<|tools_prefix|>",
    close="<|tools_suffix|>",
    body=JsonShape(name_is_key=True),
    result_open="<tool_response",
    result_close="</tool_response>",
)

JSON_TAGS = (
    FUNCTION_CALL,
    HERMES,
    ERNIE,
    GRANITE,
    GRANITE_20B_FC,
    JAMBA,
    HUNYUAN,
    NEMOTRON_JSON,
    INTERNLM2,
    COHERE,
    APERTUS,
    GIGACHAT31,
    SARASHINA,
    LM_STUDIO,
    TOOL_CALL_BLOCK,
)
