"""The client's request: everything that clients send, and what is rejected with which message."""

import json

import pytest

from fcshim.codecs.anthropic import ANTHROPIC
from fcshim.codecs.base import RequestTarget
from fcshim.errors import RequestError
from fcshim.messages import (
    AUTO,
    AssistantMessage,
    MediaPart,
    SystemMessage,
    TextPart,
    Tool,
    ToolCall,
    ToolChoice,
    ToolMessage,
    UserMessage,
)
from fcshim.schema.validate import first_violation

HI = [{"role": "user", "content": "Hi"}]
F = {"name": "f", "input_schema": {"type": "object"}}
G = {"name": "g", "type": "custom", "description": "does g", "input_schema": {"type": "object"}, "strict": True}
CALLED = {"role": "assistant", "content": [{"type": "tool_use", "id": "t1", "name": "f", "input": {"a": [1, "b"]}}]}


def read(**fields):
    return ANTHROPIC.decode_request(json.dumps({"model": "m", "max_tokens": 5, "messages": HI, **fields}).encode())


def refused(**fields):
    with pytest.raises(RequestError) as caught:
        read(**fields)
    return caught.value


def messages(*listed, **fields):
    return read(messages=list(listed), **fields).messages


def user(*blocks):
    return {"role": "user", "content": list(blocks)}


def result(call_id="t1", **fields):
    return {"type": "tool_result", "tool_use_id": call_id, **fields}


def test_the_plain_fields():
    request = read(stream=True, stop_sequences=["a", "", "b"], temperature=0.5, top_p=1, system="Be brief.")

    assert "m" == request.model
    assert (SystemMessage((TextPart("Be brief."),)), UserMessage((TextPart("Hi"),))) == request.messages
    assert (True, ("a", "b"), 5, 0.5, 1) == (
        request.stream,
        request.stop,
        request.max_tokens,
        request.temperature,
        request.top_p,
    )
    assert ((), AUTO, None, 1) == (request.tools, request.tool_choice, request.parallel_tool_calls, request.n)


def test_the_system_prompt_may_be_blocks_with_cache_control():
    system = [{"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}}, {"type": "text", "text": "b"}]

    assert SystemMessage((TextPart("a\n"), TextPart("b"))) == read(system=system).messages[0]
    assert UserMessage((TextPart("Hi"),)) == read(system="").messages[0]


def test_calls_and_results_keep_their_order_and_their_bytes():
    picture = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}}
    turns = messages(
        *HI,
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "hm", "signature": "sig"},
                {"type": "text", "text": "Let me see."},
                {"type": "tool_use", "id": "t1", "name": "f", "input": {"a": [1, "é"]}},
                {"type": "tool_use", "id": "t2", "name": "g"},
            ],
        },
        user(
            result("t2", content="no", is_error=True),
            result("t1", content=[{"type": "text", "text": "yes"}, picture]),
            {"type": "text", "text": "And now?"},
        ),
    )

    assert (
        AssistantMessage(
            (TextPart("Let me see."),), (ToolCall("t1", "f", '{"a":[1,"é"]}'), ToolCall("t2", "g", "{}")), "hm", "sig"
        ),
        ToolMessage("t2", (TextPart("no"),), "g", is_error=True),
        ToolMessage("t1", (TextPart("yes"), MediaPart("image/png", data="AAAA", raw=picture)), "f"),
        UserMessage((TextPart("And now?"),)),
    ) == turns[1:]


def test_a_result_may_be_empty_or_between_texts():
    turns = messages(*HI, CALLED, user({"type": "text", "text": "a"}, result(), {"type": "text", "text": "b"}))

    assert (UserMessage((TextPart("a"),)), ToolMessage("t1", (), "f"), UserMessage((TextPart("b"),))) == turns[2:]


