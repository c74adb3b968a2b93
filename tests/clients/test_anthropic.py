"""The official Anthropic SDK with a running fcshim in front of an endpoint that supports text only."""

import asyncio
import json

import anthropic
import pytest

from fcshim.config import Secret
from fcshim.demo.serving import serve_model, serve_proxy
from tests.clients.text_only import check_text_only
from tests.scripted import CUT, ROLE, Script, model_list, scripted_upstream, text_chunk, text_reply
from tests.server.proxy import running_proxy
from tests.server.raw_upstream import fixed_reply, raw_upstream

ADD = {
    "name": "add",
    "description": "Add two numbers",
    "input_schema": {
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
        "required": ["a", "b"],
    },
}
PING = {"name": "ping", "input_schema": {"type": "object", "properties": {}}}
CALL = '<function_call>\n{"name": "add", "arguments": {"a": 1, "b": 2}}\n</function_call>'
HI = [{"role": "user", "content": "Hi"}]


def called(name: str, arguments: str = "{}") -> str:
    return f'<function_call>\n{{"name": "{name}", "arguments": {arguments}}}\n</function_call>'


def cut(text: str, size: int = 5) -> list[str]:
    return [text[at : at + size] for at in range(0, len(text), size)]


def sdk(url: str, **options) -> anthropic.AsyncAnthropic:
    return anthropic.AsyncAnthropic(**{"base_url": url, "api_key": "none", "max_retries": 0, **options})


async def create(url: str, **fields) -> anthropic.types.Message:
    async with sdk(url) as client:
        return await client.messages.create(
            **{"model": "m", "max_tokens": 100, "messages": HI, "tools": [ADD], **fields}
        )


async def stream(url: str, **fields) -> tuple[anthropic.types.Message, list[str]]:
    """Return the message that the SDK accumulates, and the types of the events it saw."""
    async with (
        sdk(url) as client,
        client.messages.stream(**{"model": "m", "max_tokens": 100, "messages": HI, "tools": [ADD], **fields}) as events,
    ):
        seen = [event.type async for event in events]
        return await events.get_final_message(), seen


@pytest.mark.parametrize("ask", [create, stream])
async def test_text_and_a_call(ask):
    async with (
        scripted_upstream(text_reply(*cut("Let me see. " + CALL))) as upstream,
        running_proxy(upstream.url) as url,
    ):
        answer = await ask(url)
        message = answer if ask is create else answer[0]
        (body,) = check_text_only(upstream)

    text, use = message.content

    assert "Let me see. " == text.text
    assert ("add", {"a": 1, "b": 2}) == (use.name, use.input)
    assert use.id.startswith("toolu_")
    assert message.id.startswith("msg_")
    assert ("tool_use", None) == (message.stop_reason, message.stop_sequence)
    assert (10, 5) == (message.usage.input_tokens, message.usage.output_tokens)
    assert 100 == body["max_tokens"]
    assert "function add(" in body["messages"][0]["content"]


async def test_the_arguments_stream_while_they_are_written():
    async with (
        scripted_upstream(text_reply(*cut(CALL, 3))) as upstream,
        running_proxy(upstream.url) as url,
        sdk(url) as client,
    ):
        pieces = [
            event.delta.partial_json
            async for event in await client.messages.create(
                model="m", max_tokens=9, messages=HI, tools=[ADD], stream=True
            )
            if event.type == "content_block_delta" and event.delta.type == "input_json_delta"
        ]

    assert len(pieces) > 2
    assert '{"a": 1, "b": 2}' == "".join(pieces)


@pytest.mark.parametrize("ask", [create, stream])
async def test_parallel_calls_and_one_without_arguments(ask):
    text = CALL + "\n" + called("ping")
    async with scripted_upstream(text_reply(*cut(text))) as upstream, running_proxy(upstream.url) as url:
        answer = await ask(url, tools=[ADD, PING])
        message = answer if ask is create else answer[0]

    assert [("add", {"a": 1, "b": 2}), ("ping", {})] == [(use.name, use.input) for use in message.content]
    assert 2 == len({use.id for use in message.content})


