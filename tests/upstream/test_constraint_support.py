"""Which constraints are sent to an upstream, and what is remembered about it."""

import pytest

from fcshim import Client
from fcshim.errors import ConfigError, UpstreamError
from tests.constrained_upstream import (
    CALL,
    GRAMMAR_REFUSED,
    completion_reply,
    make_client,
    owned_model_list,
    prompt_reply,
)
from tests.scripted import CUT, Script, scripted_upstream, text_reply
from tests.server.proxy import CHAT, chat_body, http_client, running_proxy

ADD = {"type": "function", "function": {"name": "add", "parameters": {"type": "object", "properties": {"a": {}}}}}
REST = ' {"a": 1}}\n</function_call>'
"""The remainder of `CALL` after a prefill."""


async def test_a_required_call_is_sent_with_a_grammar_to_llama_server():
    async with (
        scripted_upstream(owned_model_list("llamacpp"), text_reply(CALL)) as upstream,
        make_client(upstream) as client,
    ):
        reply = await client.complete("Hi", [ADD], tool_choice="required")

    assert ["GET", "POST"] == [received.method for received in upstream.requests]
    assert upstream.requests[1].body["grammar"].startswith('root ::= "<function_call>')
    assert "add" == reply.tool_calls[0].tool_call_name


async def test_the_backend_is_detected_once_and_only_for_a_required_call():
    scripts = text_reply("Hi"), owned_model_list("llamacpp"), text_reply(CALL), text_reply(CALL)
    async with scripted_upstream(*scripts) as upstream, make_client(upstream) as client:
        await client.complete("Hi", [ADD])
        for _ in range(2):
            await client.complete("Hi", [ADD], tool_choice="required")

    assert ["POST", "GET", "POST", "POST"] == [received.method for received in upstream.requests]
    assert "grammar" not in upstream.requests[0].body


@pytest.mark.parametrize(
    "listed", [owned_model_list("somebody"), Script((b"no JSON",)), Script((b"-",), 404), Script((b"[]",))]
)
async def test_an_unknown_backend_gets_no_unknown_fields(listed):
    pages = {"/v1/models": listed}
    scripts = text_reply(CALL), text_reply(CALL)
    async with scripted_upstream(*scripts, pages=pages) as upstream, make_client(upstream) as client:
        for _ in range(2):
            await client.complete("Hi", [ADD], tool_choice="required")

    assert 1 == upstream.page_paths.count("/v1/models")
    assert not {"grammar", "response_format"} & {name for received in upstream.requests for name in received.body}


async def test_a_backend_that_is_detected_by_a_page_gets_its_constraint():
    pages = {"/v1/models": owned_model_list("hf.co"), "/api/version": Script((b'{"version":"0.12.6"}',))}
    async with (
        scripted_upstream(text_reply('{"name": "add"}'), pages=pages) as upstream,
        make_client(upstream) as client,
    ):
        await client.complete("Hi", [ADD], tool_choice="required")

    assert "json_schema" == upstream.requests[0].body["response_format"]["type"]


async def test_a_setting_names_the_backend_or_switches_constraints_off():
    for setting, expected in [("llama-server", True), ("off", False), ("generic", False)]:
        async with scripted_upstream(text_reply(CALL)) as upstream, make_client(upstream, constrain=setting) as client:
            await client.complete("Hi", [ADD], tool_choice="required")

        assert expected == ("grammar" in upstream.requests[0].body)


async def test_an_optional_call_is_constrained_only_by_the_eager_backend():
    for setting, expected in [("llama-server", False), ("llama-server-eager", True)]:
        async with scripted_upstream(text_reply("Hi")) as upstream, make_client(upstream, constrain=setting) as client:
            await client.complete("Hi", [ADD])

        assert expected == ("grammar" in upstream.requests[0].body)


async def test_the_lazy_backend_uses_apply_template_and_completion():
    scripts = prompt_reply("PROMPT"), completion_reply("So. ", CALL)
    async with (
        scripted_upstream(*scripts) as upstream,
        make_client(upstream, constrain="llama-server-lazy") as client,
    ):
        reply = await client.complete("Hi", [ADD], temperature=0.5, max_tokens=99)

    assert ["/apply-template", "/completion"] == [received.path for received in upstream.requests]
    assert ("PROMPT", 0.5, 99, True) == tuple(
        upstream.requests[1].body[name] for name in ("prompt", "temperature", "n_predict", "grammar_lazy")
    )
    assert ("So. ", "add", "tool_use") == (reply.text, reply.tool_calls[0].tool_call_name, reply.stop_reason)
    assert (20, 7, 15) == (reply.usage.input_tokens, reply.usage.output_tokens, reply.usage.cached_tokens)


