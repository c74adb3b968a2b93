"""Every client API in front of every upstream API: requests and replies keep their meaning.

The pairs are made from the table of APIs. A codec writes requests for upstreams and replies for clients, so each one is
also the client, and the upstream, of its own API.
"""

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fcshim.codecs.base import ReplyIdentity
from fcshim.codecs.routes import CODECS, find_route
from fcshim.events import Error, Stop, Text, ToolCallEnd, Usage
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
    text_of,
)
from fcshim.pipeline.exchange import Exchange
from fcshim.pipeline.response import response_for
from fcshim.pipeline.shim import ParserOptions, prepare_shim
from fcshim.reply import fold
from tests.codecs.openai_chat.test_encoder import call
from tests.server.proxy import CALL

PAIRS = pytest.mark.parametrize(
    ("client", "upstream"),
    [(client, upstream) for client in CODECS.values() for upstream in CODECS.values()],
    ids=[f"{client}-{upstream}" for client in CODECS for upstream in CODECS],
)
APIS = pytest.mark.parametrize("codec", CODECS.values(), ids=CODECS)
STREAMS = pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}, "required": ["a"]}
ADD = Tool("add", "Add two numbers.", SCHEMA)
REQUEST = Request(
    model="m",
    messages=(
        SystemMessage((TextPart("Be brief."),)),
        UserMessage((TextPart("What is 1 + 2, and 3 + 4?"), MediaPart("image/png", data="iVBORw0KGgo="))),
        AssistantMessage(
            (TextPart("Let me."),), (ToolCall("call_1", "add", '{"a":1}'), ToolCall("call_2", "add", '{"a":3}'))
        ),
        ToolMessage("call_1", (TextPart('{"sum":3}'),), "add"),
        ToolMessage("call_2", (TextPart('{"sum":7}'),), "add"),
        UserMessage((TextPart("Thanks."),)),
    ),
    tools=(ADD,),
    max_tokens=100,
    temperature=0.5,
)


def decode_as_server(codec, outgoing):
    """Read a request written for an upstream as the server of that API would."""
    address, _, query = outgoing.path.partition("?")
    path = address[1:] if address.startswith("//") else "/v1" + address
    found = find_route("POST", path, [name for name, _ in outgoing.headers])

    assert codec is found.api.codec
    return codec.decode_request(outgoing.body, found.make_target(path, query.encode()))


def client_request(codec, request=REQUEST):
    """Return the request as a server reads it when a client of this API sends it."""
    return decode_as_server(codec, codec.encode_request(request))


def request_summary(request):
    """Return what every API can express of a request; ids are only used to match results with calls."""
    parts, answered = [], {}
    for message in request.messages:
        match message:
            case AssistantMessage():
                parts += [("text", text_of(message.content))] if message.content else []
                parts += [("called", call.name, json.loads(call.arguments)) for call in message.tool_calls]
                answered |= {call.id: json.loads(call.arguments)["a"] for call in message.tool_calls}
            case ToolMessage():
                parts.append(("result", answered[message.tool_call_id], json.loads(text_of(message.content))))
            case _:
                images = [part.data for part in message.content if isinstance(part, MediaPart)]
                parts.append((type(message).__name__, text_of(message.content), images))
    tools = [(tool.name, tool.description, tool.parameters) for tool in request.tools]
    return parts, tools, request.model, request.max_tokens, request.temperature


@PAIRS
def test_a_request_keeps_its_meaning_up_to_the_upstream(client, upstream):
    assert request_summary(REQUEST) == request_summary(
        decode_as_server(upstream, upstream.encode_request(client_request(client)))
    )


@PAIRS
@pytest.mark.parametrize("choice", [ToolChoice("none"), ToolChoice("required", ("add",))], ids=["none", "forced"])
def test_a_tool_choice_is_kept_where_both_apis_have_it(client, upstream, choice):
    sent = Request(model="m", messages=(UserMessage((TextPart("Hi"),)),), tools=(ADD,), tool_choice=choice)
    read = decode_as_server(upstream, upstream.encode_request(client_request(client, sent)))
    silent = "ollama" in (client.name, upstream.name)  # it has no field for the choice: it is offered fewer tools

    assert choice == read.tool_choice or silent
    assert (choice.mode == "none" and silent) == (read.tools == ())


