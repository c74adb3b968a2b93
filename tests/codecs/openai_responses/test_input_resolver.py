import json

import pydantic
import pytest
from openai.types.responses import ResponseItem

from fcshim.codecs.base import ReplyIdentity, RequestTarget
from fcshim.codecs.json_text import RequestLimits
from fcshim.codecs.openai_responses import OPENAI_RESPONSES, OpenAIResponses
from fcshim.errors import RequestError
from fcshim.events import Stop, Text
from fcshim.messages import AssistantMessage, SystemMessage, TextPart, UserMessage, text_of
from fcshim.reply import fold
from tests.codecs.stored_documents import StoredDocuments


class ResponsesSession:
    """A client and a codec with a reply store; every request gets a text as its reply."""

    def __init__(self, codec=OPENAI_RESPONSES):
        self.reply_store = StoredDocuments()
        self._codec = codec
        self._replies = 0

    def read(self, **fields):
        body = json.dumps({"model": "m", "input": "hi", **fields}).encode()
        return self.reply_store.read(self._codec.recall_request(body, RequestTarget()))

    def reply_to(self, answer, **fields):
        """Send a request whose reply is `answer`; return the response object."""
        self._replies += 1
        request = self.read(**fields)
        identity = ReplyIdentity(f"resp_{self._replies}", 1700000000, "m", reply_store=self.reply_store)
        reply = fold([Text(answer), Stop("complete")])
        return json.loads(self._codec.encode_reply(request, identity, [reply]))

    def respond(self, method, path, name, query=""):
        return json.loads(
            self._codec.respond(method, RequestTarget(path, query, {"response": name}, self.reply_store), b"")
        )

    def list_items(self, query="", name="resp_1"):
        return self.respond("GET", f"/v1/responses/{name}/input_items", name, query)


def role_texts(request):
    roles = {UserMessage: "user", AssistantMessage: "model", SystemMessage: "system"}
    return [(roles[type(message)], text_of(message.content)) for message in request.messages]


def test_a_chain_of_responses_gives_the_whole_conversation():
    session = ResponsesSession()
    first = session.reply_to("one", input="1", instructions="be brief")
    second = session.reply_to("two", input=[{"role": "user", "content": "2"}], previous_response_id=first["id"])
    request = session.read(input="3", previous_response_id=second["id"], instructions="be long")

    assert [
        ("system", "be long"),
        *[("user", "1"), ("model", "one"), ("user", "2"), ("model", "two"), ("user", "3")],
    ] == role_texts(request)


def test_no_item_is_stored_twice():
    session = ResponsesSession()
    name = None
    for _ in range(20):
        name = session.reply_to("x" * 1000, previous_response_id=name)["id"]

    assert len(session.reply_store.get(name)) < 3000
    assert 41 == len(session.read(previous_response_id=name).messages)


@pytest.mark.parametrize("name", ["resp_9", 7, {}])
def test_an_unknown_previous_response_is_the_documented_error(name):
    with pytest.raises(RequestError) as caught:
        ResponsesSession().read(previous_response_id=name)

    assert (400, "previous_response_id", "previous_response_not_found") == (
        caught.value.status,
        caught.value.param,
        caught.value.kind,
    )


def test_a_broken_chain_is_an_error_instead_of_a_shorter_conversation():
    session = ResponsesSession()
    name = None
    for _ in range(3):
        name = session.reply_to("x", previous_response_id=name)["id"]
    session.reply_store.delete("resp_1")
    with pytest.raises(RequestError, match="not found"):
        session.read(previous_response_id=name)


def test_a_reference_is_replaced_by_an_item_of_a_reply_or_request():
    session = ResponsesSession()
    own = {"type": "message", "id": "msg_own", "role": "user", "content": "1"}
    first = session.reply_to("one", input=[own])
    references = [{"type": "item_reference", "id": name} for name in ("msg_own", first["output"][0]["id"], "msg_9", 7)]

    assert [("user", "1"), ("model", "one"), ("user", "2")] == role_texts(
        session.read(input=[*references, {"role": "user", "content": "2"}])
    )


def test_a_reference_inside_stored_items_is_resolved():
    session = ResponsesSession()
    first = session.reply_to("one", input="1")
    reference = {"type": "item_reference", "id": first["output"][0]["id"]}
    second = session.reply_to("two", input=[reference, {"role": "user", "content": "2"}])

    assert [("model", "one"), ("user", "2"), ("model", "two"), ("user", "hi")] == role_texts(
        session.read(previous_response_id=second["id"])
    )


def test_the_size_of_resolved_items_is_limited():
    session = ResponsesSession(OpenAIResponses(request_limits=RequestLimits(recalled_bytes=10_000)))
    item = session.reply_to("x" * 1000)["output"][0]["id"]
    with pytest.raises(RequestError) as caught:
        session.read(input=[{"type": "item_reference", "id": item}] * 100)

    assert 413 == caught.value.status
    assert 5 == len(session.read(input=[{"type": "item_reference", "id": item}] * 5).messages)


