"""Dialects with each parameter of a call between its own tags.

Rule: rows only; `parse.tagged` defines and reads the syntax.
"""

import functools
from dataclasses import replace

from fcshim.parse.body_selection import UnionBody
from fcshim.parse.dialect import CallMarkers, Dialect, Markers, TurnMarkup
from fcshim.parse.json.body import JsonShape
from fcshim.parse.json.header import HeaderShape
from fcshim.parse.tagged.syntax import ElementCalls, SuffixedCalls, TaggedCalls
from fcshim.parse.tagged.tags import BodyHeader, Tag, Tags

_WAITS = "values that the schema does not type as strings are sent whole: their type is known only at their end"

_row = functools.partial(
    Dialect, result=Markers("<tool_response", "</tool_response>"), waits=_WAITS, templates="tagged"
)

_FUNCTION = Tags(
    call=Tag("<function="),
    call_close="</function>",
    parameter=Tag("<parameter="),
    parameter_close="</parameter>",
)

QWEN3_XML = _row(
    name="qwen3_xml",
    summary="Qwen3-Coder, Qwen3.5, Nemotron 3 and others: <function=f> and <parameter=k> tags between <tool_call> tags",
    call=CallMarkers("<tool_call>", "</tool_call>", opens=("<function=",)),
    body=TaggedCalls(replace(_FUNCTION, lines=True)),
)

SEED_OSS = _row(
    name="seed_oss",
    summary="Seed-OSS: the tags of qwen3_xml, with nothing around a value, between <seed:tool_call> tags",
    call=CallMarkers("<seed:tool_call>", "</seed:tool_call>", opens=("<function=",)),
    body=TaggedCalls(_FUNCTION),
)

SEED_OSS_AMONG_OTHERS = replace(SEED_OSS, body=TaggedCalls(replace(_FUNCTION, may_have_lines=True)))
"""The same where another dialect was selected: models put the body of qwen3_xml between these markers."""


def _keys_and_values(prefix: str, call_close: str) -> Tags:
    """Return the tags of a name that elements follow, by turns a key and a value."""
    return Tags(
        call=Tag("", end=""),
        call_close=call_close,
        parameter=Tag(f"<{prefix}_key>", end=f"</{prefix}_key>"),
        value_open=f"<{prefix}_value>",
        parameter_close=f"</{prefix}_value>",
    )


_KEYS_AND_VALUES = _keys_and_values("arg", "</tool_call>")

GLM = _row(
    name="glm",
    summary="GLM 4.5 and later, Ling 3, Laguna: a name, <arg_key> and <arg_value> tags, between <tool_call> tags",
    call=CallMarkers("<tool_call>", "</tool_call>", may_be_in_prompt=True),
    body=TaggedCalls(_KEYS_AND_VALUES),
)

GLM_IN_USER_TAG = replace(
    GLM,
    name="glm_in_user_tag",
    call=replace(GLM.call, open="<user>", close="</user>", at_line_start=True, may_be_in_prompt=False),
    body=TaggedCalls(replace(_KEYS_AND_VALUES, call_close="</user>"), needs_parameter=True),
)
"""The same in the tag of the user's turn, which Laguna takes for that of a call: no user writes keys and values so."""

HY_V3 = _row(
    name="hy_v3",
    summary="Hunyuan 3: the tags of glm after <tool_sep>, in a section of calls",
    call=CallMarkers("<tool_call>", "</tool_call>", may_be_in_prompt=True),
    section=Markers("<tool_calls>", "</tool_calls>"),
    body=TaggedCalls(replace(_KEYS_AND_VALUES, call=Tag("", end="<tool_sep>"))),
)

HY_V4 = _row(
    name="hy_v4",
    summary="Hunyuan 4: the tags of hy_v3 without separator, each with the checkpoint's suffix (<tool_call:6124c78e>)",
    call=CallMarkers("<tool_call>", "</tool_call>", opens=("<tool_calls:", "<tool_call:")),
    section=Markers("<tool_calls>", "</tool_calls>"),
    body=UnionBody(
        (
            TaggedCalls(replace(_KEYS_AND_VALUES, separator="<tool_sep>")),
            SuffixedCalls(
                replace(_KEYS_AND_VALUES, call=Tag("<tool_call>", end=""), separator="<tool_sep>", several=True),
                "</tool_calls>",
            ),
        )
    ),
)

