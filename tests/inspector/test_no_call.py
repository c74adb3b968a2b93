"""Why a request has no call, with the setting that cures it."""

import json

import pytest

from tests.scripted import ROLE, event
from tests.server.proxy import CALL, CHAT, chat_body, http_client, running_proxy
from tests.server.raw_upstream import raw_upstream, stream_chunks, stream_texts

FENCED = '```json\n{"name": "add", "arguments": {"a": 1, "b": 2}}\n```\nThat was an example.'
INVENTED = "<function_result>\n3\n</function_result>"
OPEN_REASONING = "<think>I should add them. " + CALL
NUMBERS = {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}, "required": ["a"]}
TYPED = {"tools": [{"type": "function", "function": {"name": "add", "parameters": NUMBERS}}]}
WRONG = CALL.replace("1", '"one"')
UNREADABLE = '<function_call>\n{"name": "add", "arguments": {"a": ]}\n</function_call>'
CUT = {"reason": "length"}
HERMES = CALL.replace("function_call", "tool_call")

CASES = {
    "text": (["The sum is 3."], {}, {}, "answer", "names no offered tool", "doctor"),
    "in a code block": ([FENCED, FENCED], {}, {}, "quoted", "add in a code block", "doctor"),
    "in prose": (["You could use add for that."], {}, {}, "answer", "add in its text", "doctor"),
    "named in reasoning": (["<think>I should use add.</think>No."], {}, {}, "reasoning", "in its reasoning", "doctor"),
    "not offered": ([CALL.replace("add", "subtract"), "No."], {}, {}, "unoffered", "'subtract'", "offer the tool"),
    "invented result": ([INVENTED, INVENTED], {}, {}, "result", "invented a tool's result", "doctor"),
    "unclosed reasoning": ([OPEN_REASONING], {}, {}, "reasoning", "was not closed", "--reasoning recover"),
    "closed reasoning": ([OPEN_REASONING + "</think>Done."], {}, {}, "reasoning", "in the reasoning", "promote"),
    "cut reasoning": (["<think>I should add th"], {}, CUT, "token_limit", "in its reasoning", "max_tokens"),
    "cut call": ([CALL[:40]], {}, CUT, "token_limit", "before a call was complete", "max_tokens"),
    "empty": ([], {}, {}, "empty", "The reply is empty", "--profile"),
    "blank": (["\n \n"], {}, {}, "empty", "The reply is empty", "--profile"),
    "another dialect": ([HERMES], {"rescue": False}, {}, "dialect", "another dialect", "--rescue"),
    "unreadable": ([UNREADABLE, UNREADABLE], {}, {}, "invalid", "no certain reading", "--max-retries"),
}  # fmt: skip


def ended(texts: list[str], reason: str = "stop"):
    chunks = [ROLE, *(event(choices=[{"index": 0, "delta": {"content": text}}]) for text in texts)]
    end = event(choices=[{"index": 0, "delta": {}, "finish_reason": reason}])
    return stream_chunks(*chunks, end, b"data: [DONE]\n\n")


async def explained(replies: list, body: dict | None = None, **settings: object) -> dict | None:
    async with (
        raw_upstream(*replies) as upstream,
        running_proxy(upstream.url, inspect=True, **settings) as url,
        http_client(url) as client,
    ):
        await client.post(CHAT, json=chat_body() | (body or {}))
        return (await client.get("/fcshim/api/requests/1")).json()["why_no_call"]


@pytest.mark.parametrize("case", CASES)
async def test_a_request_without_a_call_says_why_and_what_cures_it(case):
    texts, settings, end, kind, reason, cure = CASES[case]
    replies = [ended([text], **end) for text in texts] or [ended([])]
    why = await explained(replies, **settings)

    assert kind == why["kind"]
    assert reason in why["reason"]
    assert cure in why["cure"]
    assert "Dialect: function_call. Reason: default: nothing else is known of it." in why["dialect"]


async def test_reasoning_that_the_upstream_separates_names_the_way_to_get_it_back():
    chunks = [event(choices=[{"index": 0, "delta": {"reasoning_content": part}}]) for part in ("I add. ", CALL)]
    end = event(choices=[{"index": 0, "delta": {}, "finish_reason": "stop"}])
    why = await explained([stream_chunks(ROLE, *chunks, end, b"data: [DONE]\n\n")])

    assert "reasoning" == why["kind"]
    assert "--reasoning recover" in why["cure"]
    assert "--reasoning-format none" in why["cure"]


async def test_an_invalid_call_that_stands_after_its_retry_is_explained():
    why = await explained([stream_texts(WRONG), stream_texts(WRONG)], TYPED)

    assert "invalid" == why["kind"]
    assert "after 1 retry" in why["reason"]
    assert "add" in why["reason"]
    assert "--max-retries" in why["cure"]


@pytest.mark.parametrize("replies", [[CALL], [WRONG, CALL]])
async def test_a_request_with_its_call_says_nothing(replies):
    assert await explained([stream_texts(each) for each in replies], TYPED) is None


async def test_the_settings_are_named_where_the_dialect_comes_from_them():
    why = await explained([stream_texts("No.")], dialect="hermes")

    assert "Dialect: hermes. Reason: the settings. Setting: --dialect." == why["dialect"]


async def test_native_tools_name_the_prompt():
    call = json.dumps({"city": "Rome"})
    why = await explained([stream_texts(f"I would use add with {call}.")], tools="native")

    assert "" == why["dialect"]
    assert "--tools prompt" in why["cure"]
