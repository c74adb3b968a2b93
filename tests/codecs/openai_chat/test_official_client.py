"""The official OpenAI client reads what the encoder writes; only the network is left out."""

import json

import httpx2
import openai
import pytest

from fcshim.codecs.openai_chat import OPENAI_CHAT
from fcshim.errors import RequestError
from fcshim.events import CallError, Error, Reasoning, Stop, Text, ToolCallChunk, ToolCallEnd, ToolCallStart, Usage
from fcshim.reply import fold
from tests.codecs.openai_chat.test_encoder import IDENTITY, call

TOOLS = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}]
CUSTOM = [{"type": "custom", "custom": {"name": "f", "format": {"type": "text"}}}]
MESSAGES = [{"role": "user", "content": "hi"}]


def client_for(*choices, slices=7):
    """Make a client whose server decodes each request and answers with these events, one list per choice."""

    def answer(http_request):
        request = OPENAI_CHAT.decode_request(http_request.content)
        if not request.stream:
            replies = [fold(events) for events in choices]
            return httpx2.Response(200, content=OPENAI_CHAT.encode_reply(request, IDENTITY, replies))
        encoder = OPENAI_CHAT.encoder(request, IDENTITY)
        body = (
            b"".join(encoder.encode(at, events) for at, events in enumerate(choices)) + encoder.ping() + encoder.close()
        )
        parts = iter([body[at : at + slices] for at in range(0, len(body), slices)])
        return httpx2.Response(200, headers={"content-type": "text/event-stream"}, content=parts)

    return client(answer)


def client(answer):
    transport = httpx2.MockTransport(answer)
    return openai.OpenAI(
        base_url="http://fcshim/v1", api_key="x", max_retries=0, http_client=httpx2.Client(transport=transport)
    )


def create(events, **options):
    with client_for(events) as sdk:
        return list(sdk.chat.completions.create(model="m", messages=MESSAGES, tools=TOOLS, stream=True, **options))


def final(events, tools=TOOLS):
    with client_for(events) as sdk, sdk.chat.completions.stream(model="m", messages=MESSAGES, tools=tools) as stream:
        seen = [event.type for event in stream]
        return stream.get_final_completion().choices[0], seen


GOOD = [
    Reasoning("hm"),
    Text("Let "),
    Text("me"),
    *call('{"a":1}'),
    *call("{}", index=1),
    Usage(7, 5),
    Stop("tool_use"),
]


def broken(kind, sent='{"a":'):
    chunks = [ToolCallChunk("c", sent, 0)] if sent else []
    return [ToolCallStart("c", "f", 0), *chunks, ToolCallEnd("c", "f", sent, 0, error=CallError(kind, "no good", sent))]


def test_the_plain_stream_gives_text_calls_and_usage():
    chunks = create(GOOD, stream_options={"include_usage": True})
    deltas = [chunk.choices[0].delta for chunk in chunks if chunk.choices]
    calls = [piece for delta in deltas for piece in delta.tool_calls or []]

    assert "Let me" == "".join(delta.content or "" for delta in deltas)
    assert '{"a":1}' == "".join(piece.function.arguments for piece in calls if piece.index == 0)
    assert "{}" == "".join(piece.function.arguments for piece in calls if piece.index == 1)
    assert "tool_calls" == chunks[-2].choices[0].finish_reason
    assert (7, 5, 12) == (
        chunks[-1].usage.prompt_tokens,
        chunks[-1].usage.completion_tokens,
        chunks[-1].usage.total_tokens,
    )


def test_the_stream_helper_builds_the_same_message():
    choice, seen = final(GOOD)

    assert "tool_calls" == choice.finish_reason
    assert "Let me" == choice.message.content
    assert "assistant" == choice.message.role
    assert [("call_0", "f", '{"a":1}'), ("call_1", "f", "{}")] == [
        (made.id, made.function.name, made.function.arguments) for made in choice.message.tool_calls
    ]
    assert 2 == seen.count("tool_calls.function.arguments.done")


