"""No credential of a request appears in what is observed of it: captures, records, metrics, traces and logs.

Rule: one request for each place of credentials, since a request with too many of them is withheld altogether.
"""

import contextlib
import io
import json
import logging
from urllib.parse import quote

import pytest

from fcshim.config import Secret
from fcshim.config.credentials import CredentialMask
from fcshim.server.request_log import JsonFormatter, RequestFormatter
from tests.server.credential_spellings import BODY, CANARY, HEADERS, QUERY
from tests.server.proxy import CALL, CHAT, chat_body, http_client, running_proxy
from tests.server.raw_upstream import fixed_reply, raw_upstream, stream_texts
from tests.server.test_tracing import collected  # noqa: F401 - a fixture

PLACES = {
    "headers": {"headers": HEADERS},
    "query": {"query": QUERY},
    "body": {"fields": {name: value for name, value in BODY.items() if isinstance(value, str)}},
    "nested": {"fields": {name: value for name, value in BODY.items() if not isinstance(value, str)}},
    "everywhere": {"headers": HEADERS, "query": QUERY, "fields": BODY},
}


def canaries(place: dict) -> list[str]:
    """Return the values that must not appear."""
    text = json.dumps(place)
    return sorted({text[at : at + len(CANARY) + 5] for at in range(len(text)) if text.startswith(CANARY, at)})


@contextlib.contextmanager
def written_log():
    """Write all logs of the server in both formats; yield the file."""
    file = io.StringIO()
    logger = logging.getLogger("fcshim.server")
    level = logger.level
    handlers = [logging.StreamHandler(file) for _ in range(2)]
    handlers[0].setFormatter(JsonFormatter())
    handlers[1].setFormatter(RequestFormatter("%(message)s"))
    for handler in handlers:
        logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    yield file
    logger.setLevel(level)
    for handler in handlers:
        logger.removeHandler(handler)


@pytest.mark.security
@pytest.mark.parametrize("tools", [True, False], ids=["emulated", "relayed"])
@pytest.mark.parametrize("name", PLACES)
async def test_no_credential_reaches_any_sink(name, tools, tmp_path, collected, monkeypatch):  # noqa: F811
    monkeypatch.setenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "true")
    place = PLACES[name]
    secret = canaries(place)
    echo = stream_texts("You said ", *secret[0], " ", secret[-1], ". ", CALL.replace("1", json.dumps(secret[-1])))
    refusal = fixed_reply(400, json.dumps({"error": {"message": f"bad key {secret[0]}"}}).encode())
    query = "&".join(f"{key}={quote(value)}" for key, value in place.get("query", {}).items())
    settings = {"inspect": True, "metrics": True, "record": str(tmp_path)}
    with written_log() as log:
        async with (
            raw_upstream(echo, refusal, refusal) as upstream,
            running_proxy(upstream.url, **settings) as url,
            http_client(url) as client,
        ):
            for _ in range(2):
                body = chat_body(tools=tools, **place.get("fields", {}))
                await client.post(f"{CHAT}?{query}", json=body, headers=place.get("headers"))
            listed = (await client.get("/fcshim/api/requests")).json()["requests"]
            details = [(await client.get(f"/fcshim/api/requests/{each['id']}")).text for each in listed]
            figures = (await client.get("/metrics")).text
        exported = b"".join(data for _, data in collected.received).decode("latin-1")
        records = [file.read_text() for file in tmp_path.glob("*.jsonl")]
        sinks = {
            "captures": json.dumps(listed) + "".join(details),
            "records": "".join(records),
            "metrics": figures,
            "traces": exported,
            "logs": log.getvalue(),
        }

    assert (2, 2) == (len(listed), len(records))
    assert all(sinks.values())
    assert {} == {sink: found for sink, text in sinks.items() if (found := [each for each in secret if each in text])}
    assert {} == {sink: CANARY for sink, text in sinks.items() if CANARY in text}


@pytest.mark.parametrize(
    "shared", ["max_tokens", "next_page_token", "eos_token", "stop_token", "token_count", "author"]
)
def test_fields_that_hold_no_credential_are_shown(shared):
    body = json.dumps({shared: "a plain value", "tokens": [1, 2], "monkey": "banana-tree", "pinned": "plain-value"})

    assert json.loads(CredentialMask().body(body.encode())) == json.loads(body)


def test_schemas_of_credentials_are_shown_but_for_their_values():
    schema = {"type": "string", "description": "a password", "default": "canary-default"}
    body = {"tools": [{"parameters": {"properties": {"password": schema, "key": {"type": "string"}}}}]}
    masked = json.loads(CredentialMask().body(json.dumps(body).encode()))
    shown = masked["tools"][0]["parameters"]["properties"]

    assert {**schema, "default": "***"} == shown["password"]
    assert {"type": "string"} == shown["key"]


def test_addresses_are_shown_but_for_what_is_secret_in_them():
    url = "see https://user:hunter22hunter@host:8080/path?x=1&sig=abcdefgh12#token=zyxwvut9 and http://plain/?a=b"
    masked = json.loads(CredentialMask().body(json.dumps({"content": url}).encode()))

    assert masked["content"] == "see https://user:***@host:8080/path?x=1&sig=***#token=*** and http://plain/?a=b"


@pytest.mark.parametrize("name", [name for name, value in BODY.items() if isinstance(value, str)])
@pytest.mark.parametrize("nested", [False, True])
def test_each_name_is_found_alone(name, nested):
    body = json.dumps({name: "canary-value"})
    masked = CredentialMask().body((json.dumps({"text": body}) if nested else body).encode())

    assert b"canary" not in masked


@pytest.mark.parametrize("reverse", [False, True])
def test_a_credential_that_begins_like_another_one_is_masked_whole(reverse):
    """Masked one after the other, the shorter one would leave the end of the longer one."""
    keys = ["canary-1", "canary-1-and-more", "other-key-2"]
    mask = CredentialMask([Secret(key) for key in (keys[::-1] if reverse else keys)])

    assert b"a " + b"*" * 17 + b" b " + b"*" * 8 + b" c" == mask.mask(b"a canary-1-and-more b canary-1 c")
