"""What a request refers to, where the store was changed behind our back."""

import json

import pytest

from fcshim.codecs.json_text import RequestLimits
from fcshim.codecs.openai_responses.input_resolver import InputResolver, read_stored
from fcshim.codecs.reply_store import LookupResult
from fcshim.errors import RequestError

pytestmark = pytest.mark.security


def document(**changes):
    return json.dumps({"response": {"output": []}, "input": [], "previous": None, **changes}).encode()


def resolve(stored, **source):
    """Resolve a request whose lookups find `stored`."""
    steps = InputResolver(RequestLimits()).resolve({"input": [], **source})
    try:
        asked = next(steps)
        while True:
            asked = steps.send(LookupResult({name: stored[name] for name in asked.names if name in stored}))
    except StopIteration as end:
        return end.value


@pytest.mark.parametrize("chain", [{"a": "a"}, {"a": "b", "b": "a"}, {"a": "b", "b": "c", "c": "b"}])
def test_a_chain_that_leads_back_to_itself_ends(chain):
    stored = {name: document(previous=previous) for name, previous in chain.items()}

    with pytest.raises(RequestError, match="not found"):
        resolve(stored, previous_response_id="a")


def test_a_chain_is_put_in_order():
    items = [{"type": "message", "role": "user", "content": text} for text in "ab"]
    stored = {"a": document(input=items[:1]), "b": document(input=items[1:], previous="a")}

    assert items == resolve(stored, previous_response_id="b")


@pytest.mark.parametrize(
    "damaged",
    [
        b"",
        b"\xff",
        document()[:-1],
        document(input="text"),
        document(response=None),
        document(response={}),
        document(response={"output": "text"}),
        document(previous=5),
        b'{"response": {"output": []}, "input": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b'{"response": {"output": [' + b'{"a":' * 5_000 + b"1" + b"}" * 5_000 + b']}, "input": []}',
    ],
)
def test_a_damaged_document_counts_as_not_stored(damaged):
    assert read_stored(damaged) is None


def test_a_stored_call_that_was_cut_off_is_not_part_of_the_conversation():
    call = {"type": "function_call", "call_id": "c", "name": "f", "arguments": '{"a"}]', "status": "incomplete"}
    stored = read_stored(document(response={"output": [call, {**call, "call_id": "d", "status": "completed"}]}))

    assert stored is not None
    assert ["d"] == [item["call_id"] for item in stored.all_items()]
