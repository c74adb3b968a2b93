import pytest

from fcshim.errors import RequestError
from fcshim.messages import (
    AssistantMessage,
    MediaPart,
    SystemMessage,
    TextPart,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from tests.codecs.openai_responses.test_request import read, refused

USER = {"role": "user", "content": "hi"}


def messages(*items):
    return read(input=[USER, *items]).messages[1:]


def assistant_message(text):
    return {
        "type": "message",
        "role": "assistant",
        "content": [{"type": "output_text", "text": text, "annotations": []}],
    }


def function_call(call_id="c1", name="f", arguments="{}", **fields):
    return {
        "type": "function_call",
        "id": "fc_" + call_id,
        "call_id": call_id,
        "name": name,
        "arguments": arguments,
        **fields,
    }


def result(call_id="c1", output="3", kind="function_call_output"):
    return {"type": kind, "call_id": call_id, "output": output}


def texts(*contents):
    return tuple(map(TextPart, contents))


def test_every_role_is_read():
    roles = {"system": SystemMessage, "developer": SystemMessage, "user": UserMessage, "assistant": AssistantMessage}

    assert tuple(kind(texts(role)) for role, kind in roles.items()) == messages(
        *({"role": role, "content": role} for role in roles)
    )


def test_every_part_type_is_read():
    parts = [
        {"type": "input_text", "text": "a"},
        {"type": "input_image", "image_url": "data:image/png;base64,iVBO", "detail": "auto"},
        {"type": "input_image", "image_url": "https://x/cat.png"},
        {"type": "input_image", "file_id": "file-1"},
        {"type": "input_file", "filename": "a.pdf", "file_data": "data:application/pdf;base64,JVBE"},
        {"type": "input_file", "file_url": "https://x/a.pdf"},
        {"type": "input_file", "file_id": "file-2", "filename": "b.pdf"},
        {"type": "input_audio", "input_audio": {"data": "UklG", "format": "mp3"}},
        {"type": "hologram"},
    ]
    (message,) = messages({"role": "user", "content": parts})
    media = [(part.media_type, part.url, part.data) for part in message.content if isinstance(part, MediaPart)]

    assert [
        ("image/png", None, "iVBO"),
        ("image/*", "https://x/cat.png", None),
        ("application/pdf", None, "JVBE"),
        ("application/octet-stream", "https://x/a.pdf", None),
        ("audio/mp3", None, "UklG"),
    ] == media
    assert ["a", "[image: file-1]", "[file: b.pdf]"] == [
        part.text for part in message.content if isinstance(part, TextPart)
    ]


def test_a_refusal_is_text():
    assert (AssistantMessage(texts("no")),) == messages(
        {"role": "assistant", "content": [{"type": "refusal", "refusal": "no"}]}
    )


def test_a_turn_of_the_model_is_one_message():
    reasoning = {
        "type": "reasoning",
        "id": "rs_1",
        "summary": [],
        "content": [{"type": "reasoning_text", "text": "hm"}],
    }
    items = [reasoning, assistant_message("a"), function_call(), function_call("c2", "g"), result(), result("c2")]

    assert (
        AssistantMessage(texts("a"), (ToolCall("c1", "f", "{}"), ToolCall("c2", "g", "{}")), "hm"),
        ToolMessage("c1", texts("3"), "f"),
        ToolMessage("c2", texts("3"), "g"),
    ) == messages(*items)


def test_text_after_a_call_belongs_to_the_turn_and_a_second_text_does_not():
    assert [2, 1, 1] == [
        len(message.content)
        for message in messages(
            assistant_message("a"),
            function_call(),
            assistant_message("b"),
            assistant_message("c"),
            assistant_message("d"),
        )
    ]


def test_reasoning_begins_a_turn_and_keeps_its_signature():
    reasoning = {"type": "reasoning", "summary": [{"type": "summary_text", "text": "s"}], "encrypted_content": "gAAA"}
    first, second = messages(assistant_message("a"), reasoning, function_call())

    assert AssistantMessage(texts("a")) == first
    assert ("s", "gAAA") == (second.reasoning, second.signature)


def test_a_namespace_is_part_of_the_name():
    (message, answer) = messages(function_call(namespace="calc"), result())

    assert "calc__f" == message.tool_calls[0].name == answer.name


def test_custom_calls_are_calls_with_one_string():
    call = {"type": "custom_tool_call", "call_id": "c1", "name": "patch", "input": 'a"b'}
    message, answer = messages(call, result(kind="custom_tool_call_output"))

    assert (ToolCall("c1", "patch", '{"input":"a\\"b"}'),) == message.tool_calls
    assert ToolMessage("c1", texts("3"), "patch") == answer


@pytest.mark.parametrize(
    ("output", "content"),
    [
        ("3", texts("3")),
        ([{"type": "input_text", "text": "3"}], texts("3")),
        ({"a": 1}, texts('{"a":1}')),
        (None, ()),
    ],
)
def test_results_have_several_forms(output, content):
    assert content == messages(function_call(), result(output=output))[1].content


def test_a_result_without_its_call_is_the_documented_error():
    error = refused(input=[USER, result("c9")])

    assert ("input", "No tool call found for function call output with call_id c9.") == (error.param, error.message)


@pytest.mark.parametrize("left_out", [{"type": "item_reference", "id": "fc_9"}, {"type": "local_shell_call"}], ids=str)
def test_a_result_whose_call_may_have_been_skipped_is_kept(left_out):
    assert (ToolMessage("c9", texts("3")),) == messages(left_out, result("c9"))


def test_two_calls_with_the_same_id_are_an_error():
    with pytest.raises(RequestError, match="Duplicate"):
        read(input=[USER, function_call(), function_call()])
