import json

import pytest

from fcshim.codecs.base import ReplyIdentity, RequestTarget
from fcshim.codecs.openai_responses import OPENAI_RESPONSES, OpenAIResponses
from fcshim.codecs.reply_store import ReplyStore
from fcshim.errors import RequestError
from fcshim.events import Stop, Text
from fcshim.messages import AssistantMessage, SystemMessage, TextPart, UserMessage, text_of
from fcshim.reply import fold


class ResponsesSession:
    """A client and a codec with a memory; every request is answered with a text."""

    def __init__(self, codec=OPENAI_RESPONSES, **limits):
        self.reply_store = ReplyStore(**limits)
        self._codec = codec
        self._replies = 0

    def read(self, **fields):
        body = json.dumps({"model": "m", "input": "hi", **fields}).encode()
        return self._codec.decode_request(body, RequestTarget(reply_store=self.reply_store))

    def reply_to(self, answer, **fields):
        """Ask, be answered, and give the response object."""
        self._replies += 1
        request = self.read(**fields)
        identity = ReplyIdentity(f"resp_{self._replies}", 1700000000, "m", reply_store=self.reply_store)
        reply = fold([Text(answer), Stop("complete")])
        return json.loads(self._codec.encode_reply(request, identity, [reply]))

    def respond(self, method, path, name):
        return json.loads(
            self._codec.respond(method, RequestTarget(path, "", {"response": name}, self.reply_store), b"")
        )


def role_texts(request):
    roles = {UserMessage: "user", AssistantMessage: "model", SystemMessage: "system"}
    return [(roles[type(message)], text_of(message.content)) for message in request.messages]


def test_a_chain_of_responses_is_the_whole_conversation():
    talk = ResponsesSession()
    first = talk.reply_to("one", input="1", instructions="be brief")
    second = talk.reply_to("two", input=[{"role": "user", "content": "2"}], previous_response_id=first["id"])
    request = talk.read(input="3", previous_response_id=second["id"], instructions="be long")

    assert [
        ("system", "be long"),
        *[("user", "1"), ("model", "one"), ("user", "2"), ("model", "two"), ("user", "3")],
    ] == role_texts(request)


def test_nothing_is_kept_twice():
    talk = ResponsesSession()
    name = None
    for _ in range(20):
        name = talk.reply_to("x" * 1000, previous_response_id=name)["id"]

    assert len(talk.reply_store.get(name)) < 3000
    assert 41 == len(talk.read(previous_response_id=name).messages)


@pytest.mark.parametrize("name", ["resp_9", 7, {}])
def test_an_unknown_previous_response_is_the_documented_error(name):
    with pytest.raises(RequestError) as caught:
        ResponsesSession().read(previous_response_id=name)

    assert (400, "previous_response_id", "previous_response_not_found") == (
        caught.value.status,
        caught.value.param,
        caught.value.kind,
    )


def test_a_broken_chain_is_an_error_and_no_shorter_conversation():
    talk = ResponsesSession(max_entries=2)
    name = None
    for _ in range(3):
        name = talk.reply_to("x", previous_response_id=name)["id"]
    with pytest.raises(RequestError, match="not found"):
        talk.read(previous_response_id=name)


def test_a_reference_stands_for_an_item_of_a_reply_or_of_a_request():
    talk = ResponsesSession()
    own = {"type": "message", "id": "msg_own", "role": "user", "content": "1"}
    first = talk.reply_to("one", input=[own])
    references = [{"type": "item_reference", "id": name} for name in ("msg_own", first["output"][0]["id"], "msg_9", 7)]

    assert [("user", "1"), ("model", "one"), ("user", "2")] == role_texts(
        talk.read(input=[*references, {"role": "user", "content": "2"}])
    )


def test_a_reference_in_what_was_kept_is_followed_too():
    talk = ResponsesSession()
    first = talk.reply_to("one", input="1")
    reference = {"type": "item_reference", "id": first["output"][0]["id"]}
    second = talk.reply_to("two", input=[reference, {"role": "user", "content": "2"}])

    assert [("model", "one"), ("user", "2"), ("model", "two"), ("user", "hi")] == role_texts(
        talk.read(previous_response_id=second["id"])
    )


def test_a_small_request_cannot_pull_much_out_of_the_memory():
    talk = ResponsesSession(OpenAIResponses(max_recalled_bytes=10_000))
    item = talk.reply_to("x" * 1000)["output"][0]["id"]
    with pytest.raises(RequestError) as caught:
        talk.read(input=[{"type": "item_reference", "id": item}] * 100)

    assert 413 == caught.value.status
    assert 5 == len(talk.read(input=[{"type": "item_reference", "id": item}] * 5).messages)


def test_what_was_kept_can_be_read_listed_and_forgotten():
    talk = ResponsesSession()
    first = talk.reply_to("one", input="1")
    listed = talk.respond("GET", "/v1/responses/resp_1/input_items", "resp_1")

    assert first == talk.respond("GET", "/v1/responses/resp_1", "resp_1")
    assert ("list", "1", False) == (listed["object"], listed["data"][0]["content"], listed["has_more"])
    assert listed["first_id"] == listed["last_id"] == listed["data"][0]["id"]
    assert {"id": "resp_1", "object": "response", "deleted": True} == talk.respond("DELETE", "/", "resp_1")
    with pytest.raises(RequestError) as caught:
        talk.respond("GET", "/v1/responses/resp_1", "resp_1")
    assert 404 == caught.value.status


def test_what_is_not_to_be_stored_is_not():
    talk = ResponsesSession()
    talk.reply_to("one", store=False)

    assert talk.reply_store.get("resp_1") is None


def test_where_the_upstream_remembers_nothing_is_looked_for():
    body = json.dumps({"model": "m", "input": [], "previous_response_id": "resp_9"}).encode()

    assert () == OPENAI_RESPONSES.decode_request(body, RequestTarget(stored_upstream=True)).messages


def test_without_a_memory_nothing_is_known_and_nothing_breaks():
    request = OPENAI_RESPONSES.decode_request(
        json.dumps(
            {"model": "m", "input": [{"type": "item_reference", "id": "msg_1"}, {"role": "user", "content": "x"}]}
        ).encode()
    )

    assert (UserMessage((TextPart("x"),)),) == request.messages
    with pytest.raises(RequestError):
        OPENAI_RESPONSES.respond("GET", RequestTarget(path_params={"response": "resp_1"}), b"")
