"""Every client API with every upstream API: the codecs play both ends.

Law 1 through the whole proxy: the folded reply does not depend on how the upstream's bytes are split.
"""

import json
from urllib.parse import urlsplit

import httpx
import pytest

from fcshim.codecs.base import Codec, ReplyIdentity
from fcshim.codecs.routes import CODECS, find_route
from fcshim.codecs.upstreams import UPSTREAMS, UpstreamKind
from fcshim.events import Error, Event, Stop, Text, ToolCallChunk, ToolCallEnd, ToolCallStart, Usage
from fcshim.messages import (
    AssistantMessage,
    Request,
    SystemMessage,
    TextPart,
    Tool,
    ToolCall,
    ToolChoice,
    ToolMessage,
    UserMessage,
)
from fcshim.reply import Reply, fold
from tests.codecs.helpers import cut
from tests.scripted import CUT, Script, scripted_upstream
from tests.server.proxy import http_client, running_proxy

IDENTITY = ReplyIdentity("reply_1", 1700000000, "m")
SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
TOOLS = (Tool("add", "Add", SCHEMA), Tool("math.mul", "Multiply", SCHEMA))
WRITTEN = (
    'Let me see.\n<function_call>\n{"name": "add", "arguments": {"a": 1}}\n</function_call>\n'
    '<function_call>\n{"name": "math.mul", "arguments": {"a": 2}}\n</function_call>'
)
HISTORY = (
    SystemMessage((TextPart("Be brief."),)),
    UserMessage((TextPart("Hi"),)),
    AssistantMessage((), (ToolCall("call_1", "math.mul", '{"a":5}'),)),
    ToolMessage("call_1", (TextPart("five"),), "math.mul"),
    UserMessage((TextPart("And now?"),)),
)
PAIRS = [
    pytest.param(client, kind, id=f"{client.name} before {kind.name}")
    for client in CODECS.values()
    for kind in UPSTREAMS.values()
]


def native_events(kind: UpstreamKind) -> list[Event]:
    events: list[Event] = [Text("Let me "), Text("see.")]
    for index, (name, sent) in enumerate(
        [("add", ['{"a"', ":1}"]), (kind.name_rules.sanitize("math.mul"), ['{"a":2}'])]
    ):
        events.append(ToolCallStart(f"call_{index}", name, index))
        events += [ToolCallChunk(f"call_{index}", piece, index) for piece in sent]
        events.append(ToolCallEnd(f"call_{index}", name, "".join(sent), index))
    return [*events, Usage(7, 5), Stop("tool_use")]


def reply_script(codec: Codec, events: list[Event], size: int) -> Script:
    """Let the upstream's codec write its reply, in pieces of `size` bytes."""
    request = Request(model="m", messages=HISTORY, stream=True, include_usage=True)
    encoder = codec.encoder(request, IDENTITY)
    body = encoder.encode(0, events) + encoder.close()
    return Script(tuple(cut(body, lambda: size)))


async def ask(url: str, codec: Codec, request: Request, *, stream: bool = True) -> Reply:
    """Let the client's codec write the request and read the reply."""
    outgoing = codec.encode_request(request)
    path, content = address(codec, outgoing.path), outgoing.body
    if not stream:
        path = path.replace(":streamGenerateContent?alt=sse", ":generateContent")
        content = json.dumps({**json.loads(content), "stream": False}).encode()
    headers = [*outgoing.headers, (b"content-type", b"application/json")]
    async with http_client(url) as client:
        response = await client.post(path, content=content, headers=headers)

    assert 200 == response.status_code, response.text
    decoder = codec.decoder()
    return fold(event for _, event in decoder.feed(response.content) + decoder.close())


def address(codec: Codec, path: str) -> str:
    if path.startswith("//"):
        return path[1:]
    kind = next(kind for kind in UPSTREAMS.values() if kind.codec is codec)
    return kind.version + path


def summary(reply: Reply) -> tuple[str, list[tuple[str, dict]], str | None]:
    calls = [(call.tool_call_name, json.loads(call.tool_call_arguments_complete)) for call in reply.tool_calls]
    return reply.text, calls, reply.stop_reason