def test_the_plain_stream_takes_several_choices():
    with client_for([Text("a"), Stop("complete")], [Text("b"), Stop("max_tokens")]) as sdk:
        chunks = list(sdk.chat.completions.create(model="m", messages=MESSAGES, n=2, stream=True))
    choices = [chunk.choices[0] for chunk in chunks]

    assert ["a", "b"] == ["".join(c.delta.content or "" for c in choices if c.index == at) for at in (0, 1)]
    assert [(0, "stop"), (1, "length")] == [(c.index, c.finish_reason) for c in choices if c.finish_reason]


def test_the_stream_helper_takes_several_choices():
    with (
        client_for([Text("a"), Stop("complete")], [Text("b"), Stop("complete")]) as sdk,
        sdk.chat.completions.stream(model="m", messages=MESSAGES, n=2) as stream,
    ):
        choices = stream.get_final_completion().choices

    assert ["a", "b"] == [choice.message.content for choice in choices]


def test_a_custom_call_is_a_function_call_only_in_a_stream():
    events = [*call('{"input":"ls -l"}'), Stop("tool_use")]
    streamed, _ = final(events, CUSTOM)
    with client_for(events) as sdk:
        whole = sdk.chat.completions.create(model="m", messages=MESSAGES, tools=CUSTOM).choices[0]

    assert '{"input":"ls -l"}' == streamed.message.tool_calls[0].function.arguments
    assert ("custom", "f", "ls -l") == (
        whole.message.tool_calls[0].type,
        whole.message.tool_calls[0].custom.name,
        whole.message.tool_calls[0].custom.input,
    )


@pytest.mark.parametrize("sent", ["", "{", '{"a":', '{"a":1}'])
def test_a_truncated_call_is_length_and_its_arguments_do_not_parse(sent):
    choices = [chunk.choices[0] for chunk in create([Text("a"), *broken("truncated", sent), Stop("max_tokens")])]
    arguments = "".join(piece.function.arguments for choice in choices for piece in choice.delta.tool_calls or [])

    assert "length" == choices[-1].finish_reason
    with pytest.raises(ValueError, match=r"."):
        json.loads(arguments)


def test_the_stream_helper_raises_for_a_truncated_call_as_it_does_for_a_native_one():
    with pytest.raises(openai.LengthFinishReasonError):
        final([*broken("truncated"), Stop("max_tokens")])


@pytest.mark.parametrize("kind", ["malformed", "invalid", "limit"])
def test_an_invalid_call_alone_raises_in_the_client(kind):
    with pytest.raises(openai.APIError, match="cannot be used: no good"):
        create([*broken(kind), Stop("complete")])
    with pytest.raises(openai.APIError, match="cannot be used: no good"):
        final([*broken(kind, '{"a":1}'), Stop("complete")])


def test_an_error_in_the_stream_raises_in_the_client():
    with pytest.raises(openai.APIError, match="gone"):
        create([Text("a"), Error("upstream_error", "gone")])


def test_the_client_reads_a_whole_reply():
    with client_for([Text("a"), *call('{"a":1}'), Usage(7, 5), Stop("tool_use")]) as sdk:
        reply = sdk.chat.completions.create(model="m", messages=MESSAGES, tools=TOOLS)

    assert "a" == reply.choices[0].message.content
    assert '{"a":1}' == reply.choices[0].message.tool_calls[0].function.arguments
    assert 12 == reply.usage.total_tokens
    assert "the model" == reply.model


def test_an_error_response_becomes_the_clients_exception():
    error = RequestError("messages: no", param="messages")

    def answer(_):
        return httpx2.Response(400, content=OPENAI_CHAT.encode_error(error))

    with client(answer) as sdk, pytest.raises(openai.BadRequestError) as caught:
        sdk.chat.completions.create(model="m", messages=MESSAGES)

    assert ("messages", "invalid_request_error") == (caught.value.param, caught.value.type)
