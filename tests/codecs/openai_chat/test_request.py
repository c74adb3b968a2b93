import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fcshim.codecs.json_text import RequestLimits
from fcshim.codecs.openai_chat import OPENAI_CHAT, OpenAIChat
from fcshim.codecs.openai_chat.request import ChatClientOptions
from fcshim.codecs.openai_responses.request_tools import ResponsesClientOptions
from fcshim.errors import RequestError
from fcshim.messages import (
    AssistantMessage,
    MediaPart,
    Request,
    SystemMessage,
    TextPart,
    Tool,
    ToolCall,
    ToolChoice,
    ToolMessage,
    UserMessage,
)

HI = [{"role": "user", "content": "hi"}]
CLOSED = {"type": "object", "properties": {}, "additionalProperties": False}
FUNCTION = {"name": "f", "description": "does f", "parameters": CLOSED, "strict": True}


def tool(name="f", **fields):
    return {"type": "function", "function": {"name": name, **fields}}


def decode(*, codec=OPENAI_CHAT, **fields):
    return codec.decode_request(msgspec.json.encode({"model": "m", "messages": HI, **fields}))


def test_the_smallest_request_has_the_defaults():
    request = OPENAI_CHAT.decode_request(b'{"messages":[{"role":"user","content":"hi"}]}')

    assert (UserMessage((TextPart("hi"),)),) == request.messages
    assert ("", (), ToolChoice(), False, 1, (), {}, ChatClientOptions()) == (
        request.model,
        request.tools,
        request.tool_choice,
        request.stream,
        request.n,
        request.stop,
        request.extra,
        request.client_options,
    )


def test_the_options_of_another_apis_client_are_ignored():
    request = decode(max_completion_tokens=5)

    assert ChatClientOptions(max_completion_tokens=True) == ChatClientOptions.of(request)
    assert ResponsesClientOptions() == ResponsesClientOptions.of(request)


def test_known_fields_are_read_and_all_others_are_kept():
    request = decode(
        stream=True,
        stream_options={"include_usage": True, "include_obfuscation": False},
        n=2,
        stop=["a", "", "b"],
        max_tokens=9,
        temperature=0,
        top_p=0.5,
        seed=-1,
        parallel_tool_calls=False,
        response_format={"type": "json_object"},
        top_k=None,
    )

    assert (True, True, 2, ("a", "b"), 9, 0, 0.5, -1, False) == (
        request.stream,
        request.include_usage,
        request.n,
        request.stop,
        request.max_tokens,
        request.temperature,
        request.top_p,
        request.seed,
        request.parallel_tool_calls,
    )
    assert {
        "response_format": {"type": "json_object"},
        "top_k": None,
        "stream_options": {"include_obfuscation": False},
    } == request.extra


def test_null_is_the_same_as_absent():
    names = ["tools", "tool_choice", "stream", "stream_options", "n", "stop", "max_tokens", "temperature", "seed"]

    assert decode() == decode(**dict.fromkeys(names))


def test_a_stop_string_may_stand_alone():
    assert ("x",) == decode(stop="x").stop


@pytest.mark.parametrize("name", ["max_tokens", "max_completion_tokens"])
def test_the_token_limit_goes_upstream_under_the_clients_name(name):
    request = decode(**{name: 7})
    body = msgspec.json.decode(OPENAI_CHAT.encode_request(request).body)

    assert 7 == request.max_tokens == body[name]
    assert 1 == len(body.keys() & {"max_tokens", "max_completion_tokens"})


