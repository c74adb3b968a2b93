"""Error responses of upstreams, in every form that engines have."""

import json

import pytest

from fcshim.codecs.openai_chat import OPENAI_CHAT


def written(error):
    return json.loads(OPENAI_CHAT.encode_error(error))["error"]


TOO_LONG = {
    "llama-server": '{"error":{"code":400,"message":"request (18017 tokens) exceeds the available context size (2048 '
    'tokens), try increasing it","type":"exceed_context_size_error","n_prompt_tokens":18017,"n_ctx":2048}}',
    "llama-cpp-python": '{"error":{"message":"This model\'s maximum context length is 512 tokens, you requested '
    '600","type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}}',
    "vLLM": '{"object":"error","message":"This model\'s maximum context length is 512.","type":"BadRequestError"}',
    "Ollama": '{"error":"the input length exceeds the context length"}',
}


@pytest.mark.parametrize("engine", TOO_LONG)
def test_a_too_long_prompt_is_recognised(engine):
    error = OPENAI_CHAT.decode_error(400, {}, TOO_LONG[engine].encode())

    assert (400, "context_length_exceeded") == (error.status, error.kind)
    assert ("invalid_request_error", "context_length_exceeded") == (written(error)["type"], written(error)["code"])


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (400, 400),
        (404, 404),
        (413, 413),
        (422, 400),
        (429, 429),
        (503, 503),
        (504, 504),
        (418, 502),
        (500, 502),
        (501, 502),
    ],
)
def test_statuses_that_concern_the_client_are_forwarded(status, expected):
    assert expected == OPENAI_CHAT.decode_error(status, {}, b"").status


@pytest.mark.parametrize("status", [401, 403])
def test_a_rejected_key_is_a_502_without_the_upstreams_message(status):
    error = OPENAI_CHAT.decode_error(status, {}, b'{"error":{"message":"Incorrect API key provided: sk-secret"}}')

    assert 502 == error.status
    assert error.key_refused
    assert error.message.startswith(
        f"the upstream refused fcshim's API key (HTTP {status}): set it with --upstream-key,"
    )
    assert "sk-secret" not in error.message


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b'{"error":{"message":"boom","type":"server_error","code":500}}', "boom (server_error)"),
        (b'{"error":"model not found"}', "model not found"),
        (b'{"error":{"detail":"boom"}}', "boom"),
        (b'{"error":{"odd":1}}', '{"odd": 1}'),
        (b'{"error":["boom"]}', '{"error": ["boom"]}'),
        (b'{"detail":"Not Found"}', "Not Found"),
        (b'{"detail":[{"loc":["body"],"msg":"field required"}]}', '[{"loc": ["body"], "msg": "field required"}]'),
        (b'{"object":"error","message":"bad"}', "bad"),
        (b"Internal Server Error", "Internal Server Error"),
        (b"<html><head><title>502 Bad Gateway</title></head>", "a web page, '502 Bad Gateway'"),
        (b"  <!DOCTYPE html><p>", "a web page"),
        (b"\xff\xfe", "\ufffd\ufffd"),
        (b"[1]", "[1]"),
        (b"[" * 100_000, "[" * 300),
        (b"x" * 100_000, "x" * 300),
    ],
)
def test_error_responses_of_every_form_give_a_short_message(body, expected):
    assert f"the upstream answered HTTP 500: {expected}" == OPENAI_CHAT.decode_error(500, {}, body).message


def test_an_empty_error_response_gives_its_status():
    assert "the upstream answered HTTP 500" == OPENAI_CHAT.decode_error(500, {}, b"").message


@pytest.mark.parametrize(
    ("message", "hint"),
    [
        ("tools param requires --jinja flag", "needs --jinja, or fcshim --tools prompt"),
        ("registry.ollama.ai/library/gemma3:1b does not support tools", "--tools prompt"),
        ('"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set', "--tools prompt"),
        ("The model does not support function calling", "--tools prompt"),
        ("Tool calling is not supported for this model", "--tools prompt"),
        ("tools are not supported in this endpoint", "--tools prompt"),
        ("Failed to parse grammar", "--constrain off"),
        ("error parsing grammar: unexpected end", "--constrain off"),
        ("Invalid grammar request: unknown rule", "--constrain off"),
        ("failed to compile the GBNF grammar", "--constrain off"),
        ("Conversation roles must alternate user/assistant/user/assistant/...", "--profile no-system"),
        ("After the optional system message, conversation roles must alternate user and assistant", "no-system"),
        ("System role not supported", "--profile no-system"),
        ("Only user and assistant roles are supported!", "--profile no-system"),
        ("Only user, assistant and tool roles are supported", "--profile no-system"),
        ("Unexpected message role.", "--profile no-system"),
        ("Unknown role: system", "--profile no-system"),
    ],
)
def test_an_error_that_a_setting_avoids_names_the_setting(message, hint):
    error = OPENAI_CHAT.decode_error(400, {}, json.dumps({"error": {"message": message}}).encode())

    assert message in error.message
    assert hint in error.message


@pytest.mark.parametrize(
    "message",
    ["the model is not loaded", "unknown field 'tools'", "the prompt has no grammar", "images are not supported"],
)
def test_other_errors_have_no_hint(message):
    error = OPENAI_CHAT.decode_error(400, {}, json.dumps({"error": {"message": message}}).encode())

    assert error.message.endswith(message)