@pytest.mark.parametrize(
    ("system", "kept"),
    [
        (["x-anthropic-billing-header: cc_version=2.1.330.050; cc_entrypoint=cli;", "You are"], ["You are"]),
        (["x-anthropic-billing-header: cc_version=2; cch=0a1;\nYou are"], ["You are"]),
        (
            "x-anthropic-billing-header: a\n\nYou are\nx-anthropic-billing-header: b",
            ["You are\nx-anthropic-billing-header: b"],
        ),
        (["x-anthropic-billing-header: a"], None),
        (["Headers such as x-anthropic-billing-header: a"], ["Headers such as x-anthropic-billing-header: a"]),
        (["a\n", "b", "c"], ["a\n", "b\n", "c"]),
    ],
)
def test_lines_for_the_provider_alone_are_left_out_of_the_system_prompt(system, kept):
    blocks = system if isinstance(system, str) else [{"type": "text", "text": text} for text in system]
    messages = read(system=blocks).messages

    assert (UserMessage((TextPart("Hi"),)) if kept is None else SystemMessage(tuple(map(TextPart, kept)))) == messages[
        0
    ]


def test_a_system_message_may_be_among_the_messages():
    turns = messages(
        *HI, {"role": "system", "content": [{"type": "text", "text": "note"}]}, {"role": "system", "content": "x"}
    )

    assert (SystemMessage((TextPart("note"),)), SystemMessage((TextPart("x"),))) == turns[1:]


def test_redacted_thinking_is_kept_as_a_signature():
    turns = messages(*HI, {"role": "assistant", "content": [{"type": "redacted_thinking", "data": "Emwk"}]})

    assert AssistantMessage(signature="redacted_thinking:Emwk") == turns[1]


@pytest.mark.parametrize(
    ("block", "parts"),
    [
        ({"type": "image", "source": {"type": "url", "url": "http://a/b.png"}}, [("image/*", "http://a/b.png", None)]),
        ({"type": "image", "source": {"type": "file", "file_id": "file_1"}}, [("image/*", None, None)]),
        (
            {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "AA"}},
            [("application/pdf", None, "AA")],
        ),
        ({"type": "document", "title": "T", "source": {"type": "text", "data": "words"}}, ["T\n", "words"]),
        (
            {"type": "document", "source": {"type": "content", "content": [{"type": "text", "text": "words"}]}},
            ["words"],
        ),
        (
            {"type": "search_result", "source": "s", "title": "t", "content": [{"type": "text", "text": "words"}]},
            ["t\n", "s\n", "words"],
        ),
        ({"type": "text", "text": ""}, []),
        ({"type": "of_the_future", "x": 1}, []),
        ({"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}, []),
    ],
    ids=lambda each: each.get("type") if isinstance(each, dict) else "",
)
def test_blocks_become_parts(block, parts):
    (_, *said) = messages({"role": "assistant", "content": "a"}, user(block, {"type": "text", "text": "end"}))
    found = [
        part.text if isinstance(part, TextPart) else (part.media_type, part.url, part.data)
        for message in said
        for part in message.content
    ]

    assert [*parts, "end"] == found


def test_tools_and_their_choice():
    request = read(tools=[F, G], tool_choice={"type": "any", "disable_parallel_tool_use": True})

    assert (Tool("f", "", {"type": "object"}), Tool("g", "does g", {"type": "object"}, strict=True)) == request.tools
    assert (ToolChoice("required"), False) == (request.tool_choice, request.parallel_tool_calls)


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        ({"type": "auto"}, AUTO),
        ({"type": "none"}, ToolChoice("none")),
        ({"type": "tool", "name": "f"}, ToolChoice("required", ("f",))),
        ({"type": "tool", "name": "web_search"}, ToolChoice("required", ("web_search",))),
        ({"type": "tool", "name": "later"}, AUTO),
        (None, AUTO),
    ],
)
def test_choices(choice, expected):
    tools = [F, {"type": "web_search_20250305", "name": "web_search"}, {**G, "name": "later", "defer_loading": True}]

    assert expected == read(tools=tools, tool_choice=choice).tool_choice


