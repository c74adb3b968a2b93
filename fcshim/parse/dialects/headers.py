"""Dialects with a tool's name in a header, and its arguments as a JSON object after it.

Rule: rows only; a header's pattern has no unbounded repetition, and ends where more text cannot change the match.
"""

import functools
from dataclasses import replace

from fcshim.parse.call_keys import ARGUMENT_KEYS
from fcshim.parse.dialect import CallMarkers, Dialect, Markers, TurnMarkup
from fcshim.parse.json.body import JsonShape
from fcshim.parse.json.header import HeaderShape

_NAME = r"(?P<name>[^\n]{1,160}?)"
_BROKEN_OFF = r"[^\n]{0,176}\n"
"""A header that is broken off, up to the start marker with which the call is begun again."""

_CALL_ID = r"\[CALL_ID\][^\n\[\]{]{0,64}"
_BETWEEN_CALLS = r"[ \t\r\n]{0,8}(?:,[ \t\r\n]{0,8})?"
_WORD = r"[^\W\d][\w.:/-]{0,127}"

_row = functools.partial(Dialect, result=Markers("<tool_response", "</tool_response>"))

MISTRAL = _row(
    name="mistral",
    summary="Mistral: [TOOL_CALLS], then name, [ARGS] and arguments for each call, or (the old form) a JSON array",
    call=CallMarkers("[TOOL_CALLS]"),
    body=HeaderShape(
        rf"\s{{0,8}}+(?!<){_NAME}\s{{0,4}}(?:{_CALL_ID})?(?:\[ARGS\]\s{{0,8}})?(?=[{{｛])",
        next_header=rf"{_BETWEEN_CALLS}(?P<name>{_WORD})[ \t]{{0,4}}(?:{_CALL_ID})?\[ARGS\]\s{{0,8}}(?=[{{｛])",
        partial_next=rf"{_BETWEEN_CALLS}(?:{_WORD}(?:[ \t]{{0,4}}(?:{_CALL_ID})?(?:\[[A-Z_]{{0,7}}\]?\s{{0,8}})?)?)?\Z",
        words=("[CALL_ID]", "[ARGS]"),
        lines=2,
        never=rf"\s{{0,8}}<|{_BROKEN_OFF}\[TOOL_CALLS\]",
        json=JsonShape(),
    ),
    result=Markers("[TOOL_RESULTS]", "[/TOOL_RESULTS]"),
)

# One pattern for both generations: their markers are the same, and the first row with a marker reads the section.
_DEEPSEEK = HeaderShape(
    r"\s{0,4}(?:function<｜tool▁sep｜>)?(?![{｛`<])"
    rf"{_NAME}(?:<｜tool▁sep｜>|\n|(?=[ \t]{{0,4}}```))\s{{0,8}}(?:```(?:json)?\s{{0,4}})?"
    r"(?=[{｛]|<｜tool▁call▁end｜>)",
    ends=("{", "｛", "<｜tool▁call▁end｜>"),
    lines=4,
    never=rf"{_BROKEN_OFF}<｜tool",
)
_DEEPSEEK_SECTIONS = (
    # Spellings of the first generation when it does not emit the special token.
    "<｜tool_calls_begin｜>",
    "<｜tool calls begin｜>",
    "<｜tool\\_calls\\_begin｜>",
    "<｜tool▁calls｜>",
)

DEEPSEEK_V3 = _row(
    name="deepseek_v3",
    summary="DeepSeek V3, R1: name and arguments in a JSON fence between <｜tool▁call▁begin｜> and <｜tool▁call▁end｜>",
    # R1 forgets the marker before the one in `opens`.
    call=CallMarkers("<｜tool▁call▁begin｜>", "<｜tool▁call▁end｜>", opens=("function<｜tool▁sep｜>",)),
    body=_DEEPSEEK,
    section=Markers("<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>", opens=_DEEPSEEK_SECTIONS),
    result=Markers("<｜tool▁outputs▁begin｜>", "<｜tool▁outputs▁end｜>"),
    turn=TurnMarkup(tokens=("<｜end▁of▁sentence｜>",)),
)

DEEPSEEK_V31 = replace(
    DEEPSEEK_V3,
    name="deepseek_v31",
    summary="DeepSeek V3.1: name, <｜tool▁sep｜> and arguments between <｜tool▁call▁begin｜> and <｜tool▁call▁end｜>",
)