async def test_one_call_where_only_one_is_allowed():
    text = CALL + "\n" + called("ping")
    async with scripted_upstream(text_reply(*cut(text))) as upstream, running_proxy(upstream.url) as url:
        message = await create(url, tools=[ADD, PING], tool_choice={"type": "auto", "disable_parallel_tool_use": True})

    assert ["add"] == [use.name for use in message.content]


async def test_a_forced_tool_is_asked_for_and_a_forbidden_one_is_not_offered():
    async with (
        scripted_upstream(text_reply(CALL), text_reply("No.")) as upstream,
        running_proxy(upstream.url, constrain="off") as url,
    ):
        forced = await create(url, tool_choice={"type": "tool", "name": "add"})
        forbidden = await create(url, tool_choice={"type": "none"})
        first, second = check_text_only(upstream)

    assert "tool_use" == forced.stop_reason
    assert ("end_turn", "No.") == (forbidden.stop_reason, forbidden.content[0].text)
    assert "add" in first["messages"][0]["content"]
    assert "add" not in json.dumps(second)


async def test_results_with_errors_and_images_go_back_as_text_turns():
    picture = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}}
    history = [
        *HI,
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "hm", "signature": "s"},
                {"type": "text", "text": "Let me see."},
                {"type": "tool_use", "id": "toolu_1", "name": "add", "input": {"a": 1, "b": 2}},
                {"type": "tool_use", "id": "toolu_2", "name": "add", "input": {"a": 1, "b": "x"}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "toolu_1", "content": [{"type": "text", "text": "3"}, picture]},
                {"type": "tool_result", "tool_use_id": "toolu_2", "content": "x is no number", "is_error": True},
                {"type": "text", "text": "And now?"},
            ],
        },
        {"role": "system", "content": "Be brief."},
    ]
    async with (
        scripted_upstream(text_reply("Three.")) as upstream,
        running_proxy(upstream.url, profile="text-only") as url,
    ):
        message = await create(url, messages=history, system=[{"type": "text", "text": "You add."}])
        (body,) = check_text_only(upstream)

    system, user, assistant, results = [turn["content"] for turn in body["messages"]]

    assert "Three." == message.content[0].text
    assert system.startswith("You add.")
    assert "Hi" == user
    assert assistant.startswith("Let me see.\n<function_call>")
    assert 2 == assistant.count('"name": "add"')
    assert results.index("3") < results.index("x is no number") < results.index("And now?") < results.index("Be brief.")
    assert "image" in results


async def test_without_tools_the_reply_is_translated():
    async with scripted_upstream(text_reply("Hel", "lo")) as upstream, running_proxy(upstream.url) as url:
        message, seen = await stream(url, tools=[], stop_sequences=["END"], extra_body={"temperature": 0.5})
        (body,) = check_text_only(upstream)

    assert "Hello" == message.content[0].text
    assert "end_turn" == message.stop_reason
    assert ["message_start", "content_block_start"] == seen[:2]
    assert (["END"], 0.5) == (body["stop"], body["temperature"])


async def test_reasoning_is_shown_to_those_who_ask_for_it():
    thinks = b'data: {"choices":[{"index":0,"delta":{"reasoning_content":"hm"}}]}\n\n'
    script = Script((ROLE, thinks, *text_reply("Hello").pieces))
    async with scripted_upstream(script, script) as upstream, running_proxy(upstream.url) as url:
        plain = await create(url)
        thinking, _ = await stream(url, thinking={"type": "enabled", "budget_tokens": 1024})

    assert ["text"] == [block.type for block in plain.content]
    assert [("thinking", "hm"), ("text", None)] == [
        (each.type, getattr(each, "thinking", None)) for each in thinking.content
    ]


async def test_a_broken_off_call_is_an_error_in_the_stream():
    pieces = (ROLE, text_chunk('<function_call>\n{"name": "add", "arguments": {"a": 1, "b'), CUT)
    async with scripted_upstream(Script(pieces)) as upstream, running_proxy(upstream.url) as url:
        with pytest.raises(anthropic.APIStatusError) as caught:
            await stream(url)

    assert "api_error" == caught.value.body["error"]["type"]


