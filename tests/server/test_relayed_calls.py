"""The calls of replies that are relayed: of every API, streamed and in one piece, at any border of a read."""

import json

import pytest

from fcshim.codecs.base import ReplyIdentity
from fcshim.codecs.routes import CODECS
from fcshim.codecs.upstreams import UPSTREAMS
from fcshim.events import Reasoning, Stop, Text, ToolCallChunk, ToolCallEnd, ToolCallStart
from fcshim.messages import Request, TextPart, Tool, UserMessage
from fcshim.pipeline.response import response_for
from fcshim.server.relayed_reply import RelayedCalls
from tests.server.proxy import http_client, running_proxy
from tests.server.raw_upstream import fixed_reply, raw_upstream, stream_chunks
from tests.server.test_metrics import figures

APIS = [kind.codec.name for kind in UPSTREAMS.values() if kind.allows_verbatim]
TRAP = '"tool_calls": [{"function": {"name": "x"}}], "type": "tool_use", "functionCall": {}, "call_id": "c"'
ARGUMENTS = {"name": "Ada", "type": "function", "function": "add", "text": TRAP, "id": "call_9"}


def encoded(codec, calls: int, *, stream: bool) -> bytes:
    """Return a reply with so many calls as a client of this API gets it."""
    identity = ReplyIdentity(id="reply_1", created=1, model="m")
    request = Request(model="m", messages=(UserMessage((TextPart("Hi"),)),), stream=stream)
    response = response_for(request, identity, codec, max_reply=10_000_000)
    events = [Reasoning(TRAP), Text(TRAP)]
    for index in range(calls):
        data = json.dumps(ARGUMENTS)
        common = {"tool_call_id": f"call_{index}", "index": index}
        events += [
            ToolCallStart(tool_call_name="add", **common),
            *(ToolCallChunk(tool_call_arguments_chunk=data[at : at + 9], **common) for at in range(0, len(data), 9)),
            ToolCallEnd(tool_call_name="add", tool_call_arguments_complete=data, **common),
        ]
    events.append(Stop(stop_reason="tool_use" if calls else "complete"))
    return b"".join(response.feed([(0, event)]) for event in events) + response.close()


@pytest.mark.parametrize("size", [7, 100, 1_000, 1_000_000])
@pytest.mark.parametrize("calls", [0, 1, 3])
@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("name", APIS)
def test_the_calls_of_a_relayed_reply_are_counted(name, stream, calls, size):
    data = encoded(CODECS[name], calls, stream=stream)
    counted = RelayedCalls(name)
    for at in range(0, len(data), size):
        counted.add(data[at : at + size])

    assert calls == len(counted)


@pytest.mark.parametrize("kind", [kind for kind in UPSTREAMS.values() if kind.allows_verbatim], ids=lambda it: it.name)
@pytest.mark.parametrize("stream", [True, False])
async def test_calls_that_the_upstream_makes_itself_are_figures(kind, stream):
    sent = kind.codec.encode_request(
        Request(model="m", messages=(UserMessage((TextPart("Hi"),)),), tools=(Tool("add", "", {}),), stream=stream)
    )
    path = "/v1" + sent.path if not sent.path.startswith("//") else sent.path[1:]
    path = path.replace("/v1/models", "/v1beta/models")
    data = encoded(kind.codec, 2, stream=stream)
    play = stream_chunks(data[:500], data[500:]) if stream else fixed_reply(200, data)
    async with (
        raw_upstream(play) as upstream,
        running_proxy(upstream.url, metrics=True, tools="native", upstream_api=kind.name) as url,
        http_client(url) as client,
    ):
        reply = await client.post(path, content=sent.body, headers={"content-type": "application/json"})
        _, found = await figures(url)

    assert data == reply.content
    assert 2 == found["fcshim_calls_total", "native", "relayed"]