REPLY = [
    Text("Let me. "),
    *call('{"a": 1, "b": "\u00e9 \\n"}', sent=['{"a": 1, ', '"b": "\u00e9 \\n"}']),
    *call('{"a":3}', index=1),
    Usage(10, 5),
    Stop("tool_use"),
]


def upstream_body(upstream, events, request=REQUEST):
    """Return the body that an upstream of this API streams for these events."""
    encoder = upstream.encoder(client_request(upstream, request), ReplyIdentity("id_1", 1700000000, "m"))
    return encoder.encode(0, events) + encoder.close()


def client_events(client, upstream, pieces, *, stream=True, shim=False, request=REQUEST):
    """Return the events that the client reads when the upstream sends these pieces of its body."""
    sent = msgspec.structs.replace(client_request(client, request), stream=stream, include_usage=True)
    ids = (f"call_{number}" for number in range(100))
    exchange = Exchange()
    exchange.begin(prepare_shim(sent, options=ParserOptions(new_id=ids.__next__)) if shim else sent, upstream)
    response = response_for(sent, ReplyIdentity("id_2", 1700000000, "m"), client)
    batches = [*map(exchange.feed, pieces), exchange.close()]
    body = b"".join(map(response.feed, batches)) + response.close()
    decoder = client.decoder()
    return [event for _, event in decoder.feed(body) + decoder.close()]


def reply_summary(events):
    """Return what every API can express of a reply."""
    reply = fold(events)
    calls = [(made.tool_call_name, json.loads(made.tool_call_arguments_complete)) for made in reply.tool_calls]
    counts = reply.usage and (reply.usage.input_tokens, reply.usage.output_tokens)
    return reply.text, calls, counts, reply.stop_reason, reply.error


@PAIRS
@STREAMS
def test_native_calls_reach_the_client(client, upstream, stream):
    found = client_events(client, upstream, [upstream_body(upstream, REPLY)], stream=stream)
    ids = [event.tool_call_id for event in found if isinstance(event, ToolCallEnd)]

    assert reply_summary(REPLY) == reply_summary(found)
    assert 2 == len(set(ids))


@PAIRS
@STREAMS
def test_calls_in_text_reach_the_client(client, upstream, stream):
    body = upstream_body(upstream, [Text("Let me. " + CALL[:30]), Text(CALL[30:]), Usage(10, 5), Stop("complete")])

    assert ("Let me. ", [("add", {"a": 1, "b": 2})], (10, 5), "tool_use", None) == reply_summary(
        client_events(client, upstream, [body], stream=stream, shim=True)
    )


@PAIRS
@pytest.mark.parametrize("reason", ["complete", "max_tokens"])
def test_a_stop_reason_that_both_apis_have_reaches_the_client(client, upstream, reason):
    body = upstream_body(upstream, [Text("a"), Usage(10, 5), Stop(reason)])

    assert reason == fold(client_events(client, upstream, [body])).stop_reason


@PAIRS
def test_an_error_in_the_stream_reaches_the_client(client, upstream):
    body = upstream_body(upstream, [Text("Once"), Error("upstream_error", "slot lost")])
    reply = fold(client_events(client, upstream, [body]))

    assert "Once" == reply.text
    assert "slot lost" in reply.error.message
    assert reply.stop_reason is None


@APIS
@given(data=st.data())
def test_splits_of_the_upstream_body_do_not_affect_the_client(codec, data):
    """Law 1 through the whole exchange, for one upstream and every client, and every upstream and one client."""
    other = data.draw(st.sampled_from(list(CODECS.values())))
    client, upstream = data.draw(st.sampled_from([(codec, other), (other, codec)]))
    shim = data.draw(st.booleans())
    events = [Text("Let me. "), Text(CALL[:30]), Text(CALL[30:]), Usage(10, 5), Stop("complete")] if shim else REPLY
    body = upstream_body(upstream, events)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(body)), max_size=12)))
    pieces = [body[start:end] for start, end in zip([0, *cuts], [*cuts, len(body)], strict=True)]
    whole, cut = (reply_summary(client_events(client, upstream, each, shim=shim)) for each in ([body], pieces))

    assert whole == cut
    assert whole[1]


@PAIRS
def test_an_upstream_body_read_byte_by_byte_gives_the_same_reply(client, upstream):
    body = upstream_body(upstream, REPLY)

    assert reply_summary(REPLY) == reply_summary(client_events(client, upstream, [bytes([byte]) for byte in body]))
