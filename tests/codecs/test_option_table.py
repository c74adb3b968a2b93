"""Options of clients that an upstream's API has under other names, or not at all."""

import json
import logging
import re
from pathlib import Path

import pytest

from fcshim import Client
from fcshim.codecs.openai_chat import OPENAI_CHAT
from fcshim.codecs.option_table import OPTIONS, left_out
from fcshim.codecs.upstreams import UPSTREAMS
from fcshim.errors import UpstreamError
from fcshim.messages import Request, TextPart, UserMessage
from fcshim.sampling import Sampling
from tests.scripted import scripted_upstream, text_reply

PAGE = Path(__file__).parents[2] / "docs" / "clients.md"
APIS = {UPSTREAMS[name].codec.name: UPSTREAMS[name].codec for name in ("responses", "anthropic", "gemini", "ollama")}
VALUES = {
    "response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "object"}}},
    "reasoning_effort": "low",
    "top_k": 5,
}
MODELS = {"gemini": "gemini-2.5-flash"}  # older ones take no budget for reasoning
PATHS = [(row, api, getattr(row, api)) for row in OPTIONS for api in APIS if getattr(row, api)]


def request_of(api, **extra):
    return Request(model=MODELS.get(api, "m"), messages=(UserMessage((TextPart("Hi"),)),), extra=extra)


@pytest.mark.parametrize(("row", "api", "path"), PATHS, ids=[f"{row.name} {api}" for row, api, _ in PATHS])
def test_an_option_of_the_chat_api_is_sent_where_the_table_says(row, api, path):
    value = VALUES.get(row.name, "a value")
    body = json.loads(APIS[api].encode_request(request_of(api, **{row.name: value})).body)
    for name in path.split("."):
        body = body[name]

    assert body == value or row.converted


def test_options_with_one_field_stand_beside_each_other():
    extra = {"response_format": VALUES["response_format"], "verbosity": "low"}
    body = json.loads(APIS["openai_responses"].encode_request(request_of("", **extra)).body)

    assert {"format", "verbosity"} == body["text"].keys()


def test_an_option_without_a_field_is_named():
    request = request_of("", logit_bias={"1": 2}, top_k=3, user="u", stream_options={}, seed=None)

    assert left_out(request, "anthropic") == ["logit_bias", "user"]
    assert left_out(request, "openai_responses") == ["logit_bias", "top_k"]
    assert left_out(request, "openai_chat") == []


def test_a_null_is_no_option():
    body = {
        "model": "m",
        "messages": [{"role": "user", "content": "Hi"}],
        "user": None,
        "logit_bias": None,
        "top_k": None,
    }
    request = OPENAI_CHAT.decode_request(json.dumps(body).encode())

    assert [] == left_out(request, "openai_responses") == left_out(request, "anthropic")
    assert "user" not in json.loads(APIS["openai_responses"].encode_request(request).body)


async def test_the_log_names_what_is_left_out_once(caplog):
    caplog.set_level(logging.WARNING, "fcshim.upstream")
    async with (
        scripted_upstream(respond=lambda _: text_reply("Hi"), pages={}) as upstream,
        Client(upstream.url, api="anthropic", model="m") as client,
    ):
        for _ in range(2):
            with pytest.raises(UpstreamError):  # the reply is one of the Chat API
                await client.complete("Hi", logit_bias={"1": 2}, extra_body={"odd\n": 1})

    texts = [record.getMessage() for record in caplog.records if "left out" in record.getMessage()]
    assert [text.partition(":")[0] for text in texts] == ["logit_bias", "odd␊"]


def test_the_page_has_the_table():
    """For a new option, add the line that is missing to the table of docs/clients.md."""
    written = re.findall(r"^\| `\w+` \| .* \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    cells = [[row.name, *(getattr(row, api) for api in APIS)] for row in OPTIONS]

    assert {f"| {' | '.join(f'`{cell}`' if cell else '-' for cell in each)} |" for each in cells} == {*written}


def test_the_client_takes_every_option():
    """For a new option, add a line to `Sampling`: its name and its type."""
    assert set() == {row.name for row in OPTIONS} - Sampling.__annotations__.keys()
