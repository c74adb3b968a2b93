"""Every case can be answered: the expected calls, written by an upstream in a dialect, are judged right."""

import json

import pytest

from fcshim.client import Client
from fcshim.evaluate import CATEGORIES, evaluate, load_cases
from fcshim.prompt.dialect_folder import find_dialect
from fcshim.prompt.render import render_calls
from tests.scripted import model_list, scripted_upstream, text_reply

CASES = load_cases(CATEGORIES)


def expected_text(case, dialect):
    """Return the text that a model would write, with the first accepted value of each argument."""
    calls = [
        (call.name, json.dumps({key: values[0] for key, values in call.arguments.items()}, ensure_ascii=False))
        for call in case.expected[0]
    ]
    return render_calls(dialect, calls) if calls else "I cannot do that."


@pytest.mark.parametrize("dialect", ["function_call", "qwen3_xml", "pythonic"])
async def test_the_expected_calls_are_right_in_every_case(dialect):
    replies = [text_reply(expected_text(case, find_dialect(dialect))) for case in CASES]
    async with (
        scripted_upstream(*replies, listing=model_list("m")) as upstream,
        Client(upstream.url, model="m", dialect=dialect, max_retries=0) as client,
    ):
        results = await evaluate(client, CASES, dialect=dialect, concurrency=1)

    assert [] == [(result.id, result.verdict, result.calls) for result in results if not result.right]
