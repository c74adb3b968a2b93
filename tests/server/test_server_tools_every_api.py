"""Server tools next to client tools, in every client API; the client's codec writes the requests."""

import msgspec
import pytest

from fcshim.codecs.routes import CODECS
from fcshim.messages import AssistantMessage, Request, TextPart, Tool, ToolCall, ToolMessage, UserMessage
from fcshim.reply import fold
from tests.mcp.server_programs import serve_over_http
from tests.server.mcp_proxy import ADD, mixed_calls, prompts, proxy_with_servers
from tests.server.proxy import http_client

APIS = pytest.mark.parametrize("codec", CODECS.values(), ids=CODECS)
QUESTION = UserMessage((TextPart("How much?"),))
WEATHER = Tool("weather", "Tell the weather", {"type": "object", "properties": {"city": {"type": "string"}}})


@pytest.fixture(scope="module")
def friendly():
    """One server for the module, over streamable HTTP."""
    with serve_over_http("http") as endpoint:
        yield {"f": {"url": endpoint.url}}


async def ask(url, codec, *messages, tools=(WEATHER,)):
    """Send a request as a client of this API, and read the stream."""
    request = Request(model="m", messages=messages, tools=tools, stream=True, include_usage=True, max_tokens=100)
    outgoing = codec.encode_request(request)
    path = outgoing.path[1:] if outgoing.path.startswith("//") else "/v1" + outgoing.path
    headers = {"content-type": "application/json", **dict(outgoing.headers)}
    async with http_client(url) as client:
        response = await client.post(path, content=outgoing.body, headers=headers)
    decoder = codec.decoder()
    return fold([event for _, event in decoder.feed(response.content) + decoder.close()])


@APIS
async def test_a_client_without_tools_gets_an_agent(codec, friendly, tmp_path):
    async with proxy_with_servers(tmp_path, friendly, "See. " + ADD, "It is 3.") as (url, upstream):
        reply = await ask(url, codec, QUESTION, tools=())

    assert ("See. It is 3.", (), "complete") == (reply.text, reply.tool_calls, reply.stop_reason)
    assert (20, 10) == (reply.usage.input_tokens, reply.usage.output_tokens)
    assert 2 == len(upstream.requests)


@APIS
async def test_a_mixed_turn_continues_with_all_its_calls(codec, friendly, tmp_path):
    async with proxy_with_servers(tmp_path, friendly, mixed_calls(), "3 and rain.", "Yes.") as (url, upstream):
        first = await ask(url, codec, QUESTION)
        (call,) = first.tool_calls
        spoken = AssistantMessage(
            (TextPart(first.text),),
            (ToolCall(call.tool_call_id, call.tool_call_name, call.tool_call_arguments_complete),),
        )
        result = ToolMessage(call.tool_call_id, (TextPart("rain"),), "weather")
        second = await ask(url, codec, QUESTION, spoken, result)
        more = (AssistantMessage((TextPart(second.text),)), UserMessage((TextPart("Sure?"),)))
        third = await ask(url, codec, QUESTION, spoken, result, *more)

    assert ("weather", {"city": "Oslo"}) == (
        call.tool_call_name,
        msgspec.json.decode(call.tool_call_arguments_complete),
    )
    assert ("tool_use", "3 and rain.", "Yes.") == (first.stop_reason, second.text, third.text)
    for prompt in prompts(upstream)[1:]:
        assert ADD in prompt
        assert prompt.startswith(prompts(upstream)[0])
        assert prompt.index(ADD) < prompt.rindex('"Oslo"') < prompt.index("rain")
