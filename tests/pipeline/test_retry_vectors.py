"""Vectors of defective calls that a retry replaces, in any split."""

import json
from pathlib import Path

import pytest

from fcshim.messages import AUTO, ToolChoice
from fcshim.reply import fold
from tests.pipeline.driver import call, drive, new_exchange, reply

VECTORS = json.loads((Path(__file__).parent / "retry_vectors.json").read_text(encoding="utf-8"))
EACH = pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector["name"])
MENDED = call("add", '{"a": 1}')


def answered(vector, *pieces, whole, max_retries=1):
    choice = ToolChoice("required", tuple(filter(None, [vector.get("named")]))) if vector.get("demanded") else AUTO
    dialect = vector.get("dialect", "function_call")
    exchange = new_exchange(buffered=whole, max_retries=max_retries, dialect=dialect, tool_choice=choice)
    mended = reply(vector.get("mended", MENDED))
    result = drive(exchange, reply(*pieces), *([mended] if max_retries else []))
    answer = fold(result.events)
    made = [(made.tool_call_name, made.tool_call_arguments_complete, made.error) for made in answer.tool_calls]
    return answer.text, [[name, json.loads(text)] for name, text, error in made if error is None], answer


def expected(vector):
    return [*vector.get("good", []), ["add", {"a": 1}]]


@EACH
def test_a_retry_replaces_the_call_of_a_buffered_reply(vector):
    text, calls, answer = answered(vector, vector["said"], whole=True)

    assert (vector.get("text", ""), expected(vector)) == (text.strip(), calls)
    assert len(calls) == len(answer.tool_calls)
    assert "tool_use" == answer.stop_reason


@EACH
@pytest.mark.parametrize("size", [1, 4, 17])
def test_a_retry_replaces_the_call_for_any_split(vector, size):
    said = vector["said"]
    pieces = [said[at : at + size] for at in range(0, len(said), size)]

    assert expected(vector) == answered(vector, *pieces, whole=True)[1]


@EACH
def test_without_a_retry_there_is_no_valid_call(vector):
    _, calls, _ = answered(vector, vector["said"], whole=True, max_retries=0)

    assert ["add", {"a": 1}] not in calls
