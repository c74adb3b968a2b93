"""Requests that are relayed: what strict servers refuse is written in another way, the rest keeps its bytes."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fcshim.codecs.openai_chat import OPENAI_CHAT

USER = {"role": "user", "content": "Hi"}


def relayed(messages=(USER,), **fields):
    return json.loads(OPENAI_CHAT.relayed_body(json.dumps({"messages": list(messages), **fields}).encode()))


def text(*texts):
    return [{"type": "text", "text": each} for each in texts]


@pytest.mark.parametrize(
    "fields",
    [
        {"tools": []},
        {"tools": None, "tool_choice": "none"},
        {"tools": [], "tool_choice": "auto", "parallel_tool_calls": True},
        {"parallel_tool_calls": False},
        {"functions": [], "function_call": "none"},
        {"stop": None, "temperature": None, "seed": None},
        {"stop": []},
    ],
)
def test_empty_fields_and_companions_of_missing_tools_are_left_out(fields):
    assert {"messages": [USER], "x": [], "y": {}} == relayed(**fields, x=[], y={})


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ({"role": "developer", "content": "Be kind."}, {"role": "system", "content": "Be kind."}),
        ({"role": "user", "content": text("Hi")}, {"role": "user", "content": "Hi"}),
        ({"role": "user", "content": text("Hi", "you", "ü\n")}, {"role": "user", "content": "Hi\nyou\nü\n"}),
        ({"role": "user", "content": []}, {"role": "user", "content": ""}),
        ({"role": "user", "content": None}, {"role": "user", "content": ""}),
        ({"role": "assistant"}, {"role": "assistant", "content": ""}),
        (
            {"role": "assistant", "content": "a", "refusal": None, "tool_calls": [], "audio": None, "annotations": []},
            {"role": "assistant", "content": "a"},
        ),
    ],
)
def test_a_message_is_written_as_every_server_takes_it(message, expected):
    assert {"messages": [USER, expected]} == relayed([USER, message])


CACHED = {"type": "text", "text": "Hi", "cache_control": {"type": "ephemeral"}}
IMAGE = {"type": "image_url", "image_url": {"url": "https://a/b.png"}}


@pytest.mark.parametrize("content", [[CACHED], [*text("a"), IMAGE], [{"type": "refusal", "refusal": "no"}], [IMAGE]])
def test_parts_that_are_more_than_text_stay(content):
    body = json.dumps({"messages": [{"role": "user", "content": content}]}).encode()

    assert body == OPENAI_CHAT.relayed_body(body)


@pytest.mark.parametrize("extra", ["", ', "of_the_future": {"a": [ 1e5 ,null]}', ', "seed":12345678901234567890'])
def test_a_body_without_any_of_this_stays_as_it_is(extra):
    body = f'{{ "model":"m" , "messages": [ {{"content":"\\u0041", "role":"user", "name": "n"}} ]{extra} }}'.encode()

    assert body == OPENAI_CHAT.relayed_body(body)


def test_other_values_keep_their_bytes():
    body = b'{"tools": [ ], "seed": 1.0e2, "messages": [{"role":"user","content":"\\u0041"}], "x": { "b" : 1 }}'

    written = OPENAI_CHAT.relayed_body(body)

    assert b'{"seed":1.0e2,"messages":[{"role":"user","content":"\\u0041"}],"x":{ "b" : 1 }}' == written


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=4), inner, max_size=2),
    max_leaves=4,
)
names = st.sampled_from(["role", "content", "name", "tool_calls", "refusal"])
messages = st.lists(st.fixed_dictionaries({"content": values}) | st.dictionaries(names, values, max_size=3), max_size=3)


@given(messages, st.dictionaries(st.sampled_from(["tools", "stop", "tool_choice", "n", "x"]), values, max_size=4))
def test_it_is_done_once_and_never_fails(listed, fields):
    once = OPENAI_CHAT.relayed_body(json.dumps({"messages": listed, **fields}).encode())

    assert once == OPENAI_CHAT.relayed_body(once)


def test_a_reply_gets_the_required_fields_that_it_lacks_and_the_rest_keeps_its_bytes():
    body = b'{"id":"x", "choices":[{"message":{"role":"assistant","content":"\\u00e9"}}],"timings":{"a":1.0e0}}'
    written = OPENAI_CHAT.relayed_reply(body)
    (choice,) = json.loads(written)["choices"]

    assert {"role": "assistant", "content": "é", "refusal": None} == choice["message"]
    assert choice["logprobs"] is None
    assert b'"timings":{"a":1.0e0}' in written
    assert b'"content":"\\u00e9"' in written


@pytest.mark.parametrize(
    "body",
    [
        b'{ "choices": [{"message": {"refusal": null}, "logprobs": {"content": []}}] }',
        b'{"choices":[{"text":"of the older API"}]}',
        b'{"choices": null}',
        b'{"object": "list"}',
        b"[1]",
        b"not JSON",
        b"[" * 5000,
    ],
)
def test_other_replies_keep_every_byte(body):
    assert body == OPENAI_CHAT.relayed_reply(body)