KIMI_K2 = _row(
    name="kimi_k2",
    summary="Kimi K2: functions.NAME:INDEX, <|tool_call_argument_begin|> and arguments in a section of calls",
    call=CallMarkers("<|tool_call_begin|>", "<|tool_call_end|>"),
    body=HeaderShape(
        rf"\s{{0,4}}+(?!<)(?:functions\.)?{_NAME}(?::\d{{1,6}})?\s{{0,4}}<\|tool_call_argument_begin\|>",
        ends=("<|tool_call_argument_begin|>",),
        lines=2,
        never=rf"{_BROKEN_OFF}<\|tool_call(?:s|_[^a])",
    ),
    section=Markers("<|tool_calls_section_begin|>", "<|tool_calls_section_end|>"),
    turn=TurnMarkup(tokens=("<|im_end|>",)),
)

FUNCTIONARY = _row(
    name="functionary",
    summary="Functionary v3.2: >>>, the tool's name, and its arguments on the next line",
    call=CallMarkers(">>>", may_be_in_prompt=True),
    body=HeaderShape(rf"(?![>\s]){_NAME}[ \t]{{0,4}}\n\s{{0,8}}(?=[{{｛])", lines=4, never=rf"{_BROKEN_OFF}>>>"),
    turn=TurnMarkup(tokens=(">>>all\n",)),
)

FUNCTIONARY_V31 = _row(
    name="functionary_v31",
    summary="Functionary v3.1, Llama 3.1: the arguments between <function=NAME> and </function>",
    call=CallMarkers("<function=", "</function>"),
    body=HeaderShape(
        # Without `>` in the name: otherwise the tags inside an element were one, up to its end tag.
        r"(?P<name>[^\n>]{1,160}?)(?:>\s{0,8}(?=[{｛]|</function>)|(?=[{｛]))",
        ends=("{", "｛", "</function>"),
        lines=4,
        never=rf"[^\n>]{{1,160}}>\s{{0,8}}(?:[^\s<{{｛]|<[^/])|{_BROKEN_OFF}<function=",
    ),
)

_FINAL = ("<|channel|>final<|message|>", "<|channel|>final <|constrain|>json<|message|>")

HARMONY = _row(
    name="harmony",
    summary="gpt-oss: a message on the commentary channel to functions.NAME, its arguments up to <|call|>",
    call=CallMarkers(
        "<|channel|>commentary to=",
        "<|call|>",
        # The last one begins a reply if the prompt ended with `<|start|>assistant`.
        opens=("<|channel|>analysis to=", "<|start|>assistant to=", "\nto=functions."),
        closes=("<|end|>", "<|return|>"),
    ),
    body=HeaderShape(
        rf"(?:functions\.)?{_NAME}(?:<\|channel\|>(?:commentary|analysis))?\s{{0,2}}(?:<\|constrain\|>)?\s?(?:json|code)?\s?"
        r"<\|message\|>(?=\s{0,8}(?:[^\s<]|<\|))",
        ends=("<|message|>",),
        lines=2,  # behind the header, up to the arguments
        # A call of Muse, whose messages begin in the same way, or the beginning of another message.
        never=rf"[^\n<]{{0,160}}<\|message\|>\s{{0,8}}<[^|]|{_BROKEN_OFF}<\|(?:[^cm]|c[^o])",
    ),
    result=Markers("<|start|>functions.", "<|end|>"),
    turn=TurnMarkup(
        tokens=(
            "<|start|>assistant",
            "<|channel|>commentary<|message|>",
            *_FINAL,
            "<|end|>",
            "<|return|>",
            "<|call|>",
        ),
        answer_headers=_FINAL,
    ),
)

_ACTION_INPUT = tuple(
    f"Action{space}{word}{end}"
    for space in " _"
    for word in ("Input", "input", "Args", "args", "Arguments", "arguments")
    for end in (":", "**:")
)

REACT = _row(
    name="react",
    summary="ReAct prompts: a line Action: with the tool's name, then Action Input: with its arguments",
    call=CallMarkers("Action:", opens=("**Action:**", "**Action**:"), at_line_start=True),
    body=HeaderShape(
        rf"[ \t]{{0,8}}(?:`|\*\*)?{_NAME}(?:`|\*\*)?(?:[ \t]{{0,8}}\n\s{{0,8}}|[,.;]?[ \t]{{1,8}})"
        r"(?:\*\*)?Action[ _](?:[Ii]nput|[Aa]rg(?:ument)?s)(?:\*\*:|:\*\*|:)\s{0,8}(?:```\w{0,16}\s{1,8}|`)?"
        r"(?=[^\s`*])",  # anything but an object is asked for again
        ends=(":",),
        words=_ACTION_INPUT,
        lines=4,
        never=rf"[^\n]{{0,176}}\n\s{{0,8}}[^\sA*]|{_BROKEN_OFF}(?:A[^\n]{{0,16}}\n)?Action:",
    ),
    result=Markers("\nObservation:", opens=("\n**Observation:**", "\n**Observation**:")),
)

