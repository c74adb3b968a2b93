"""OpenAI's dicts: what they say is what a client of the proxy gets."""

import msgspec
import pytest

from fcshim import openai
from fcshim.errors import ModelOutputError, RequestError, UpstreamError
from fcshim.events import Error, Stop, Text, ToolCallStart
from fcshim.messages import SystemMessage, TextPart, ToolCall, UserMessage
from fcshim.parse.stream import parse

TOOLS = [{"name": "add", "parameters": {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}}]


def call(arguments: str) -> str:
    return f'<function_call>{{"name": "add", "arguments": {arguments}}}</function_call>'


def events(text: str):
    return parse(text, tools=TOOLS)


def joined(deltas) -> list[tuple[str, str]]:
    """Put the parts of each call together as clients do, by index."""
    calls: dict[int, list[str]] = {}
    for delta in deltas:
        for part in delta.get("tool_calls", ()):
            entry = calls.setdefault(part["index"], ["", ""])
            entry[0] += part["function"].get("name", "")
            entry[1] += part["function"]["arguments"]
    return [(name, arguments) for name, arguments in calls.values()]


def test_text_is_the_content():
    reply = events("Hello.")

    assert {"role": "assistant", "content": "Hello.", "refusal": None} == openai.message(reply)
    assert [{"role": "assistant", "content": ""}, {"content": "Hello."}] == list(openai.deltas(reply))


def test_calls_have_ids_names_and_arguments():
    reply = events("Now. " + call('{"a": 1}') + call('{"a": 2}'))
    message = openai.message(reply)

    found = [(each["function"]["name"], each["function"]["arguments"]) for each in message["tool_calls"]]
    assert [("add", '{"a": 1}'), ("add", '{"a": 2}')] == found == joined(openai.deltas(reply))
    assert len({each["id"] for each in message["tool_calls"]}) == 2
    assert message["content"].strip() == "Now."


@pytest.mark.parametrize(
    ("text", "stop_reason", "expected"),
    [("Hi", "complete", "stop"), (call('{"a": 1}'), "complete", "tool_calls"), ("Hi", "max_tokens", "length")],
)
def test_the_last_choice_has_the_finish_reason(text, stop_reason, expected):
    found = list(openai.choices([*events(text)[:-1], Stop("tool_use" if "call" in text else stop_reason)]))

    assert [None] * (len(found) - 1) + [expected] == [each["finish_reason"] for each in found]


def test_reasoning_is_apart():
    reply = events("<think>So</think>Hi")

    assert openai.message(reply)["reasoning_content"] == "So"
    assert {"reasoning_content": "So"} in list(openai.deltas(reply))


def test_deltas_come_as_the_events_do():
    """The first delta is there before the second event is asked for."""
    taken = []

    def source():
        for event in (Text("a"), Text("b"), Stop("complete")):
            taken.append(event)
            yield event

    deltas = openai.deltas(source())
    next(deltas)

    assert [Text("a")] == taken


def test_a_failed_call_is_the_content_and_an_error_of_the_stream():
    reply = parse(call('{"a": "many"}'), tools=TOOLS, arguments="validated")

    assert "tool_calls" not in openai.message(reply)
    assert "many" in openai.message(reply)["content"]
    with pytest.raises(ModelOutputError) as caught:
        list(openai.deltas(reply))
    assert caught.value.kind == "invalid_call"


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        ([Text("a")], "broke off"),
        ([], "broke off"),
        ([Text("a"), Error("timeout", "too slow")], "too slow"),
        ([ToolCallStart("c", "add", 0)], "broke off"),
    ],
)
def test_events_without_an_end_are_an_error(broken, message):
    with pytest.raises(UpstreamError, match=message):
        list(openai.deltas(broken))


def test_an_error_is_raised():
    with pytest.raises(UpstreamError, match="too slow") as caught:
        openai.message([Error("timeout", "too slow")])
    assert caught.value.kind == "timeout"


def test_messages_are_dicts_or_objects():
    given = [SystemMessage((TextPart("Be kind."),)), {"role": "user", "content": "Hi"}]

    request = openai.read_request(given, (), {"max_tokens": 3})

    assert (given[0], UserMessage((TextPart("Hi"),))) == request.messages
    assert request.max_tokens == 3


def test_a_message_can_be_sent_back():
    message = openai.message(events(call('{"a": 1}')))
    request = openai.read_request([{"role": "user", "content": "Hi"}, message], (), {})

    assert (ToolCall(message["tool_calls"][0]["id"], "add", '{"a": 1}'),) == request.messages[1].tool_calls
    assert msgspec.json.encode(message)


@pytest.mark.parametrize("value", [None, 5, {"role": "user"}, b"Hi", object()])
def test_what_is_no_conversation_names_the_argument(value):
    with pytest.raises(RequestError, match="messages: expected a text or a list of messages") as caught:
        openai.read_request(value, (), {})
    assert caught.value.param == "messages"


def test_what_is_no_json_names_the_field():
    with pytest.raises(RequestError, match="metadata: the value cannot be written as JSON") as caught:
        openai.read_request("Hi", (), {"metadata": object()})
    assert caught.value.param == "metadata"


def test_half_a_surrogate_pair_is_replaced():
    request = openai.read_request([{"role": "user", "content": "a\ud800"}], (), {})

    assert (UserMessage((TextPart("a\ufffd"),)),) == request.messages
