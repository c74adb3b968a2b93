"""Refusals of real servers, and requests without what was refused."""

import json

import pytest

from fcshim.codecs.openai_chat import OPENAI_CHAT
from fcshim.codecs.upstream_errors import read_error
from fcshim.messages import (
    AssistantMessage,
    MediaPart,
    Request,
    SystemMessage,
    TextPart,
    ToolCall,
    ToolMessage,
    UserMessage,
    text_of,
)
from fcshim.pipeline.omissions import OMISSIONS, has_any, media_of, without

ROWS = {row.name: row for row in OMISSIONS}
PNG = MediaPart("image/png", data="AAAA")


def refusal(status, message):
    return read_error(status, {}, b'{"error": {"message": %s}}' % json_text(message))


def json_text(text):
    return json.dumps(text).encode()


def suspected(status, message):
    error = refusal(status, message)
    return [row.name for row in OMISSIONS if row.is_meant_by(error)]


@pytest.mark.parametrize("message", ["", "content is not a string", "illegal base64 data", "unhandled exception"])
def test_media_may_be_refused_in_any_words(message):
    assert ["files", "sound", "images", "media"] == suspected(400, message)


def test_only_media_that_the_request_has_are_suspected():
    image, pdf = UserMessage((PNG,)), UserMessage((MediaPart("application/pdf", data="AA"),))

    assert [(), ("images",), ("files",), ("files", "images", "media")] == [
        tuple(row.name for row in media_of(conversation(*messages)))
        for messages in ((UserMessage((TextPart("u"),)),), (image, image), (pdf,), (image, pdf))
    ]


@pytest.mark.parametrize(
    ("name", "status", "message"),
    [
        ("system", 500, "System role not supported"),
        ("system", 400, "Only user and assistant roles are supported!"),
        ("system", 400, "Unsupported value: 'messages[0].role' does not support 'system' with this model."),
        ("system", 400, "Developer instruction is not enabled for models/gemma-3-27b-it"),
        ("system", 400, "Conversation roles must alternate user/assistant/user/assistant/..."),
        ("system", 500, "Unexpected message role."),
        ("later_system", 500, "System message must be at the beginning."),
        ("stop", 400, "Unsupported parameter: 'stop' is not supported with this model."),
        ("stop", 400, "the model does not support the stopSequences parameter. Remove it and try again."),
        ("stop", 400, "Argument not supported on this model: stop"),
        (
            "stop",
            422,
            '[{"type": "extra_forbidden", "loc": ["body", "stop"], "msg": "Extra inputs are not permitted"}]',
        ),
        ("stream_options", 422, 'Extra inputs are not permitted: ["body", "stream_options"]'),
        ("reasoning", 400, "'messages.2': property 'reasoning_content' is unsupported"),
        ("parallel_tool_calls", 400, "Unsupported parameter: 'parallel_tool_calls' is not supported with this model."),
        (
            "max_tokens",
            400,
            "Unsupported parameter: 'max_tokens' is not supported here. Use 'max_completion_tokens' instead.",
        ),
        ("max_completion_tokens", 422, "unknown field `max_completion_tokens`"),
    ],
)
def test_other_refusals_are_recognised(name, status, message):
    assert name == suspected(status, message)[0]


@pytest.mark.parametrize("status", [401, 403, 413, 429, 503, 504])
def test_errors_of_keys_sizes_and_load_refuse_nothing(status):
    assert [] == suspected(status, "image input is not supported; the system role is not supported")


def test_a_prompt_that_is_too_long_refuses_nothing():
    assert [] == suspected(400, "image input is not supported beyond the maximum context length")


def conversation(*messages, **fields):
    return Request(model="m", messages=messages, **fields)


def left(name, request):
    return without(request, [ROWS[name]])


def outline(request):
    return [
        (type(message).__name__.removesuffix("Message").lower(), text_of(message.content))
        for message in request.messages
    ]


def test_the_model_is_told_where_an_image_was():
    content = (
        TextPart("Look: "),
        TextPart("here"),
        PNG,
        MediaPart("application/pdf", data="AA"),
        TextPart("What is it?"),
    )
    (message,) = left("media", conversation(UserMessage(content))).messages

    assert (
        "Look: here\n[An image (image/png) was sent here. It cannot be shown: this model takes only text.]\n"
        "[A file (application/pdf) was sent here. It cannot be shown: this model takes only text.]\nWhat is it?"
    ) == text_of(message.content)


def test_what_is_not_refused_stays():
    request = conversation(UserMessage((PNG, MediaPart("audio/wav", data="AA"))))

    assert PNG == left("sound", request).messages[0].content[0]
    assert request is left("files", request)


def test_images_of_results_are_replaced_too():
    request = conversation(
        AssistantMessage((), (ToolCall("1", "look", "{}"),)), ToolMessage("1", (PNG,)), UserMessage((TextPart("So?"),))
    )

    assert request.messages[0] is left("images", request).messages[0]
    assert "[An image" in text_of(left("images", request).messages[1].content)


def test_system_messages_open_the_users_turns():
    request = conversation(
        SystemMessage((TextPart("Be kind."),)),
        UserMessage((TextPart("Hi"),)),
        AssistantMessage((TextPart("Yes?"),)),
        SystemMessage((TextPart("Be brief."),)),
    )

    assert [
        ("user", "Be kind.\n\nHi"),
        ("assistant", "Yes?"),
        ("user", "<system_note>\nBe brief.\n</system_note>"),
    ] == outline(left("system", request))
    assert [
        ("system", "Be kind."),
        ("user", "Hi"),
        ("assistant", "Yes?"),
        ("user", "<system_note>\nBe brief.\n</system_note>"),
    ] == outline(left("later_system", request))


def test_turns_of_one_role_are_joined_but_calls_stay_apart():
    call = AssistantMessage((), (ToolCall("1", "look", "{}"),))
    request = conversation(UserMessage((TextPart("a"),)), UserMessage((TextPart("b"),)), call, call)

    assert [("user", "a\n\nb"), ("assistant", ""), ("assistant", "")] == outline(left("alternation", request))


@pytest.mark.parametrize("row", OMISSIONS, ids=lambda row: row.name)
def test_a_request_without_the_part_stays_itself(row):
    plain = conversation(SystemMessage((TextPart("s"),)), UserMessage((TextPart("u"),)))
    bare = conversation(UserMessage((TextPart("u"),)))

    assert not has_any(bare, [row])
    assert (row.name == "system") == has_any(plain, [row])


def test_the_chat_api_is_written_without_refused_fields():
    request = conversation(
        UserMessage((TextPart("u"),)),
        max_tokens=5,
        stop=("x",),
        extra={"stream_options": {"include_obfuscation": False}},
    )
    written = {name: json.loads(OPENAI_CHAT.encode_request(left(name, request)).body) for name in ROWS}

    assert "stop" not in written["stop"]
    assert "stream_options" not in written["stream_options"]
    assert ("max_tokens" not in written["max_tokens"], 5) == (True, written["max_tokens"]["max_completion_tokens"])