TELECHAT4 = _row(
    name="telechat4",
    summary="TeleChat 4, Xing 4: a name, <param_key> and <param_value> tags, or JSON, between <tool_call> tags",
    call=CallMarkers("<tool_call>", "</tool_call>", may_be_in_prompt=True),
    body=UnionBody(
        (
            TaggedCalls(_keys_and_values("param", "</tool_call>")),
            JsonShape(),
            HeaderShape(r"\s{0,8}(?P<name>[^\n{}<>]{1,160}?)\s{0,4}(?=\{)", lines=2, never=r"[^{}<>]{0,172}[}<>]"),
        )
    ),
)

IQUEST_Q1 = _row(
    name="iquest_q1",
    summary="IQuest-Q1: the tags of glm between <iquest_tool_call> tags",
    call=CallMarkers("<iquest_tool_call>", "</iquest_tool_call>", may_be_in_prompt=True),
    body=TaggedCalls(replace(_KEYS_AND_VALUES, call_close="</iquest_tool_call>")),
    turn=TurnMarkup(tokens=("<|iquest_end|>",)),
)

IQUEST_CODER = replace(
    IQUEST_Q1,
    name="iquest_coder",
    call=replace(IQUEST_Q1.call, open="<iquestcoder_tool_call>", close="</iquestcoder_tool_call>"),
    body=TaggedCalls(replace(_KEYS_AND_VALUES, call_close="</iquestcoder_tool_call>")),
)
"""The same in the tags of IQuest-Coder V2."""

SOLAR_OPEN2 = _row(
    name="solar_open2",
    summary="Solar Open 2: a name, and <|tool_arg:start|> and <|tool_arg:value|> tokens before each key and value",
    call=CallMarkers("<|tool_call:start|>", "<|tool_call:end|>", may_be_in_prompt=True),
    body=TaggedCalls(
        Tags(
            call=Tag("", end=""),
            call_close="<|tool_call:end|>",
            parameter=Tag("<|tool_arg:start|>", end="<|tool_arg:value|>"),
            parameter_close="<|tool_arg:end|>",
        )
    ),
    turn=TurnMarkup(reasoning=(("<|think:start|>", "<|think:end|>"),)),
)

LONGCAT = _row(
    name="longcat",
    summary="LongCat: JSON, or a name, <longcat_arg_key> and <longcat_arg_value>, between <longcat_tool_call> tags",
    call=CallMarkers("<longcat_tool_call>", "</longcat_tool_call>"),
    body=UnionBody((JsonShape(), TaggedCalls(_keys_and_values("longcat_arg", "</longcat_tool_call>")))),
    result=Markers("<longcat_tool_response", "</longcat_tool_response>"),
    templates="hermes",
)

CLINE = _row(
    name="cline",
    summary="Cline, Roo: an element with the tool's name (<read_file>), and in it one for each parameter",
    call=CallMarkers(names=("<{}>", "<{}/>", "<{} />"), at_line_start=True),
    body=ElementCalls(),
    templates="",
)


def _invoke(prefix: str) -> Tags:
    """Return the tags of calls and parameters with their names as an attribute, as Claude writes them."""
    return Tags(
        call=Tag(f"<{prefix}invoke", attribute="name"),
        call_close=f"</{prefix}invoke>",
        parameter=Tag(f"<{prefix}parameter", attribute="name"),
        parameter_close=f"</{prefix}parameter>",
    )


_INVOKE = replace(_invoke(""), several=True)

MINIMAX_M2 = _row(
    name="minimax_m2",
    summary='MiniMax M2: <invoke name="f"> and <parameter name="k"> tags between <minimax:tool_call> tags',
    call=CallMarkers(
        "<minimax:tool_call>",
        "</minimax:tool_call>",
        opens=("<function_calls>", "<invoke name="),
        closes=("</function_calls>",),
    ),
    body=TaggedCalls(_INVOKE),
    turn=TurnMarkup(tokens=("[e~[",)),
)