def test_provider_tools_are_kept_apart_and_tools_for_its_code_dropped():
    limits = {"allowed_domains": ["a.org"], "max_uses": 2}
    tools = [
        {"type": "web_search_20260209", "name": "web_search", **limits},
        {"type": "web_fetch_20250910", "name": "web_fetch"},
        {"type": "mcp_toolset", "mcp_server_name": "x"},
        {**F, "allowed_callers": ["code_execution_20250825"]},
        {**G, "allowed_callers": ["direct", "code_execution_20250825"]},
    ]
    request = read(tools=tools, tool_choice={"type": "any"})

    assert ["g"] == [tool.name for tool in request.tools]
    assert [
        ("web_search", "search", ("a.org",), 2),
        ("web_fetch", "fetch", (), None),
        ("mcp_toolset", None, (), None),
    ] == [(tool.name, tool.action, tool.allowed_domains, tool.max_uses) for tool in request.provider_tools]
    assert ToolChoice("required") == read(tools=tools[:1], tool_choice={"type": "any"}).tool_choice


@pytest.mark.parametrize(
    ("tool", "good", "bad"),
    [
        ({"type": "bash_20241022", "name": "bash"}, {"command": "ls"}, {"cmd": "ls"}),
        ({"type": "bash_20250124", "name": "bash"}, {"restart": True}, {"restart": "yes"}),
        (
            {"type": "text_editor_20250728", "name": "str_replace_based_edit_tool", "max_characters": 900},
            {"command": "insert", "path": "/a", "insert_line": 0, "insert_text": "x"},
            {"command": "undo_edit", "path": "/a"},
        ),
        (
            {"type": "text_editor_20241022", "name": "str_replace_editor"},
            {"command": "undo_edit", "path": "/a"},
            {"command": "view"},
        ),
        (
            {"type": "memory_20250818", "name": "memory"},
            {"command": "rename", "old_path": "/memories/a", "new_path": "/memories/b"},
            {"command": "move"},
        ),
        (
            {"type": "computer_20251124", "name": "computer", "display_width_px": 800, "display_height_px": 600},
            {"action": "zoom", "region": [0, 0, 9, 9]},
            {"action": "zoom", "region": [0, 0]},
        ),
        (
            {"type": "computer_20241022", "name": "computer"},
            {"action": "left_click", "coordinate": [1, 2]},
            {"action": "zoom"},
        ),
    ],
    ids=lambda each: each.get("type", "") if isinstance(each, dict) else "",
)
def test_tools_that_the_client_runs_are_functions(tool, good, bad):
    (read_tool,) = read(tools=[tool]).tools

    assert tool["name"] == read_tool.name
    assert first_violation(read_tool.parameters, good) is None
    assert first_violation(read_tool.parameters, bad)
    assert ("900" in read_tool.description) == ("max_characters" in tool)
    assert ("800 x 600" in read_tool.description) == ("display_width_px" in tool)


def test_servers_of_the_provider_and_unknown_limits_are_provider_tools():
    fetch = {"type": "web_fetch_20260318", "name": "web_fetch", "url_sources": {"type": "none"}}
    request = read(tools=[fetch], mcp_servers=[{"type": "url", "name": "x", "url": "https://x.example"}])

    assert [("web_fetch", None), ("x", None)] == [(tool.name, tool.action) for tool in request.provider_tools]


def test_a_toolset_is_one_function_for_each_member():
    toolset = {"type": "computer_toolset_20260801", "configs": {"zoom": {"enabled": False}, "key": {"enabled": True}}}
    request = read(tools=[toolset])
    names = [tool.name for tool in request.tools]

    assert {"left_click", "type", "key"} < set(names)
    assert "zoom" not in names
    assert {"computer"} == set(request.client_options.toolsets.values())


def test_deferred_tools_are_offered_where_the_provider_would_search_them():
    search = {"type": "tool_search_tool_regex_20251119", "name": "tool_search_tool_regex"}
    request = read(tools=[search, G, {**F, "defer_loading": True}])

    assert (["g", "f"], ()) == ([tool.name for tool in request.tools], request.provider_tools)


def test_a_deferred_tool_is_offered_once_the_history_has_loaded_it():
    tools = [G, {**F, "defer_loading": True}]
    loaded = user(result(content=[{"type": "tool_reference", "tool_name": "f"}]))
    searched = {"role": "assistant", "content": [{"type": "tool_use", "id": "t1", "name": "g", "input": {}}]}

    assert ["g"] == [tool.name for tool in read(tools=tools).tools]
    assert ["g", "f"] == [tool.name for tool in read(tools=tools, messages=[*HI, searched, loaded]).tools]


