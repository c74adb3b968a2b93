"""Dialects with each parameter of a call between its own tags.

Rule: rows only; `parse.tagged` defines and reads the syntax.
"""

from dataclasses import replace

from fcshim.parse.body_selection import UnionBody
from fcshim.parse.dialect import Dialect
from fcshim.parse.json.body import JsonShape
from fcshim.parse.json.header import HeaderShape
from fcshim.parse.tagged.syntax import ElementCalls, SuffixedCalls, TaggedCalls
from fcshim.parse.tagged.tags import BodyHeader, Tag, Tags

_WAITS = "values that the schema does not type as strings are sent whole: their type is known only at their end"

_FUNCTION = Tags(
    call=Tag("<function="),
    call_close="</function>",
    parameter=Tag("<parameter="),
    parameter_close="</parameter>",
)

QWEN3_XML = Dialect(
    name="qwen3_xml",
    summary="Qwen3-Coder, Qwen3.5, Nemotron 3 and others: <function=f> and <parameter=k> tags between <tool_call> tags",
    open="<tool_call>",
    close="</tool_call>",
    opens=("<function=",),
    body=TaggedCalls(replace(_FUNCTION, lines=True)),
    result_open="<tool_response",
    result_close="</tool_response>",
    waits=_WAITS,
    templates="tagged",
)

SEED_OSS = Dialect(
    name="seed_oss",
    summary="Seed-OSS: the tags of qwen3_xml, with nothing around a value, between <seed:tool_call> tags",
    open="<seed:tool_call>",
    close="</seed:tool_call>",
    opens=("<function=",),
    body=TaggedCalls(_FUNCTION),
    result_open="<tool_response",
    result_close="</tool_response>",
    waits=_WAITS,
    templates="tagged",
)

SEED_OSS_AMONG_OTHERS = replace(SEED_OSS, body=TaggedCalls(replace(_FUNCTION, may_have_lines=True)))
"""The same where another dialect was selected: models put the body of qwen3_xml between these markers."""

_KEYS_AND_VALUES = Tags(
    call=Tag("", end=""),
    call_close="</tool_call>",
    parameter=Tag("<arg_key>", end="</arg_key>"),
    value_open="<arg_value>",
    parameter_close="</arg_value>",
)

GLM = Dialect(
    name="glm",
    summary="GLM 4.5 and later, Ling 3, Laguna: a name, <arg_key> and <arg_value> tags, between <tool_call> tags",
    open="<tool_call>",
    close="</tool_call>",
    body=TaggedCalls(_KEYS_AND_VALUES),
    result_open="<tool_response",
    result_close="</tool_response>",
    prompt_opens=True,
    waits=_WAITS,
    templates="tagged",
)

GLM_IN_USER_TAG = replace(
    GLM,
    name="glm_in_user_tag",
    open="<user>",
    close="</user>",
    body=TaggedCalls(replace(_KEYS_AND_VALUES, call_close="</user>"), needs_parameter=True),
    at_line_start=True,
    prompt_opens=False,
)
"""The same in the tag of the user's turn, which Laguna takes for that of a call: no user writes keys and values so."""

HY_V3 = Dialect(
    name="hy_v3",
    summary="Hunyuan 3: the tags of glm after <tool_sep>, in a section of calls",
    open="<tool_call>",
    close="</tool_call>",
    section_open="<tool_calls>",
    section_close="</tool_calls>",
    body=TaggedCalls(replace(_KEYS_AND_VALUES, call=Tag("", end="<tool_sep>"))),
    result_open="<tool_response",
    result_close="</tool_response>",
    prompt_opens=True,
    waits=_WAITS,
    templates="tagged",
)

HY_V4 = Dialect(
    name="hy_v4",
    summary="Hunyuan 4: the tags of hy_v3 without separator, each with the checkpoint's suffix (<tool_call:6124c78e>)",
    open="<tool_call>",
    close="</tool_call>",
    opens=("<tool_calls:", "<tool_call:"),
    section_open="<tool_calls>",
    section_close="</tool_calls>",
    body=UnionBody(
        (
            TaggedCalls(replace(_KEYS_AND_VALUES, separator="<tool_sep>")),
            SuffixedCalls(
                replace(_KEYS_AND_VALUES, call=Tag("<tool_call>", end=""), separator="<tool_sep>", several=True),
                "</tool_calls>",
            ),
        )
    ),
    result_open="<tool_response",
    result_close="</tool_response>",
    waits=_WAITS,
    templates="tagged",
)