@pytest.mark.parametrize("size", [1, 5, 1000])
async def test_a_call_that_max_tokens_cuts_off_anywhere_ends_the_stream_and_cannot_run(size):
    written = [CALL[:end] for end in range(len(CALL))]
    scripts = [text_reply(*cut("Well. " + call, size), reason="length") for call in written]
    async with scripted_upstream(*scripts) as upstream, running_proxy(upstream.url) as url:
        replies = [await stream(url) for _ in scripts]

    for call, (message, seen) in zip(written, replies, strict=True):
        assert ("max_tokens", "message_stop") == (message.stop_reason, seen[-1]), call
        for use in (block for block in message.content if block.type == "tool_use"):
            assert "_truncated" in use.input, call
            assert {None} >= {use.input[name] for name in use.input if name != "_truncated"}, call


@pytest.mark.parametrize("eagerly", [True, False])
async def test_the_tool_runner_does_not_run_a_call_that_max_tokens_cuts_off(eagerly):
    ran = []
    script = text_reply(*cut(CALL[:-20]), reason="length")
    last = await run_tools(script, ran, eagerly=eagerly)

    assert ("max_tokens", []) == (last.stop_reason, ran)


@pytest.mark.parametrize("reason", ["stop", "length"])
@pytest.mark.parametrize("eagerly", [True, False])
async def test_the_tool_runner_does_not_run_a_call_that_breaks_off_after_a_valid_one(eagerly, reason):
    ran = []
    script = text_reply(*cut(CALL + "\n" + CALL[:-20]), reason=reason)
    last = await run_tools(script, ran, eagerly=eagerly)

    assert ("max_tokens", [(1, 2)] if eagerly else []) == (last.stop_reason, ran)
    assert [{"a": 1, "b": 2}, None] == [block.input if block.input.get("a") else None for block in last.content]


async def run_tools(script, ran, *, eagerly):
    """Have the SDK run a tool that takes anything, and that notes its calls in `ran`; return the last message."""

    @anthropic.beta_async_tool
    async def add(a: int | None = 0, b: int | None = 0, _truncated: str = "") -> str:
        """Add two numbers."""
        ran.append((a, b))
        return "0"

    async with (
        scripted_upstream(script) as upstream,
        running_proxy(upstream.url, max_retries=0) as url,
        sdk(url) as client,
    ):
        fields = {"run_tools_eagerly": True} if eagerly else {}
        runner = client.beta.messages.tool_runner(
            model="m", max_tokens=99, messages=HI, tools=[add], stream=True, **fields
        )
        async for turn in runner:
            last = await turn.get_final_message()
    return last


async def test_a_call_that_is_cut_off_is_left_out_of_a_whole_reply():
    text = 'Well. <function_call>\n{"name": "add", "arguments": {"a": 1, "b'
    async with scripted_upstream(text_reply(text, reason="length")) as upstream, running_proxy(upstream.url) as url:
        message = await create(url)

    assert ("max_tokens", ["Well. "]) == (message.stop_reason, [block.text for block in message.content])


async def test_errors_before_the_reply_have_their_status_and_type():
    refused = Script((b'{"error":{"message":"no such model","code":404}}',), status=404)
    busy = Script((b'{"error":{"message":"slow down"}}',), status=429)
    async with scripted_upstream(refused, busy) as upstream, running_proxy(upstream.url) as url:
        with pytest.raises(anthropic.NotFoundError) as missing:
            await create(url)
        with pytest.raises(anthropic.RateLimitError):
            await stream(url)
        with pytest.raises(anthropic.BadRequestError) as wrong:
            await create(url, messages=[{"role": "tool", "content": "x"}])

    assert "not_found_error" == missing.value.body["error"]["type"]
    assert "invalid_request_error" == wrong.value.body["error"]["type"]
    assert "messages.0.role" in wrong.value.message


async def test_keys_are_taken_in_both_ways():
    async with (
        scripted_upstream(text_reply("a"), text_reply("b")) as upstream,
        running_proxy(upstream.url, api_keys=(Secret("secret"),)) as url,
    ):
        async with sdk(url, api_key=None, auth_token="secret") as client:
            await client.messages.create(model="m", max_tokens=9, messages=HI)
        async with sdk(url, api_key="secret") as client:
            await client.messages.create(model="m", max_tokens=9, messages=HI)
        async with sdk(url, api_key="wrong") as client:
            with pytest.raises(anthropic.AuthenticationError):
                await client.messages.create(model="m", max_tokens=9, messages=HI)

    assert not any(name in asked.headers for asked in upstream.requests for name in ("authorization", "x-api-key"))