def test_every_role_and_content_becomes_a_message():
    messages = [
        {"role": "developer", "content": "be"},
        {"role": "system", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
        {"role": "user", "content": "hi", "name": "x"},
        {
            "role": "assistant",
            "content": None,
            "reasoning_content": "hm",
            "tool_calls": [
                {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{ "a":1}'}},
                {"id": "c2", "type": "custom", "custom": {"name": "sh", "input": 'ls "x"'}},
                {"id": "c3", "function": {"name": "f", "arguments": {"a": 1}}},
            ],
        },
        {"role": "tool", "tool_call_id": "c1", "content": [{"type": "text", "text": "1"}]},
        {"role": "tool", "tool_call_id": "orphan", "content": "?", "name": "f"},
        {"role": "assistant", "refusal": "no"},
    ]
    expected = (
        SystemMessage((TextPart("be"),)),
        SystemMessage((TextPart("a"), TextPart("b"))),
        UserMessage((TextPart("hi"),)),
        AssistantMessage(
            (),
            (
                ToolCall("c1", "f", '{ "a":1}'),
                ToolCall("c2", "sh", '{"input":"ls \\"x\\""}'),
                ToolCall("c3", "f", '{"a":1}'),
            ),
            "hm",
        ),
        ToolMessage("c1", (TextPart("1"),)),
        ToolMessage("orphan", (TextPart("?"),), "f"),
        AssistantMessage((TextPart("no"),)),
    )

    assert expected == decode(messages=messages).messages


def test_legacy_calls_and_results_share_a_made_id():
    messages = [
        *HI,
        {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "{}"}},
        {"role": "function", "name": "f", "content": "1"},
    ]
    request = decode(messages=messages, functions=[FUNCTION])

    assert AssistantMessage((), (ToolCall("call_1", "f", "{}"),)) == request.messages[1]
    assert ToolMessage("call_1", (TextPart("1"),), "f") == request.messages[2]
    assert not request.parallel_tool_calls
    assert request.client_options.functions


PARTS = [
    (
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA", "detail": "low"}},
        ("image/png", None, "AAAA"),
    ),
    ({"type": "image_url", "image_url": {"url": "https://x/y.png"}}, ("image/*", "https://x/y.png", None)),
    ({"type": "image_url", "image_url": "https://x/y.png"}, ("image/*", "https://x/y.png", None)),
    ({"type": "input_audio", "input_audio": {"data": "AAAA", "format": "mp3"}}, ("audio/mp3", None, "AAAA")),
    (
        {"type": "file", "file": {"file_data": "data:application/pdf;base64,AAAA", "filename": "a.pdf"}},
        ("application/pdf", None, "AAAA"),
    ),
    ({"type": "file", "file": {"file_id": "file-1"}}, ("application/octet-stream", None, None)),
    ({"type": "video_url", "video_url": {"url": "https://x"}}, ("application/octet-stream", None, None)),
]


@pytest.mark.parametrize(("part", "expected"), PARTS)
def test_media_are_read_and_go_upstream_verbatim(part, expected):
    request = decode(messages=[{"role": "user", "content": [{"type": "text", "text": "see"}, part]}])
    media = request.messages[0].content[1]
    body = msgspec.json.decode(OPENAI_CHAT.encode_request(request).body)

    assert MediaPart(*expected, raw=part) == media
    assert [{"type": "text", "text": "see"}, part] == body["messages"][0]["content"]


def test_media_of_another_api_are_converted():
    parts = (
        MediaPart("image/png", data="AA", raw={"type": "image"}),
        MediaPart("image/*", url="https://x"),
        MediaPart("audio/wav", data="BB"),
        MediaPart("application/pdf", data="CC"),
    )
    request = msgspec.structs.replace(decode(), messages=(UserMessage(parts),))
    body = msgspec.json.decode(OPENAI_CHAT.encode_request(request).body)

    assert [
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA"}},
        {"type": "image_url", "image_url": {"url": "https://x"}},
        {"type": "input_audio", "input_audio": {"data": "BB", "format": "wav"}},
        {"type": "file", "file": {"file_data": "data:application/pdf;base64,CC"}},
    ] == body["messages"][0]["content"]


def test_functions_custom_tools_and_legacy_functions_become_tools():
    expected = Tool("f", "does f", CLOSED, strict=True)

    assert (expected,) == decode(tools=[{"type": "function", "function": FUNCTION}]).tools
    assert (expected,) == decode(tools=[{"function": FUNCTION}]).tools
    assert (expected,) == decode(functions=[FUNCTION]).tools
    assert (Tool("f"),) == decode(tools=[tool("f")], functions=[FUNCTION]).tools


def test_a_custom_tool_becomes_a_function_with_one_string_and_is_marked():
    grammar = {"type": "grammar", "grammar": {"syntax": "lark", "definition": "start: /a+/"}}
    request = decode(tools=[{"type": "custom", "custom": {"name": "sh", "description": "runs", "format": grammar}}])

    assert ["input"] == request.tools[0].parameters["required"]
    assert (
        "runs\nWhat is said above of the form of the input holds for the value of `input`, which is the whole text. "
        "The call around that value is written like every other call.\n"
        "`input` must match this lark grammar:\nstart: /a+/" == request.tools[0].description
    )
    assert request.tools[0].custom
    assert frozenset({"sh"}) == request.client_options.custom


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, ToolChoice()),
        ("auto", ToolChoice()),
        ("none", ToolChoice("none")),
        ("required", ToolChoice("required")),
        ({"type": "function", "function": {"name": "f"}}, ToolChoice("required", ("f",))),
        ({"type": "custom", "custom": {"name": "g"}}, ToolChoice("required", ("g",))),
        (
            {
                "type": "allowed_tools",
                "allowed_tools": {
                    "mode": "required",
                    "tools": [tool("f"), {"type": "custom", "custom": {"name": "g"}}],
                },
            },
            ToolChoice("required", ("f", "g")),
        ),
        ({"type": "allowed_tools", "allowed_tools": {"tools": [tool("g")]}}, ToolChoice("auto", ("g",))),
    ],
)
def test_every_form_of_tool_choice_is_read(value, expected):
    tools = [tool("f"), {"type": "custom", "custom": {"name": "g"}}]

    assert expected == decode(tools=tools, tool_choice=value).tool_choice