PLAMO3 = _row(
    name="plamo3",
    summary="PLaMo 3: name and JSON arguments in tags of their own, in a section of requests",
    call=CallMarkers(
        "<|plamo:begin_tool_request:plamo|>",
        "<|plamo:end_tool_arguments:plamo|><|plamo:end_tool_request:plamo|>",
        closes=("<|plamo:end_tool_request:plamo|>",),
    ),
    body=HeaderShape(
        rf"\s{{0,4}}<\|plamo:begin_tool_name:plamo\|>{_NAME}<\|plamo:end_tool_name:plamo\|>\s{{0,4}}"
        r"<\|plamo:begin_tool_arguments:plamo\|>(?:<\|plamo:constrain\|>json)?(?:<\|plamo:msg\|>)?\s{0,8}(?=[{｛])",
        lines=2,
    ),
    section=Markers("<|plamo:begin_tool_requests:plamo|>", "<|plamo:end_tool_requests:plamo|>"),
    turn=TurnMarkup(tokens=("<|plamo:tag|>",)),
)

QWEN_AGENT = _row(
    name="qwen_agent",
    summary="Qwen-Agent: a line with the tool's name after ✿FUNCTION✿, then ✿ARGS✿ and its arguments",
    call=CallMarkers("✿FUNCTION✿:"),
    body=HeaderShape(
        rf"[ \t]{{0,8}}{_NAME}[ \t]{{0,8}}\n\s{{0,8}}✿ARGS✿:\s{{0,8}}(?=[{{｛])",
        words=("✿ARGS✿:",),
        lines=4,
        never=rf"[^\n]{{0,176}}\n\s{{0,8}}[^\s✿]|{_BROKEN_OFF}(?:✿[^\n]{{0,16}}\n)?✿FUNCTION",
    ),
    result=Markers("✿RESULT✿:"),
    turn=TurnMarkup(tokens=("✿RETURN✿:",)),
)

GLM4 = _row(
    name="glm4",
    summary="GLM-4, GLM-Z1: a line with the tool's name alone, then its arguments on the next line",
    call=CallMarkers(names=("{}",), at_line_start=True),
    body=HeaderShape(
        r"[ \t]{0,8}\r?\n\s{0,8}(?=[{｛])",
        lines=2,
        never=r"[ \t]{0,8}(?:[^\s]|\r?\n\s{0,8}[^\s{｛])",
        name_in="marker",
    ),
    result=Markers("<|observation|>"),
    turn=TurnMarkup(tokens=("<|user|>",)),
)

_INKLING_JSON = JsonShape(argument_keys=("args", *(key for key in ARGUMENT_KEYS if key != "args")))
_INKLING_TEXT = ("<|content_text|>", "<|content_invoke_tool_text|>", "<|content_tool_error|>")

INKLING = _row(
    name="inkling",
    summary="Inkling: a message of the model with JSON of name and args after <|content_invoke_tool_json|>",
    call=CallMarkers("<|content_invoke_tool_json|>", "<|end_message|>", opens=("<|message_model|>",)),
    body=HeaderShape(
        r"[^\n<]{0,160}<\|content_invoke_tool_json\|>\s{0,8}(?=[{｛])",
        lines=2,
        json=_INKLING_JSON,
        name_in="json",
    ),
    result=Markers("<|message_tool|>", "<|end_message|>"),
    turn=TurnMarkup(
        tokens=(
            *(f"<|message_model|>{token}" for token in _INKLING_TEXT),
            *_INKLING_TEXT,
            "<|end_message|>",
            "<|content_model_end_sampling|>",
        )
    ),
)

HEADERS = (
    *(MISTRAL, DEEPSEEK_V31, DEEPSEEK_V3, KIMI_K2, PLAMO3, FUNCTIONARY, FUNCTIONARY_V31, HARMONY, REACT),
    *(INKLING, QWEN_AGENT, GLM4),
)
