"""Dialects with calls as JSON without tags: bare, in a code fence, or after a word at the start of a line.

Rule: rows only. Unless the dialect is selected, such a call counts only if nothing but calls follows it.
"""

import functools

from fcshim.parse.body_selection import UnionBody
from fcshim.parse.dialect import CallMarkers, Dialect, Markers, TurnMarkup
from fcshim.parse.dialects.json_tags import PARAMETERS_FIRST, TOOL_NAME_FIRST
from fcshim.parse.json.body import JsonShape
from fcshim.parse.literals.python_body import PythonCalls

_row = functools.partial(Dialect, body=JsonShape(keyed=True), result=Markers("<tool_response", "</tool_response>"))

LLAMA3_JSON = _row(
    name="llama3_json",
    summary="Llama 3 and 4: JSON objects with name and parameters, bare or after <|python_tag|>, joined by semicolons",
    call=CallMarkers("<|python_tag|>", starts="{"),
    # After the tag the models also call their built-in tools: `brave_search.call(query="x")`.
    body=UnionBody(
        (JsonShape(argument_keys=PARAMETERS_FIRST, semicolons=True, keyed=True), PythonCalls(method="call")),
    ),
    turn=TurnMarkup(tokens=("<|eom_id|>", "<|eot_id|>")),
)

BARE_JSON = _row(
    name="bare_json",
    summary="no tags at all: a JSON object with name and arguments, or an array of them, at the start of a line",
    call=CallMarkers(starts="{["),
)

XLAM = _row(
    name="xlam",
    templates="json_array",
    summary="xLAM: a bare JSON array of calls, or one JSON object",
    call=CallMarkers(starts="[{"),
)

FENCED_JSON = _row(
    name="fenced_json",
    summary="a JSON object with name and arguments, or an array of them, in a Markdown code fence",
    call=CallMarkers("```json", "```", opens=("```", "```tool_call")),
)

PHI4 = _row(
    name="phi4",
    summary="Phi-4-mini, FireFunction: the word functools and a JSON array of calls",
    call=CallMarkers("functools"),
)

GIGACHAT3 = _row(
    name="gigachat3",
    summary="GigaChat 3: a turn of the role `function call` with a JSON object with name and arguments",
    call=CallMarkers("function call<|role_sep|>", opens=("function call", "<|function_call|>"), at_line_start=True),
    turn=TurnMarkup(tokens=("<|message_sep|>",)),
)

COMMAND_R = _row(
    name="command_r",
    summary="Command R and R+: Action: and an array of {tool_name, parameters} in a JSON fence",
    call=CallMarkers("Action:", "```", at_line_start=True),
    body=JsonShape(name_keys=TOOL_NAME_FIRST, argument_keys=PARAMETERS_FIRST, keyed=True),
    result=Markers("<results", "</results>"),
)

JSON_BARE = (LLAMA3_JSON, PHI4, GIGACHAT3, COMMAND_R, BARE_JSON, XLAM, FENCED_JSON)