@pytest.mark.parametrize(
    ("value", "expected"),
    [("none", ToolChoice("none")), ("auto", ToolChoice()), ({"name": "f"}, ToolChoice("required", ("f",)))],
)
def test_the_legacy_choice_is_read(value, expected):
    assert expected == decode(functions=[FUNCTION], function_call=value).tool_choice


WRONG = [
    ({"model": 1}, "model", "expected a string, got 1"),
    ({"messages": None}, "messages", "expected an array, got null"),
    ({"messages": []}, "messages", "at least one message"),
    ({"messages": "hi"}, "messages", "got the string 'hi'"),
    ({"messages": ["hi"]}, "messages[0]", "expected an object"),
    ({"messages": [{"role": "bot", "content": ""}]}, "messages[0].role", "'system', 'developer'"),
    ({"messages": [{"content": ""}]}, "messages[0].role", "got null"),
    ({"messages": [{"role": ["user"]}]}, "messages[0].role", "got an array"),
    ({"messages": [{"role": "user", "content": 1}]}, "messages[0].content", "an array of parts or null, got 1"),
    ({"messages": [{"role": "user", "content": [1]}]}, "messages[0].content[0]", "expected an object"),
    ({"messages": [{"role": "user", "content": [{"type": "text"}]}]}, "messages[0].content[0].text", "a string"),
    ({"messages": [{"role": "user", "content": [{}]}]}, "messages[0].content[0].type", "a string"),
    ({"messages": [{"role": "tool", "content": ""}]}, "messages[0].tool_call_id", "a string"),
    ({"messages": [{"role": "function", "content": ""}]}, "messages[0].name", "a string"),
    ({"messages": [{"role": "assistant", "tool_calls": {}}]}, "messages[0].tool_calls", "an array"),
    ({"messages": [{"role": "assistant", "tool_calls": [{}]}]}, "messages[0].tool_calls[0].id", "a string"),
    (
        {"messages": [{"role": "assistant", "tool_calls": [{"id": "c", "function": {"name": "f", "arguments": 1}}]}]},
        "messages[0].tool_calls[0].function.arguments",
        "a string",
    ),
    ({"stream": "yes"}, "stream", "true or false"),
    ({"stream_options": []}, "stream_options", "an object"),
    ({"stream_options": {"include_usage": 1}}, "stream_options.include_usage", "true or false"),
    ({"n": 0}, "n", "from 1 to 128"),
    ({"n": True}, "n", "an integer, got true"),
    ({"n": 1e9}, "n", "an integer"),
    ({"stop": 1}, "stop", "a string or an array of strings"),
    ({"stop": [1]}, "stop", "a string"),
    ({"max_tokens": "9"}, "max_tokens", "an integer"),
    ({"max_completion_tokens": -2}, "max_completion_tokens", "at least -1"),
    ({"temperature": "hot"}, "temperature", "a number"),
    ({"temperature": False}, "temperature", "a number"),
    ({"tools": {}}, "tools", "an array"),
    ({"tools": [1]}, "tools[0]", "an object"),
    ({"tools": [{"type": "web_search"}]}, "tools[0].type", "'function' or 'custom'"),
    ({"tools": [{"type": "function"}]}, "tools[0].function", "an object"),
    ({"tools": [tool("")]}, "tools[0].function.name", "letters"),
    ({"tools": [tool("a b")]}, "tools[0].function.name", "letters"),
    ({"tools": [tool("f", parameters=[])]}, "tools[0].function.parameters", "an object"),
    ({"tools": [tool("f", description=1)]}, "tools[0].function.description", "a string"),
    ({"tools": [tool("f"), tool("f")]}, "tools[1].name", "two tools named 'f'"),
    ({"functions": [{}]}, "functions[0].name", "a string"),
    ({"tools": [tool("f")], "tool_choice": "always"}, "tool_choice", "'required'"),
    ({"tools": [tool("f")], "tool_choice": tool("g")}, "tool_choice", "no tool named 'g'"),
    ({"tools": [tool("f")], "tool_choice": {}}, "tool_choice", "names a tool"),
    ({"tool_choice": "required"}, "tool_choice", "no tools are offered"),
    ({"functions": [FUNCTION], "function_call": {"name": "g"}}, "function_call", "no tool named 'g'"),
]