TELECHAT4 = Dialect(
    name="telechat4",
    summary="TeleChat 4, Xing 4: a name, <param_key> and <param_value> tags, or JSON, between <tool_call> tags",
    open="<tool_call>",
    close="</tool_call>",
    body=UnionBody(
        (
            TaggedCalls(
                replace(
                    _KEYS_AND_VALUES,
                    parameter=Tag("<param_key>", end="</param_key>"),
                    value_open="<param_value>",
                    parameter_close="</param_value>",
                )
            ),
            JsonShape(),
            HeaderShape(r"\s{0,8}(?P<name>[^\n{}<>]{1,160}?)\s{0,4}(?=\{)", lines=2, never=r"[^{}<>]{0,172}[}<>]"),
        )
    ),
    result_open="<tool_response",
    result_close="</tool_response>",
    prompt_opens=True,
    waits=_WAITS,
    templates="tagged",
)

IQUEST_Q1 = Dialect(
    name="iquest_q1",
    summary="IQuest-Q1: the tags of glm between <iquest_tool_call> tags",
    open="<iquest_tool_call>",
    close="</iquest_tool_call>",
    body=TaggedCalls(replace(_KEYS_AND_VALUES, call_close="</iquest_tool_call>")),
    result_open="<tool_response",
    result_close="</tool_response>",
    prompt_opens=True,
    markup=("<|iquest_end|>",),
    waits=_WAITS,
    templates="tagged",
)

IQUEST_CODER = replace(
    IQUEST_Q1,
    name="iquest_coder",
    open="<iquestcoder_tool_call>",
    close="</iquestcoder_tool_call>",
    body=TaggedCalls(replace(_KEYS_AND_VALUES, call_close="</iquestcoder_tool_call>")),
)
"""The same in the tags of IQuest-Coder V2."""

SOLAR_OPEN2 = Dialect(
    name="solar_open2",
    summary="Solar Open 2: a name, and <|tool_arg:start|> and <|tool_arg:value|> tokens before each key and value",
    open="<|tool_call:start|>",
    close="<|tool_call:end|>",
    body=TaggedCalls(
        Tags(
            call=Tag("", end=""),
            call_close="<|tool_call:end|>",
            parameter=Tag("<|tool_arg:start|>", end="<|tool_arg:value|>"),
            parameter_close="<|tool_arg:end|>",
        )
    ),
    result_open="<tool_response",
    result_close="</tool_response>",
    prompt_opens=True,
    reasoning=(("<|think:start|>", "<|think:end|>"),),
    waits=_WAITS,
    templates="tagged",
)

LONGCAT = Dialect(
    name="longcat",
    summary="LongCat: JSON, or a name, <longcat_arg_key> and <longcat_arg_value>, between <longcat_tool_call> tags",
    open="<longcat_tool_call>",
    close="</longcat_tool_call>",
    body=UnionBody(
        (
            JsonShape(),
            TaggedCalls(
                Tags(
                    call=Tag("", end=""),
                    call_close="</longcat_tool_call>",
                    parameter=Tag("<longcat_arg_key>", end="</longcat_arg_key>"),
                    value_open="<longcat_arg_value>",
                    parameter_close="</longcat_arg_value>",
                )
            ),
        )
    ),
    result_open="<longcat_tool_response",
    result_close="</longcat_tool_response>",
    waits=_WAITS,
    templates="hermes",
)

CLINE = Dialect(
    name="cline",
    summary="Cline, Roo: an element with the tool's name (<read_file>), and in it one for each parameter",
    open="",
    close="",
    body=ElementCalls(),
    tool_markers=("<{}>", "<{}/>", "<{} />"),
    at_line_start=True,
    result_open="<tool_response",
    result_close="</tool_response>",
    waits=_WAITS,
)

_INVOKE = Tags(
    call=Tag("<invoke", attribute="name"),
    call_close="</invoke>",
    parameter=Tag("<parameter", attribute="name"),
    parameter_close="</parameter>",
    several=True,
)

MINIMAX_M2 = Dialect(
    name="minimax_m2",
    summary='MiniMax M2: <invoke name="f"> and <parameter name="k"> tags between <minimax:tool_call> tags',
    open="<minimax:tool_call>",
    close="</minimax:tool_call>",
    opens=("<function_calls>", "<invoke name="),
    closes=("</function_calls>",),
    body=TaggedCalls(_INVOKE),
    result_open="<tool_response",
    result_close="</tool_response>",
    markup=("[e~[",),
    waits=_WAITS,
    templates="tagged",
)


def _typed_markup(prefix: str) -> Tags:
    """Return the tags of DeepSeek's and GigaChat's markup, which declare for each value whether it is a string."""
    return Tags(
        call=Tag(f"<{prefix}invoke", attribute="name"),
        call_close=f"</{prefix}invoke>",
        parameter=Tag(f"<{prefix}parameter", attribute="name", type_attribute="string"),
        parameter_close=f"</{prefix}parameter>",
        text_types=("true",),
        other_type="false",
        several=True,
    )