def read_upstream_request(kind: UpstreamKind, asked) -> Request:
    """Let the upstream's codec read the request that arrived."""
    parts = urlsplit(asked.path)
    found = find_route("POST", parts.path)

    assert found.api.codec is kind.codec
    return kind.codec.decode_request(
        json.dumps(asked.body).encode(), found.make_target(parts.path, parts.query.encode())
    )


@pytest.mark.parametrize(("client", "kind"), PAIRS)
async def test_native_calls_and_their_history(client, kind):
    size = 1 + len(client.name) % 7  # pieces of a few bytes, split differently for each pair
    scripts = [reply_script(kind.codec, native_events(kind), each) for each in (10**6, size)]
    request = Request(model="m", messages=HISTORY, tools=TOOLS, tool_choice=ToolChoice("required"), max_tokens=50)
    async with (
        scripted_upstream(*scripts) as upstream,
        # The scripted counts are not those of the prompt, which llama-server would be asked to count.
        running_proxy(upstream.url, upstream_api=kind.name, tools="native", cut_prompt="off") as url,
    ):
        whole, cut = [await ask(url, client, request, stream=False), await ask(url, client, request)]
        came = read_upstream_request(kind, upstream.requests[0])

    fitted = kind.name_rules.sanitize("math.mul")
    relayed = client is kind.codec and kind.allows_verbatim
    shown, sent = (fitted, "math.mul") if relayed else ("math.mul", fitted)

    assert ("Let me see.", [("add", {"a": 1}), (shown, {"a": 2})], "tool_use") == summary(whole)
    assert summary(whole) == summary(cut)
    assert (7, 5) == (cut.usage.input_tokens, cut.usage.output_tokens)
    assert [("add", SCHEMA), (sent, SCHEMA)] == [(tool.name, tool.parameters) for tool in came.tools]
    assert [sent] == [
        call.name for turn in came.messages if isinstance(turn, AssistantMessage) for call in turn.tool_calls
    ]
    assert ["five"] == [turn.content[0].text for turn in came.messages if isinstance(turn, ToolMessage)]


@pytest.mark.parametrize(("client", "kind"), PAIRS)
async def test_calls_in_the_prompt(client, kind):
    size = 1 + len(client.name) % 7
    text = [Text(WRITTEN), Usage(7, 5), Stop("complete")]
    scripts = [reply_script(kind.codec, text, each) for each in (10**6, size)]
    request = Request(model="m", messages=HISTORY, tools=TOOLS, max_tokens=50)
    async with (
        scripted_upstream(*scripts) as upstream,
        running_proxy(upstream.url, upstream_api=kind.name, tools="prompt") as url,
    ):
        whole, cut = [await ask(url, client, request, stream=False), await ask(url, client, request)]
        came = read_upstream_request(kind, upstream.requests[0])

    assert ("Let me see.", [("add", {"a": 1}), ("math.mul", {"a": 2})], "tool_use") == stripped_summary(whole)
    assert stripped_summary(whole) == stripped_summary(cut)
    assert () == came.tools
    assert not any(isinstance(turn, ToolMessage) for turn in came.messages)
    assert "math.mul" in came.messages[0].content[0].text


def stripped_summary(reply: Reply) -> tuple[str, list[tuple[str, dict]], str | None]:
    text, calls, reason = summary(reply)
    return text.strip(), calls, reason


@pytest.mark.parametrize(("client", "kind"), PAIRS)
async def test_text_and_an_unreachable_upstream(client, kind):
    request = Request(model="m", messages=HISTORY[:2], max_tokens=50)
    good = reply_script(kind.codec, [Text("Hel"), Text("lo"), Usage(7, 5), Stop("max_tokens")], 11)
    lost = Script((kind.codec.encoder(request, IDENTITY).encode(0, [Text("Hel"), Text("lo")]), CUT))
    async with scripted_upstream(good, lost) as upstream, running_proxy(upstream.url, upstream_api=kind.name) as url:
        reply = await ask(url, client, request)
        broken = await ask_unreachable(url, client, request)

    assert ("Hello", [], "max_tokens") == summary(reply)
    assert broken.error is not None


async def ask_unreachable(url: str, client: Codec, request: Request) -> Reply:
    """Return what the client reads: an error in the stream, or a stream that is cut."""
    try:
        return await ask(url, client, request)
    except httpx.RemoteProtocolError as error:
        return Reply(error=Error("cut", str(error)))