@pytest.mark.parametrize(("fields", "param", "message"), WRONG)
def test_errors_name_the_invalid_field(fields, param, message):
    with pytest.raises(RequestError) as caught:
        decode(**fields)

    assert param == caught.value.param
    assert message in caught.value.message
    assert 400 == caught.value.status


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b"null", b"\xff", b'{"a":"\xff"}', b"[" * 100_000, b'{"messages":NaN}']
)
def test_a_body_that_is_no_json_object_is_refused(body):
    with pytest.raises(RequestError, match="the request body"):
        OPENAI_CHAT.decode_request(body)


def nested(depth):
    schema = {}
    for _ in range(depth):
        schema = {"items": schema}
    return schema


def test_tools_beyond_the_limits_are_refused():
    codec = OpenAIChat(request_limits=RequestLimits(tools=2, schema_bytes=1000, schema_depth=5, choices=3))

    assert 2 == len(decode(codec=codec, tools=[tool("a"), tool("b", parameters=nested(5))]).tools)
    for fields, message in [
        ({"tools": [tool("a"), tool("b"), tool("c")]}, "at most 2"),
        ({"tools": [tool("a", parameters=nested(6))]}, "nested deeper than 5"),
        ({"tools": [tool("a", description="x" * 1000)]}, "1000 are allowed"),
        ({"n": 4}, "from 1 to 3"),
    ]:
        with pytest.raises(RequestError, match=message):
            decode(codec=codec, **fields)


def test_a_request_goes_upstream_as_a_stream_with_usage_and_nothing_is_lost():
    fields = {
        "tools": [{"type": "function", "function": FUNCTION}],
        "tool_choice": {"type": "function", "function": {"name": "f"}},
        "parallel_tool_calls": False,
        "n": 2,
        "stop": ["x"],
        "max_tokens": 5,
        "temperature": 0.0,
        "top_p": 0.5,
        "seed": 1,
        "logit_bias": {"1": -100},
        "stream_options": {"include_obfuscation": False},
    }
    messages = [
        {"role": "system", "content": "s"},
        *HI,
        {
            "role": "assistant",
            "content": None,
            "reasoning_content": "hm",
            "tool_calls": [{"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
        },
        {"role": "tool", "tool_call_id": "c", "name": "f", "content": "1"},
    ]
    outgoing = OPENAI_CHAT.encode_request(decode(messages=messages, **fields))
    options = {"include_obfuscation": False, "include_usage": True}

    assert "/chat/completions" == outgoing.path
    assert {
        "model": "m",
        "messages": messages,
        **fields,
        "stream": True,
        "stream_options": options,
    } == msgspec.json.decode(outgoing.body)


def test_a_choice_among_several_tools_offers_only_those_tools():
    allowed = {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [tool("a"), tool("c")]}}
    request = decode(tools=[tool("a"), tool("b"), tool("c")], tool_choice=allowed)
    body = msgspec.json.decode(OPENAI_CHAT.encode_request(request).body)

    assert ["a", "c"] == [offered["function"]["name"] for offered in body["tools"]]
    assert "required" == body["tool_choice"]


def test_fields_that_the_client_left_out_are_not_sent():
    body = msgspec.json.decode(OPENAI_CHAT.encode_request(decode(tools=[], tool_choice="none")).body)

    assert {"model", "messages", "stream", "stream_options"} == body.keys()


_json = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-2, 200)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["role", "content", "type", "text", "function", "name", "tool_calls", "id", "custom", "mode"]
            ),
            inner,
            max_size=3,
        )
    ),
    max_leaves=12,
)
_field = st.sampled_from(["messages", "tools", "tool_choice", "functions", "function_call", "stop", "n", "stream", "x"])


@given(st.dictionaries(_field, _json))
def test_arbitrary_json_raises_only_request_errors(fields):
    try:
        request = decode(**fields)
    except RequestError:
        return
    OPENAI_CHAT.encode_request(request)


@pytest.mark.parametrize(
    "raw", [None, {"type": "image", "source": {"type": "file", "file_id": "f"}}, {"inlineData": {}}]
)
def test_media_that_the_api_cannot_express_become_text(raw):
    request = Request(model="m", messages=(UserMessage((MediaPart("image/png", raw=raw),)),))
    body = msgspec.json.decode(OPENAI_CHAT.encode_request(request).body)

    assert [{"type": "text", "text": "[image: image/png]"}] == body["messages"][0]["content"]