def test_engine_settings_go_to_extra_and_other_fields_stay_verbatim():
    form = {"type": "json_schema", "schema": {"type": "object"}}
    request = read(top_k=5, metadata={"user_id": "u"}, output_config={"format": form, "effort": "high"}, new_field=1)

    assert 5 == request.extra["top_k"]
    assert {"type": "object"} == request.extra["response_format"]["json_schema"]["schema"]
    assert {"top_k", "metadata", "output_config", "new_field"} == set(request.verbatim["anthropic"])


@pytest.mark.parametrize(
    ("thinking", "visible"),
    [
        (None, False),
        ({"type": "disabled"}, False),
        ({"type": "enabled", "budget_tokens": 1024}, True),
        ({"type": "adaptive"}, True),
    ],
)
def test_thinking_is_visible_if_the_client_requested_it(thinking, visible):
    assert visible == read(thinking=thinking).client_options.thinking


def test_threads_are_rejected_with_the_code_that_makes_sdks_send_everything():
    error = refused(thread={"type": "create"})
    body = json.loads(ANTHROPIC.encode_error(error))

    assert 400 == error.status
    assert "invalid_request_error" == body["error"]["type"]
    assert {"error_code": "thread_unsupported_request", "unsupported": ["threads"]} == body["error"]["details"]


def test_a_request_may_refer_to_what_the_upstream_stores():
    sent = {"messages": [user(result("t9", content="x"))], "thread": {"type": "continue", "previous_message_id": "m"}}
    request = ANTHROPIC.decode_request(json.dumps(sent).encode(), RequestTarget(stored_upstream=True))

    assert (ToolMessage("t9", (TextPart("x"),)),) == request.messages


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"messages": []}, "messages: at least one message is required"),
        ({"messages": None}, "messages: expected an array"),
        ({"messages": ["x"]}, "messages.0: expected an object"),
        ({"messages": [{"role": "tool", "content": "x"}]}, "messages.0.role: expected 'user', 'assistant' or 'system'"),
        ({"messages": [{"role": "user", "content": 5}]}, "messages.0.content: expected an array"),
        ({"messages": [user({"text": "x"})]}, "messages.0.content.0.type: expected a string"),
        ({"messages": [user({"type": "text"})]}, "messages.0.content.0.text: expected a string"),
        ({"messages": [user(result("nobody"))]}, "unexpected `tool_use_id` found in `tool_result` blocks: nobody"),
        ({"messages": [*HI, CALLED, CALLED]}, "`tool_use` ids must be unique"),
        ({"max_tokens": "x"}, "max_tokens: expected an integer"),
        ({"tools": [{"name": "a b", "input_schema": {}}]}, "tools.0.name"),
        ({"tools": [F, F]}, "two tools named 'f'"),
        ({"tools": [F], "tool_choice": {"type": "tool", "name": "h"}}, "no tool named 'h'"),
        ({"tools": [F], "tool_choice": {"type": "some"}}, "tool_choice.type"),
        ({"tool_choice": {"type": "any"}}, "no tools are offered"),
        ({"stop_sequences": [5]}, "stop_sequences.0: expected a string"),
    ],
    ids=str,
)
def test_an_unsupported_request_is_rejected_with_its_field(fields, words):
    assert words in refused(**fields).message


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b'{"messages":' + b"[" * 5000])
def test_a_malformed_body_is_rejected(body):
    with pytest.raises(RequestError):
        ANTHROPIC.decode_request(body)


def test_tool_references_are_separated():
    content = [{"type": "tool_reference", "tool_name": name} for name in "fg"]
    request = read(
        messages=[
            *HI,
            {"role": "assistant", "content": [{"type": "tool_use", "id": "c", "name": "search", "input": {}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c", "content": content}]},
        ]
    )

    assert "The tool f can be called now.\nThe tool g can be called now.\n" == "".join(
        part.text for part in request.messages[-1].content
    )


@pytest.mark.parametrize(
    ("effort", "expected"), [("low", "low"), ("high", "high"), ("xhigh", "high"), ("max", "high"), (None, None)]
)
def test_the_effort_is_the_reasoning_setting_of_other_apis(effort, expected):
    assert expected == read(output_config={"effort": effort}).extra.get("reasoning_effort")