async def test_tokens_are_counted_by_the_upstream_and_else_estimated():
    exact = Script((b'{"input_tokens":12}',))
    unknown = Script((b"{}",), status=404)
    async with (
        scripted_upstream(exact, unknown, unknown) as upstream,
        running_proxy(upstream.url) as url,
        sdk(url) as client,
    ):
        counted = await client.messages.count_tokens(model="m", messages=HI, tools=[ADD])
        guessed = await client.messages.with_raw_response.count_tokens(model="m", messages=HI)

    assert 12 == counted.input_tokens
    assert ("estimate", 1) == (guessed.headers["x-fcshim-count"], (await guessed.parse()).input_tokens)
    assert ["/v1/chat/completions/input_tokens"] * 2 == [asked.path for asked in upstream.requests][:2]


async def test_models_are_listed_in_the_clients_form():
    async with (
        scripted_upstream(model_list("one", "two/b"), model_list("one", "two/b"), model_list("one")) as upstream,
        running_proxy(upstream.url) as url,
        sdk(url) as client,
    ):
        assert ["one", "two/b"] == [model.id async for model in client.models.list()]
        assert "two/b" == (await client.models.retrieve("two/b")).id
        with pytest.raises(anthropic.NotFoundError):
            await client.models.retrieve("three")


async def test_the_tool_runner_gives_up_threads_and_goes_on():
    @anthropic.beta_async_tool
    async def add(a: int, b: int) -> str:
        """Add two numbers."""
        return str(a + b)

    async with (
        scripted_upstream(text_reply(CALL), text_reply("Three.")) as upstream,
        running_proxy(upstream.url) as url,
        sdk(url) as client,
    ):
        runner = client.beta.messages.tool_runner(model="m", max_tokens=99, messages=HI, tools=[add])
        last = await runner.until_done()
        _, second = check_text_only(upstream)

    assert "Three." == last.content[0].text
    assert "3" in second["messages"][-1]["content"]


async def test_the_synchronous_client_streams_too():
    def ask(url: str) -> anthropic.types.Message:
        with (
            anthropic.Anthropic(base_url=url, api_key="none", max_retries=0) as client,
            client.messages.stream(model="m", max_tokens=99, messages=HI, tools=[ADD]) as events,
        ):
            return events.get_final_message()

    async with scripted_upstream(text_reply(*cut(CALL))) as upstream, running_proxy(upstream.url) as url:
        message = await asyncio.to_thread(ask, url)

    assert {"a": 1, "b": 2} == message.content[0].input


async def test_pings_in_a_silent_stream_harm_nobody():
    waits = Script((b": waiting\n\n", *text_reply("Hello").pieces))
    async with scripted_upstream(waits) as upstream, running_proxy(upstream.url, first_ping=0.001, ping=0.001) as url:
        message, _ = await stream(url)

    assert "Hello" == message.content[0].text


async def test_an_error_after_a_ping_is_told_in_the_stream():
    async with raw_upstream(late_refusal) as upstream, running_proxy(upstream.url, first_ping=0.01) as url:
        with pytest.raises(anthropic.APIStatusError, match="out of memory"):
            await stream(url)


async def late_refusal(peer):
    await asyncio.sleep(0.3)
    await fixed_reply(500, b'{"error":{"message":"out of memory"}}')(peer)


@pytest.mark.engine
@pytest.mark.model_pages
async def test_a_real_model_is_called_and_answered():
    tool = {"name": "add_numbers", "input_schema": {"type": "object", "properties": {"first": {}, "second": {}}}}
    asked = {"role": "user", "content": "call add_numbers with first=19, second=23"}
    async with serve_model("numpy") as model, serve_proxy(model.url) as url:
        message, _ = await stream(url, messages=[asked], tools=[tool])
        (use,) = message.content
        result = {"type": "tool_result", "tool_use_id": use.id, "content": "42"}
        history = [asked, {"role": "assistant", "content": [use.model_dump()]}, {"role": "user", "content": [result]}]
        answer = await create(url, messages=history, tools=[tool])

    assert "tool_use" == message.stop_reason
    assert {"first": 19, "second": 23} == use.input
    assert "add_numbers returned 42" == answer.content[0].text
