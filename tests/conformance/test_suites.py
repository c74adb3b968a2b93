"""The suites of others that `suites` reads: every case passes, or is named here with its reason."""

import asyncio
import json

import pytest

from tests.conformance.environment import JSON_SCHEMA, JSON_TEXTS, LLM_COMPLY, NAUGHTY
from tests.conformance.suites import json_schemas, json_texts, llm_comply, naughty_strings
from tests.scripted import Script, model_list, scripted_upstream, text_reply
from tests.server.proxy import running_proxy

MISSING = "python -m tests.conformance.environment"
CALL = '<function_call>\n{"name": "get_weather", "arguments": {"location": "San Francisco"}}\n</function_call>'

CHOICE = {"index": 0, "message": {"role": "assistant", "content": "Hello, Alice."}, "finish_reason": "stop"}
USAGE = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
DOCUMENT = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "m", "usage": USAGE}

NO_MODEL = b'{"error": {"message": "you must provide a model parameter", "type": "invalid_request_error"}}'
"""What OpenAI answers to a request without `model`; llama-server serves it."""


@pytest.mark.skipif(not NAUGHTY.exists(), reason=MISSING)
def test_naughty_strings_arrive_as_they_were_written():
    assert () == naughty_strings().failures


@pytest.mark.skipif(not JSON_TEXTS.exists(), reason=MISSING)
def test_json_texts_are_read_as_a_strict_parser_reads_them():
    accept, reject, either = json_texts().values()

    # Two values for one key: which one is meant is not known.
    assert ("y_object_duplicated_key.json", "y_object_duplicated_key_and_value.json") == accept.failures
    assert () == reject.failures
    assert 35 == either.passed


@pytest.mark.skipif(not JSON_SCHEMA.is_dir(), reason=MISSING)
def test_what_a_grammar_admits_against_a_schema_has_a_note():
    admitted, refused, noted, valid, invalid = json_schemas().values()

    assert 698 <= admitted.passed
    assert 402 <= refused.passed
    assert () == noted.failures
    # A metaschema of its own, which is not in the schema, has no keywords of validation.
    assert ["vocabulary"] == [name.partition(":")[0] for name in valid.failures]
    assert 435 <= invalid.passed


@pytest.mark.skipif(not LLM_COMPLY.exists(), reason=MISSING)
@pytest.mark.parametrize(
    ("api", "path"), [("openai-chat", "/v1"), ("open-responses", "/v1"), ("anthropic", "/v1"), ("google-genai", "")]
)
async def test_llm_comply_passes(api, path):
    def respond(request) -> Script:
        if not request.body.get("model"):  # whether a request needs one is the upstream's decision
            return Script((NO_MODEL,), status=400, content_type="application/json")
        if not request.body.get("stream"):  # relayed; a server of its own omits what strict clients require
            return Script((json.dumps({**DOCUMENT, "choices": [CHOICE]}).encode(),), content_type="application/json")
        return text_reply(CALL if "get_weather" in str(request.body) else "Hello, Alice.")

    upstream = scripted_upstream(respond=respond, listing=model_list("m"))
    async with upstream as served, running_proxy(served.url) as url:
        result = await asyncio.to_thread(llm_comply, url + path, api)

    assert () == result.failures