def test_a_stored_response_can_be_read_listed_and_deleted():
    session = ResponsesSession()
    first = session.reply_to("one", input="1")
    listed = session.respond("GET", "/v1/responses/resp_1/input_items", "resp_1")

    assert first == session.respond("GET", "/v1/responses/resp_1", "resp_1")
    assert ("list", False) == (listed["object"], listed["has_more"])
    assert [{"type": "input_text", "text": "1"}] == listed["data"][0]["content"]
    assert "completed" == listed["data"][0]["status"]
    assert listed["first_id"] == listed["last_id"] == listed["data"][0]["id"]
    assert {"id": "resp_1", "object": "response", "deleted": True} == session.respond("DELETE", "/", "resp_1")
    with pytest.raises(RequestError) as caught:
        session.respond("GET", "/v1/responses/resp_1", "resp_1")
    assert 404 == caught.value.status


ITEMS = [
    {"role": "user", "content": "a"},
    {"type": "message", "role": "assistant", "content": "b"},
    {"role": "user", "content": [{"type": "input_image", "image_url": "data:image/png;base64,aaaa"}]},
    {"type": "function_call", "call_id": "c1", "name": "add", "arguments": "{}"},
    {"type": "function_call_output", "call_id": "c1", "output": "3"},
    {"type": "custom_tool_call", "call_id": "c2", "name": "patch", "input": "x"},
    {"type": "custom_tool_call_output", "call_id": "c2", "output": "3"},
    {"type": "reasoning", "summary": []},
]


def test_every_item_of_a_request_is_listed_as_the_official_clients_type():
    session = ResponsesSession()
    session.reply_to("one", input=ITEMS)
    found = [pydantic.TypeAdapter(ResponseItem).validate_python(item) for item in session.list_items()["data"]]

    assert [item.get("type", "message") for item in ITEMS][::-1] == [item.type for item in found]


def test_items_are_listed_in_pages():
    session = ResponsesSession()
    session.reply_to("one", input=[{"role": "user", "content": str(at)} for at in range(30)])
    texts = []
    query = "limit=12"
    while query:
        page = session.list_items(query)
        texts += [item["content"][0]["text"] for item in page["data"]]
        query = f"limit=12&after={page['last_id']}" if page["has_more"] else ""

    assert [str(at) for at in range(29, -1, -1)] == texts
    assert ["0", "1"] == [item["content"][0]["text"] for item in session.list_items("order=asc&limit=2")["data"]]
    assert (20, True) == (len(session.list_items()["data"]), session.list_items()["has_more"])
    assert [] == session.list_items("after=unknown")["data"]


@pytest.mark.parametrize("query", ["limit=0", "limit=x", "limit=101", "limit=" + "9" * 5000, "order=up"])
def test_a_page_that_cannot_be_listed_is_refused(query):
    session = ResponsesSession()
    session.reply_to("one")
    with pytest.raises(RequestError, match="expected"):
        session.list_items(query)


def test_a_response_with_store_false_is_not_stored():
    session = ResponsesSession()
    session.reply_to("one", store=False)

    assert session.reply_store.get("resp_1") is None


def test_a_stored_reply_of_another_release_counts_as_not_stored():
    session = ResponsesSession()
    session.reply_store.put("resp_1", b'{"version":9}')
    with pytest.raises(RequestError, match="not found"):
        session.read(previous_response_id="resp_1")
    with pytest.raises(RequestError, match="not found"):
        session.respond("GET", "/v1/responses/resp_1", "resp_1")


@pytest.mark.parametrize("stored_id", ["msg_1", ["msg_1"], {"a": 1}])
def test_an_item_is_taken_from_the_reply_that_its_id_leads_to(stored_id):
    session = ResponsesSession()
    item = {"type": "message", "role": "user", "id": "msg_1", "content": "the first"}
    session.reply_to("one", input=[item])
    session.reply_to("two", input=[{**item, "content": "the second", "id": stored_id}])
    found = session.read(input=[{"type": "item_reference", "id": "msg_1"}, {"role": "user", "content": "x"}])

    assert ("the second" if stored_id == "msg_1" else "the first") == text_of(found.messages[0].content)


def test_references_are_not_resolved_where_the_upstream_stores_replies():
    body = json.dumps({"model": "m", "input": [], "previous_response_id": "resp_9"}).encode()

    assert () == OPENAI_RESPONSES.decode_request(body, RequestTarget(stored_upstream=True)).messages


def test_without_a_store_references_are_unknown():
    request = OPENAI_RESPONSES.decode_request(
        json.dumps(
            {"model": "m", "input": [{"type": "item_reference", "id": "msg_1"}, {"role": "user", "content": "x"}]}
        ).encode()
    )

    assert (UserMessage((TextPart("x"),)),) == request.messages
    with pytest.raises(RequestError):
        OPENAI_RESPONSES.respond("GET", RequestTarget(path_params={"response": "resp_1"}), b"")
