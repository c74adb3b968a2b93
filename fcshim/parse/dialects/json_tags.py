"""Dialects with a call as a JSON object, or an array of them, between tags.

Rule: rows only; `JsonShape` defines the keys of the JSON.
"""

import functools
from dataclasses import replace

from fcshim.parse.call_keys import ARGUMENT_KEYS, NAME_KEYS
from fcshim.parse.dialect import CallMarkers, Dialect, Markers, TurnMarkup
from fcshim.parse.json.body import JsonShape

PARAMETERS_FIRST = ("parameters", *(key for key in ARGUMENT_KEYS if key != "parameters"))
TOOL_NAME_FIRST = ("tool_name", *(key for key in NAME_KEYS if key != "tool_name"))


def _case_variants(*tags: str) -> tuple[str, ...]:
    """Return the other letter cases in which models write a tag."""
    return tuple(spelled for tag in tags for spelled in (tag.upper(), tag.title()))


_row = functools.partial(Dialect, body=JsonShape(), result=Markers("<tool_response", "</tool_response>"))

FUNCTION_CALL = _row(
    name="function_call",
    summary="fcshim's own format: a JSON object with name and arguments between <function_call> tags",
    call=CallMarkers(
        "<function_call>",
        "</function_call>",
        opens=_case_variants("<function_call>"),
        closes=(*_case_variants("</function_call>"), "</tool_call>"),
    ),
    result=Markers("<function_result", "</function_result>"),
)

HERMES = _row(
    name="hermes",
    summary="Hermes, Qwen and many others: a JSON object with name and arguments between <tool_call> tags",
    call=CallMarkers(
        "<tool_call>",
        "</tool_call>",
        opens=_case_variants("<tool_call>"),
        closes=(*_case_variants("</tool_call>"), "</function_call>"),
    ),
)

ERNIE = replace(
    HERMES,
    name="ernie",
    summary="ERNIE 4.5: a JSON object with name and arguments between <tool_call> tags, results in <tool_output> tags",
    result=Markers("<tool_output", "</tool_output>"),
    turn=TurnMarkup(tokens=("<response>", "</response>")),
    templates="hermes",
)

GRANITE = _row(
    name="granite",
    summary="Granite 3, Phi-4-mini: a JSON array of calls after <|tool_call|>, without an end tag",
    call=CallMarkers("<|tool_call|>", opens=("<tool_call>",), closes=("<|/tool_call|>", "</tool_call>")),
)

GRANITE_20B_FC = _row(
    name="granite_20b_fc",
    summary="Granite 20B function calling: a JSON object after <function_call>, without an end tag",
    # Models trained on Glaive's data write the spelling in `opens`, with the arguments between single quotes.
    call=CallMarkers("<function_call>", opens=("<functioncall>",), closes=("</function_call>", "</functioncall>")),
    result=Markers("<function_response", "</function_response>"),
)

JAMBA = _row(
    name="jamba",
    summary="Jamba, Apriel: a JSON array of calls between <tool_calls> tags",
    call=CallMarkers(
        "<tool_calls>", "</tool_calls>", opens=_case_variants("<tool_calls>"), closes=_case_variants("</tool_calls>")
    ),
    templates="json_array",
)

HUNYUAN = replace(
    JAMBA,
    name="hunyuan",
    summary="Hunyuan A13B: a JSON array of calls between <tool_calls> tags, results in <tool_responses> tags",
    result=Markers("<tool_responses", "</tool_responses>"),
)

NEMOTRON_JSON = _row(
    name="nemotron_json",
    summary="Nemotron Nano 2: a JSON array of calls between <TOOLCALL> tags",
    call=CallMarkers("<TOOLCALL>", "</TOOLCALL>"),
    result=Markers("<TOOL_RESPONSE", "</TOOL_RESPONSE>"),
    templates="json_array",
)

GIGACHAT31 = _row(
    name="gigachat31",
    summary="GigaChat 3.1: a JSON object with name and arguments after <|function_call|>, without an end tag",
    call=CallMarkers("<|function_call|>"),
    turn=TurnMarkup(tokens=("<|message_sep|>",)),
    templates="granite_20b_fc",
)

SARASHINA = _row(
    name="sarashina",
    summary="Sarashina: an array of calls after <|tool_calls|>, in JSON or Python's notation",
    call=CallMarkers("<|tool_calls|>", starts="["),
    body=JsonShape(keyed=True),
    waits="calls in Python's notation (single quotes, True) are sent whole: they are read as JSON at their end",
    templates="granite",
)

LM_STUDIO = _row(
    name="lm_studio",
    summary="LM Studio, for models without tools: a JSON object with name and arguments between [TOOL_REQUEST] markers",
    call=CallMarkers("[TOOL_REQUEST]", "[END_TOOL_REQUEST]", closes=("[/TOOL_REQUEST]",)),
    templates="hermes",
)

TOOL_CALL_BLOCK = _row(
    name="tool_call_block",
    summary='MiniMax M2 in agents: {tool => "name", args => {--key "value"}}, or JSON, between [TOOL_CALL] markers',
    call=CallMarkers("[TOOL_CALL]", "[/TOOL_CALL]"),
    waits="arguments in the notation of a command line are sent whole: they are read at their end",
    templates="hermes",
)

INTERNLM2 = _row(
    name="internlm2",
    summary="InternLM 2: a JSON object with name and parameters between <|action_start|><|plugin|> and <|action_end|>",
    call=CallMarkers("<|action_start|><|plugin|>", "<|action_end|>", opens=("<|action_start|> <|plugin|>",)),
    body=JsonShape(argument_keys=PARAMETERS_FIRST),
)

COHERE = _row(
    name="cohere",
    summary="Command R7B, Command A: an array of {tool_call_id, tool_name, parameters} between <|START_ACTION|>, "
    "<|END_ACTION|>",
    call=CallMarkers("<|START_ACTION|>", "<|END_ACTION|>"),
    body=JsonShape(name_keys=TOOL_NAME_FIRST, argument_keys=PARAMETERS_FIRST),
    result=Markers("<|START_TOOL_RESULT|>", "<|END_TOOL_RESULT|>"),
    turn=TurnMarkup(
        tokens=("<|START_RESPONSE|>", "<|END_RESPONSE|>", "<|START_TEXT|>", "<|END_TEXT|>", "<|END_OF_TURN_TOKEN|>")
    ),
)

APERTUS = _row(
    name="apertus",
    summary="Apertus: an array of objects with a tool's name as key and its arguments as value",
    call=CallMarkers("<|tools_prefix|>", "<|tools_suffix|>"),
    body=JsonShape(name_is_key=True),
)

JSON_TAGS = (
    *(FUNCTION_CALL, HERMES, ERNIE, GRANITE, GRANITE_20B_FC, JAMBA, HUNYUAN, NEMOTRON_JSON, INTERNLM2, COHERE),
    *(APERTUS, GIGACHAT31, SARASHINA, LM_STUDIO, TOOL_CALL_BLOCK),
)
