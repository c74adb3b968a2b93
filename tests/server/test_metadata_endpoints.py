"""Token counts: by the engine itself, by its template and tokenizer, or by an estimate."""

import json

import pytest

from fcshim.codecs.upstreams import UPSTREAMS
from fcshim.messages import Request, TextPart, UserMessage
from fcshim.server.metadata_endpoints import count_tokens
from fcshim.upstream import Upstream
from tests.scripted import Script, scripted_upstream

HELLO = Request(model="m", messages=(UserMessage((TextPart("x" * 40),)),))
NOTHING = Script((b"{}",), status=404)


def page(value, status=200):
    return Script((json.dumps(value).encode(),), status=status)


async def counted(*scripts, kind="openai"):
    async with scripted_upstream(*scripts) as upstream, Upstream(upstream.url, kind=UPSTREAMS[kind]) as asked:
        return await count_tokens(HELLO, asked), [each.path for each in upstream.requests]


async def test_the_engines_own_count_is_used():
    assert ((7, True), ["/v1/chat/completions/input_tokens"]) == await counted(page({"input_tokens": 7}))


async def test_an_older_engine_renders_and_tokenizes_the_prompt():
    found, paths = await counted(NOTHING, page({"prompt": "<|im_start|>..."}), page({"tokens": [1, 2, 3]}))

    assert (3, True) == found
    assert ["/apply-template", "/tokenize"] == paths[1:]


@pytest.mark.parametrize(
    "scripts",
    [
        (NOTHING, NOTHING),
        (page({"input_tokens": "many"}), page({"prompt": 5})),
        (page([]), page({"prompt": "p"}), page({"tokens": 3})),
        (Script((b"{",)), Script((b"[" * 5000,))),
    ],
)
async def test_without_any_count_it_is_an_estimate(scripts):
    found, _ = await counted(*scripts)

    assert (10, False) == found


async def test_an_unreachable_or_other_upstream_gives_an_estimate():
    async with Upstream("http://127.0.0.1:9") as away:
        assert (10, False) == await count_tokens(HELLO, away)
    assert ((10, False), []) == await counted(kind="gemini")