def _typed_markup(prefix: str) -> Tags:
    """Return the tags of DeepSeek's and GigaChat's markup, which declare for each value whether it is a string."""
    parameter = Tag(f"<{prefix}parameter", attribute="name", type_attribute="string")
    return replace(_invoke(prefix), parameter=parameter, text_types=("true",), other_type="false", several=True)


DSML = _row(
    name="dsml",
    summary="DeepSeek V3.2: <｜DSML｜invoke> and <｜DSML｜parameter> tags between <｜DSML｜function_calls> tags",
    call=CallMarkers(
        "<｜DSML｜function_calls>",
        "</｜DSML｜function_calls>",
        opens=("<｜DSML｜tool_calls>", "<｜DSML｜invoke name="),
        closes=("</｜DSML｜tool_calls>",),
    ),
    body=TaggedCalls(_typed_markup("｜DSML｜")),
    turn=TurnMarkup(tokens=("<｜end▁of▁sentence｜>",)),
)

DSML_V4 = replace(
    DSML,
    name="dsml_v4",
    summary="DeepSeek V4: the tags of dsml between <｜DSML｜tool_calls> tags",
    call=replace(
        DSML.call,
        open="<｜DSML｜tool_calls>",
        close="</｜DSML｜tool_calls>",
        opens=("<｜DSML｜function_calls>", "<｜DSML｜invoke name="),
        closes=("</｜DSML｜function_calls>",),
    ),
)

DSML_V41 = replace(
    DSML,
    name="dsml_v41",
    summary="DeepSeek V4.1: the tags of dsml with a space before each word, between <｜DSML｜ calls> tags",
    call=replace(
        DSML.call, open="<｜DSML｜ calls>", close="</｜DSML｜ calls>", opens=("<｜DSML｜ invoke name=",), closes=()
    ),
    body=TaggedCalls(_typed_markup("｜DSML｜ ")),
)


def _with_two_bars(dialect: Dialect, prefix: str) -> Dialect:
    """Return a row with each bar of its tags doubled, as DeepSeek's models write them where no tags were asked for."""
    opens = tuple(marker.replace("｜", "｜｜") for marker in dialect.openers())
    closes = tuple(marker.replace("｜", "｜｜") for marker in dialect.closers())
    return replace(
        dialect,
        name=f"{dialect.name}_two_bars",
        call=replace(dialect.call, open=opens[0], opens=opens[1:], close=closes[0], closes=closes[1:]),
        body=TaggedCalls(_typed_markup(prefix)),
    )


DSML_V4_TWO_BARS = _with_two_bars(DSML_V4, "｜｜DSML｜｜")
DSML_V41_TWO_BARS = _with_two_bars(DSML_V41, "｜｜DSML｜｜ ")

GIGACHAT35 = _row(
    name="gigachat35",
    summary="GigaChat 3.5: <｜GCML｜invoke> and <｜GCML｜parameter> tags between <｜GCML｜tool_calls> tags",
    call=CallMarkers("<｜GCML｜tool_calls>", "</｜GCML｜tool_calls>", opens=("<｜GCML｜invoke name=",)),
    body=TaggedCalls(_typed_markup("｜GCML｜")),
)

KIMI_K3 = _row(
    name="kimi_k3",
    summary="Kimi K3: call and argument elements of <|open|>, <|sep|> and <|close|> tokens in a tools channel",
    call=CallMarkers("<|open|>tools<|sep|>", "<|close|>tools<|sep|>", opens=("<|open|>call tool=",)),
    body=TaggedCalls(
        Tags(
            call=Tag("<|open|>call", end="<|sep|>", attribute="tool"),
            call_close="<|close|>call<|sep|>",
            parameter=Tag("<|open|>argument", end="<|sep|>", attribute="key", type_attribute="type"),
            parameter_close="<|close|>argument<|sep|>",
            entities=True,
            counter="index",
            gap="",
            several=True,
        )
    ),
    turn=TurnMarkup(
        tokens=("<|open|>response<|sep|>", "<|close|>response<|sep|>", "<|close|>message<|sep|>"),
        answer_headers=("<|open|>response<|sep|>",),
    ),
)

STEP3 = _row(
    name="step3",
    summary="Step3: <steptml:invoke> and <steptml:parameter> tags in a section of calls",
    call=CallMarkers(
        "<｜tool_call_begin｜>function<｜tool_sep｜>", "<｜tool_call_end｜>", opens=("<steptml:invoke name=",)
    ),
    section=Markers("<｜tool_calls_begin｜>", "<｜tool_calls_end｜>"),
    body=TaggedCalls(_invoke("steptml:")),
)