DSML = Dialect(
    name="dsml",
    summary="DeepSeek V3.2: <｜DSML｜invoke> and <｜DSML｜parameter> tags between <｜DSML｜function_calls> tags",
    open="<｜DSML｜function_calls>",
    close="</｜DSML｜function_calls>",
    opens=("<｜DSML｜tool_calls>", "<｜DSML｜invoke name="),
    closes=("</｜DSML｜tool_calls>",),
    body=TaggedCalls(_typed_markup("｜DSML｜")),
    result_open="<tool_response",
    result_close="</tool_response>",
    markup=("<｜end▁of▁sentence｜>",),
    waits=_WAITS,
    templates="tagged",
)

DSML_V4 = replace(
    DSML,
    name="dsml_v4",
    summary="DeepSeek V4: the tags of dsml between <｜DSML｜tool_calls> tags",
    open="<｜DSML｜tool_calls>",
    close="</｜DSML｜tool_calls>",
    opens=("<｜DSML｜function_calls>", "<｜DSML｜invoke name="),
    closes=("</｜DSML｜function_calls>",),
)

DSML_V41 = replace(
    DSML,
    name="dsml_v41",
    summary="DeepSeek V4.1: the tags of dsml with a space before each word, between <｜DSML｜ calls> tags",
    open="<｜DSML｜ calls>",
    close="</｜DSML｜ calls>",
    opens=("<｜DSML｜ invoke name=",),
    closes=(),
    body=TaggedCalls(_typed_markup("｜DSML｜ ")),
)


def _with_two_bars(dialect: Dialect, prefix: str) -> Dialect:
    """Return a row with each bar of its tags doubled, as DeepSeek's models write them where no tags were asked for."""
    opens = tuple(marker.replace("｜", "｜｜") for marker in dialect.openers())
    closes = tuple(marker.replace("｜", "｜｜") for marker in dialect.closers())
    return replace(
        dialect,
        name=f"{dialect.name}_two_bars",
        open=opens[0],
        opens=opens[1:],
        close=closes[0],
        closes=closes[1:],
        body=TaggedCalls(_typed_markup(prefix)),
    )


DSML_V4_TWO_BARS = _with_two_bars(DSML_V4, "｜｜DSML｜｜")
DSML_V41_TWO_BARS = _with_two_bars(DSML_V41, "｜｜DSML｜｜ ")

GIGACHAT35 = Dialect(
    name="gigachat35",
    summary="GigaChat 3.5: <｜GCML｜invoke> and <｜GCML｜parameter> tags between <｜GCML｜tool_calls> tags",
    open="<｜GCML｜tool_calls>",
    close="</｜GCML｜tool_calls>",
    opens=("<｜GCML｜invoke name=",),
    body=TaggedCalls(_typed_markup("｜GCML｜")),
    result_open="<tool_response",
    result_close="</tool_response>",
    waits=_WAITS,
    templates="tagged",
)

KIMI_K3 = Dialect(
    name="kimi_k3",
    summary="Kimi K3: call and argument elements of <|open|>, <|sep|> and <|close|> tokens in a tools channel",
    open="<|open|>tools<|sep|>",
    close="<|close|>tools<|sep|>",
    opens=("<|open|>call tool=",),
    body=TaggedCalls(
        Tags(
            call=Tag("<|open|>call", end="<|sep|>", attribute="tool"),
            call_close="<|close|>call<|sep|>",
            parameter=Tag("<|open|>argument", end="<|sep|>", attribute="key", type_attribute="type"),
            parameter_close="<|close|>argument<|sep|>",
            object_open="<|open|>json",
            object_close="<|close|>json<|sep|>",
            entities=True,
            counter="index",
            gap="",
            several=True,
        )
    ),
    result_open="<tool_response",
    result_close="</tool_response>",
    markup=("<|open|>response<|sep|>", "<|close|>response<|sep|>", "<|close|>message<|sep|>"),
    answer_headers=("<|open|>response<|sep|>",),
    waits=_WAITS,
    templates="tagged",
)

STEP3 = Dialect(
    name="step3",
    summary="Step3: <steptml:invoke> and <steptml:parameter> tags in a section of calls",
    open="<｜tool_call_begin｜>function<｜tool_sep｜>",
    close="<｜tool_call_end｜>",
    opens=("<steptml:invoke name=",),
    section_open="<｜tool_calls_begin｜>",
    section_close="<｜tool_calls_end｜>",
    body=TaggedCalls(
        Tags(
            call=Tag("<steptml:invoke", attribute="name"),
            call_close="</steptml:invoke>",
            parameter=Tag("<steptml:parameter", attribute="name"),
            parameter_close="</steptml:parameter>",
        )
    ),
    result_open="<tool_response",
    result_close="</tool_response>",
    waits=_WAITS,
    templates="tagged",
)

