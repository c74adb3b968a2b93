"""Token counts come from the engine: the count of a request equals the usage of its reply."""

import httpx
import pytest

TOOL = {"name": "add_numbers", "input_schema": {"type": "object", "properties": {"first": {}, "second": {}}}}
ASKED = {"model": "m", "messages": [{"role": "user", "content": "call add_numbers with first=19, second=23"}]}


@pytest.mark.parametrize("tools", [[], [TOOL]], ids=["plain", "tools"])
def test_the_count_equals_the_usage_of_the_reply(proxy: str, tools: list) -> None:
    body = {**ASKED, "tools": tools}
    with httpx.Client(base_url=proxy, trust_env=False, timeout=60) as client:
        counted = client.post("/v1/messages/count_tokens", json=body)
        reply = client.post("/v1/messages", json={**body, "max_tokens": 60}).json()

    assert "exact" == counted.headers["x-fcshim-count"]
    usage = reply["usage"]
    assert counted.json()["input_tokens"] == usage["input_tokens"] + usage["cache_read_input_tokens"]


def test_gemini_clients_get_the_same_count(proxy: str) -> None:
    contents = [{"role": "user", "parts": [{"text": ASKED["messages"][0]["content"]}]}]
    with httpx.Client(base_url=proxy, trust_env=False, timeout=60) as client:
        counted = client.post("/v1/messages/count_tokens", json=ASKED).json()["input_tokens"]
        answer = client.post("/v1beta/models/m:countTokens", json={"contents": contents})

    assert counted == answer.json()["totalTokens"]