@pytest.mark.parametrize(
    ("fields", "paths"),
    [
        ({}, ["/apply-template", "/completion"]),
        ({"tool_choice": "required"}, ["/v1/chat/completions"]),
        ({"tool_choice": {"type": "function", "function": {"name": "add"}}}, ["/v1/chat/completions"]),
        ({"tool_choice": "none"}, ["/v1/chat/completions"]),
        ({"grammar": 'root ::= "x"'}, ["/v1/chat/completions"]),
        ({"response_format": {"type": "json_object"}}, ["/v1/chat/completions"]),
    ],
)
async def test_the_completion_endpoint_is_used_only_with_tool_choice_auto(fields, paths):
    scripts = [prompt_reply("PROMPT"), completion_reply(CALL)] if len(paths) == 2 else [text_reply(CALL)]
    async with (
        scripted_upstream(*scripts) as upstream,
        make_client(upstream, constrain="llama-server-lazy", max_retries=0) as client,
    ):
        await client.complete("Hi", [ADD], **fields)

    assert paths == [received.path for received in upstream.requests]


async def test_reasoning_that_the_template_opens_is_reasoning_in_the_reply():
    scripts = prompt_reply("PROMPT<think>\n"), completion_reply(f"Shall I say {CALL}? No.", "</think>", "Hello.")
    async with (
        scripted_upstream(*scripts) as upstream,
        make_client(upstream, constrain="llama-server-lazy") as client,
    ):
        reply = await client.complete("Hi", [ADD])

    assert (f"Shall I say {CALL}? No.", "Hello.", ()) == (reply.reasoning, reply.text, tuple(reply.tool_calls))


async def test_a_retry_uses_the_chat_endpoint_with_the_grammar_of_a_call():
    unread = '<function_call>\n{"name": "add", "arguments": {"a": 1, "a": 2}}\n</function_call>'
    scripts = prompt_reply("PROMPT"), completion_reply(unread), text_reply(CALL)
    async with (
        scripted_upstream(*scripts) as upstream,
        make_client(upstream, constrain="llama-server-lazy") as client,
    ):
        reply = await client.complete("Hi", [ADD])

    assert ["add"] == [call.tool_call_name for call in reply.tool_calls]
    assert "/v1/chat/completions" == upstream.requests[2].path
    assert upstream.requests[2].body["grammar"].startswith("root ::= ")
    assert "grammar_lazy" not in upstream.requests[2].body


NOT_FOUND = Script((b'{"error":{"code":404,"message":"File Not Found","type":"not_found_error"}}',), 404)


@pytest.mark.parametrize(
    "refusal",
    [
        (NOT_FOUND,),
        (Script((b"<html>Welcome</html>",)),),
        (prompt_reply("PROMPT"), GRAMMAR_REFUSED),
        (prompt_reply("PROMPT"), NOT_FOUND),
    ],
)
@pytest.mark.parametrize("proxied", [False, True])
async def test_a_server_without_lazy_grammars_always_falls_back_to_the_chat_endpoint(refusal, proxied):
    scripts = *refusal, text_reply(CALL), text_reply(CALL)
    async with scripted_upstream(*scripts) as upstream:
        if proxied:
            async with running_proxy(upstream.url, constrain="llama-server-lazy") as url, http_client(url) as client:
                answers = [await client.post(CHAT, json=chat_body(stream=stream)) for stream in (True, False)]

            assert [True, True] == ["tool_calls" in answer.text for answer in answers]
        else:
            async with make_client(upstream, constrain="llama-server-lazy") as client:
                replies = [await client.complete("Hi", [ADD]) for _ in range(2)]

            assert [1, 1] == [len(reply.tool_calls) for reply in replies]

    assert ["/v1/chat/completions"] * 2 == [received.path for received in upstream.requests[len(refusal) :]]
    assert not any("grammar" in received.body for received in upstream.requests[len(refusal) :])


