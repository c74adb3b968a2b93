"""The methods of events, and ids: unique, and unguessable where they must be."""

import pytest

from fcshim.errors import ModelOutputError
from fcshim.events import CallError, ToolCallEnd, event_to_dict, id_source, secret_source


def test_ids_of_one_source_are_unique_and_have_its_prefix():
    new_id = id_source("toolu_")
    ids = [new_id() for _ in range(1000)]

    assert 1000 == len(set(ids))
    assert all(made.startswith("toolu_") for made in ids)


def test_two_sources_share_no_id():
    first, second = id_source(), id_source()

    assert not {first() for _ in range(100)} & {second() for _ in range(100)}


def test_a_secret_id_is_not_derived_from_another():
    new_id = secret_source("resp_")
    first, second = new_id().removeprefix("resp_"), new_id().removeprefix("resp_")

    assert 32 == len(first) == len(second)
    assert first[:8] != second[:8]


def test_a_call_has_its_arguments_as_an_object():
    assert {"a": [1, "\ud800"]} == ToolCallEnd("c", "add", '{"a": [1, "\\ud800"]}', 0).arguments


def test_the_arguments_of_a_call_with_an_error_are_refused():
    call = ToolCallEnd("c", "add", '{"a": 1', 0, error=CallError("truncated", "it broke off", '{"a": 1'))

    with pytest.raises(ModelOutputError, match="it broke off") as caught:
        _ = call.arguments
    assert ("truncated", '{"a": 1') == (caught.value.kind, caught.value.raw)


def test_the_parsed_arguments_are_no_field_of_the_event():
    call = ToolCallEnd("c", "add", "{}", 0)
    _ = call.arguments

    assert {
        "type": "tool_call_end",
        "tool_call_id": "c",
        "tool_call_name": "add",
        "tool_call_arguments_complete": "{}",
        "index": 0,
        "coerced": [],
        "error": None,
    } == event_to_dict(call)