MINICPM5 = _row(
    name="minicpm5",
    summary='MiniCPM 5: <function name="f"> and <param name="k"> tags, with nothing around a call',
    call=CallMarkers("<function name=", opens=("<functionname=", "<functionĠname=")),
    body=TaggedCalls(
        Tags(
            call=Tag("<function", attribute="name"),
            call_close="</function>",
            parameter=Tag("<param", attribute="name"),
            parameter_close="</param>",
            quote_open="<![CDATA[",
            quote_close="]]>",
        )
    ),
)

K2_HORIZON = _row(
    name="k2_horizon",
    summary="K2 Horizon: a name, <ifm|arg_key> and <ifm|arg_value> tags, or JSON, in a section of calls",
    call=CallMarkers("<ifm|tool_call>", "</ifm|tool_call>"),
    section=Markers("<ifm|tool_calls>", "</ifm|tool_calls>"),
    body=UnionBody(
        (
            TaggedCalls(_keys_and_values("ifm|arg", "</ifm|tool_call>")),
            JsonShape(),
        )
    ),
)

DOTS = _row(
    name="dots",
    summary='dots: <invoke name="f"> and <parameter name="k"> tags, or JSON, between <dots_function_call> tags',
    call=CallMarkers("<dots_function_call>", "</dots_function_call>"),
    body=UnionBody((TaggedCalls(_INVOKE), JsonShape())),
)

_MUSE_READERS = ("user", "commentary", "developer")
"""To whom a message of Muse may go beside a tool: what it says is text."""

MUSE = _row(
    name="muse",
    summary="Muse: <atem:invoke> and <atem:parameter> tags in a message to the tool",
    call=CallMarkers(
        "<atem:function_calls>",
        "</atem:function_calls>",
        opens=("<|start|>assistant to=", "\nto=", "<atem:invoke name="),
    ),
    body=TaggedCalls(
        replace(_invoke("atem:"), call=Tag("<atem:invoke", attribute="name", twice=True), several=True),
        BodyHeader("to=", r"[^\s<]{1,256}<\|message\|>\s{0,4}<atem:function_calls>"),
    ),
    turn=TurnMarkup(
        tokens=(
            *("<|eom|>", "<|eot|>", "<|start|>assistant<|message|>"),
            *(f"<|start|>assistant to={reader}<|message|>" for reader in _MUSE_READERS),
        )
    ),
)

_M3_PREFIX = "]<]minimax[>["

MINIMAX_M3 = _row(
    name="minimax_m3",
    summary="MiniMax M3: an element for each parameter and for what is in it, each tag after ]<]minimax[>[",
    call=CallMarkers(f"{_M3_PREFIX}<tool_call>", f"{_M3_PREFIX}</tool_call>", opens=(f"{_M3_PREFIX}<invoke name=",)),
    body=TaggedCalls(
        Tags(
            call=Tag(f"{_M3_PREFIX}<invoke", attribute="name"),
            call_close=f"{_M3_PREFIX}</invoke>",
            parameter=Tag(f"{_M3_PREFIX}<"),
            parameter_close=f"{_M3_PREFIX}</",
            several=True,
        )
    ),
    turn=TurnMarkup(tokens=("[e~[",)),
    templates="minimax_m3",
)

TAGGED = (
    *(QWEN3_XML, SEED_OSS, GLM, HY_V3, HY_V4, TELECHAT4, IQUEST_Q1, SOLAR_OPEN2),
    *(LONGCAT, K2_HORIZON, MINIMAX_M2, DOTS, DSML, DSML_V4, DSML_V41, GIGACHAT35),
    *(KIMI_K3, STEP3, MINICPM5, MUSE, MINIMAX_M3, CLINE),
)
TAGGED_AMONG_OTHERS = (SEED_OSS_AMONG_OTHERS, GLM_IN_USER_TAG, IQUEST_CODER, DSML_V4_TWO_BARS, DSML_V41_TWO_BARS)
"""Rows that are read where another dialect was selected, and never asked for."""