async def test_a_constraint_of_the_client_is_kept():
    own = {"tool_choice": "required", "grammar": 'root ::= "x"'}
    async with (
        scripted_upstream(text_reply("x")) as upstream,
        make_client(upstream, constrain="llama-server") as client,
    ):
        await client.complete("Hi", [ADD], **own)

    assert 'root ::= "x"' == upstream.requests[0].body["grammar"]


async def test_a_refused_constraint_is_left_out_at_once_and_in_later_requests():
    scripts = GRAMMAR_REFUSED, text_reply(CALL), text_reply(REST)
    async with scripted_upstream(*scripts) as upstream, make_client(upstream, constrain="llama-server") as client:
        replies = [await client.complete("Hi", [ADD], tool_choice="required") for _ in range(2)]

    assert [True, False, False] == ["grammar" in received.body for received in upstream.requests]
    assert all(reply.tool_calls for reply in replies)


def adding(*keys: str) -> list[dict]:
    """Make a tool with its own grammar."""
    return [{"type": "function", "function": {"name": "add", "parameters": {"properties": {key: {} for key in keys}}}}]


async def test_after_three_refusals_and_no_success_no_constraint_is_sent():
    scripts = [script for _ in range(3) for script in (GRAMMAR_REFUSED, text_reply(CALL))]
    async with (
        scripted_upstream(*scripts, text_reply(REST)) as upstream,
        make_client(upstream, constrain="llama-server") as client,
    ):
        for key in "bcda":
            await client.complete("Hi", adding(key), tool_choice="required")

    assert [True, False] * 3 + [False] == ["grammar" in received.body for received in upstream.requests]


async def test_after_a_success_refusals_do_not_disable_constraints():
    refusals = [script for _ in range(5) for script in (GRAMMAR_REFUSED, text_reply(CALL))]
    async with (
        scripted_upstream(text_reply(CALL), *refusals, text_reply(CALL)) as upstream,
        make_client(upstream, constrain="llama-server") as client,
    ):
        for key in "abcdefg":
            await client.complete("Hi", adding(key), tool_choice="required")

    assert [True, *[True, False] * 5, True] == ["grammar" in received.body for received in upstream.requests]


async def test_a_lost_connection_counts_as_a_refusal_only_the_second_time():
    gone = Script((CUT,))
    scripts = [
        gone,
        text_reply(CALL),
        text_reply(CALL),
        gone,
        text_reply(CALL),
        gone,
        text_reply(CALL),
        text_reply(REST),
    ]
    async with scripted_upstream(*scripts) as upstream, make_client(upstream, constrain="llama-server") as client:
        for _ in range(5):
            reply = await client.complete("Hi", [ADD], tool_choice="required")

            assert reply.tool_calls

    sent = [True, False, True, True, False, True, False, False]

    assert sent == ["grammar" in received.body for received in upstream.requests]


async def test_an_error_that_remains_without_the_constraint_is_raised_and_does_not_count_as_a_refusal():
    scripts = GRAMMAR_REFUSED, GRAMMAR_REFUSED, text_reply(CALL)
    async with scripted_upstream(*scripts) as upstream, make_client(upstream, constrain="llama-server") as client:
        with pytest.raises(UpstreamError):
            await client.complete("Hi", [ADD], tool_choice="required")
        await client.complete("Hi", [ADD], tool_choice="required")

    assert [True, False, True] == ["grammar" in received.body for received in upstream.requests]


@pytest.mark.parametrize("stream", [False, True])
async def test_the_proxy_does_the_same(stream):
    scripts = owned_model_list("llamacpp"), GRAMMAR_REFUSED, text_reply(CALL), text_reply(REST)
    async with scripted_upstream(*scripts) as upstream, running_proxy(upstream.url) as url, http_client(url) as client:
        for _ in range(2):
            response = await client.post(CHAT, json=chat_body(stream=stream, tool_choice="required"))

            assert 200 == response.status_code
            assert "tool_calls" in response.text

    assert [False, True, False, False] == ["grammar" in received.body for received in upstream.requests]


def test_an_unknown_kind_of_server_is_refused():
    with pytest.raises(ConfigError, match="llama-server"):
        Client("http://127.0.0.1:9", constrain="llamma")