MINICPM5 = Dialect(
    name="minicpm5",
    summary='MiniCPM 5: <function name="f"> and <param name="k"> tags, with nothing around a call',
    open="<function name=",
    close="",
    opens=("<functionname=", "<functionĠname="),
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
    result_open="<tool_response",
    result_close="</tool_response>",
    waits=_WAITS,
    templates="tagged",
)

K2_HORIZON = Dialect(
    name="k2_horizon",
    summary="K2 Horizon: a name, <ifm|arg_key> and <ifm|arg_value> tags, or JSON, in a section of calls",
    open="<ifm|tool_call>",
    close="</ifm|tool_call>",
    section_open="<ifm|tool_calls>",
    section_close="</ifm|tool_calls>",
    body=UnionBody(
        (
            TaggedCalls(
                Tags(
                    call=Tag("", end=""),
                    call_close="</ifm|tool_call>",
                    parameter=Tag("<ifm|arg_key>", end="</ifm|arg_key>"),
                    type_open="<ifm|arg_type>",
                    type_close="</ifm|arg_type>",
                    value_open="<ifm|arg_value>",
                    parameter_close="</ifm|arg_value>",
                )
            ),
            JsonShape(),
        )
    ),
    result_open="<tool_response",
    result_close="</tool_response>",
    waits=_WAITS,
    templates="tagged",
)

DOTS = Dialect(
    name="dots",
    summary='dots: <invoke name="f"> and <parameter name="k"> tags, or JSON, between <dots_function_call> tags',
    open="<dots_function_call>",
    close="</dots_function_call>",
    body=UnionBody((TaggedCalls(_INVOKE), JsonShape())),
    result_open="<tool_response",
    result_close="</tool_response>",
    waits=_WAITS,
    templates="tagged",
)

_MUSE_READERS = ("user", "commentary", "developer")
"""To whom a message of Muse may go beside a tool: what it says is text."""

MUSE = Dialect(
    name="muse",
    summary="Muse: <atem:invoke> and <atem:parameter> tags in a message to the tool",
    open="<atem:function_calls>",
    close="</atem:function_calls>",
    opens=("<|start|>assistant to=", "\nto=", "<atem:invoke name="),
    body=TaggedCalls(
        Tags(
            call=Tag("<atem:invoke", attribute="name"),
            call_close="</atem:invoke>",
            parameter=Tag("<atem:parameter", attribute="name"),
            parameter_close="</atem:parameter>",
            several=True,
            twice=True,
        ),
        BodyHeader("to=", r"[^\s<]{1,256}<\|message\|>\s{0,4}<atem:function_calls>"),
    ),
    result_open="<tool_response",
    result_close="</tool_response>",
    markup=(
        *("<|eom|>", "<|eot|>", "<|start|>assistant<|message|>"),
        *(f"<|start|>assistant to={reader}<|message|>" for reader in _MUSE_READERS),
    ),
    waits=_WAITS,
    templates="tagged",
)

_M3_PREFIX = "]<]minimax[>["

MINIMAX_M3 = Dialect(
    name="minimax_m3",
    summary="MiniMax M3: an element for each parameter and for what is in it, each tag after ]<]minimax[>[",
    open=f"{_M3_PREFIX}<tool_call>",
    close=f"{_M3_PREFIX}</tool_call>",
    opens=(f"{_M3_PREFIX}<invoke name=",),
    body=TaggedCalls(
        Tags(
            call=Tag(f"{_M3_PREFIX}<invoke", attribute="name"),
            call_close=f"{_M3_PREFIX}</invoke>",
            parameter=Tag(f"{_M3_PREFIX}<"),
            parameter_close=f"{_M3_PREFIX}</",
            nested=True,
            several=True,
        )
    ),
    result_open="<tool_response",
    result_close="</tool_response>",
    markup=("[e~[",),
    waits=_WAITS,
    templates="minimax_m3",
)

TAGGED = (
    *(
        QWEN3_XML,
        SEED_OSS,
        GLM,
        HY_V3,
        HY_V4,
        TELECHAT4,
        IQUEST_Q1,
        SOLAR_OPEN2,
        LONGCAT,
        K2_HORIZON,
        MINIMAX_M2,
        DOTS,
        DSML,
        DSML_V4,
        DSML_V41,
        GIGACHAT35,
    ),
    *(KIMI_K3, STEP3, MINICPM5, MUSE, MINIMAX_M3, CLINE),
)
TAGGED_AMONG_OTHERS = (SEED_OSS_AMONG_OTHERS, GLM_IN_USER_TAG, IQUEST_CODER, DSML_V4_TWO_BARS, DSML_V41_TWO_BARS)
"""Rows that are read where another dialect was selected, and never asked for."""
