"""The examined endpoint: every response is recorded, and none raises an exception."""

import pytest

from fcshim.config import Secret
from fcshim.evaluate import target as target_module
from fcshim.evaluate.target import HELLO, ProbeTarget, excerpt, user_message
from fcshim.pipeline.backends import get_backend
from fcshim.upstream import Upstream
from tests.scripted import CUT, HANG, ROLE, Script, scripted_upstream, text_chunk, text_reply


async def send_request(script, **options):
    async with scripted_upstream(script) as upstream, Upstream(upstream.url) as endpoint:
        target = ProbeTarget(endpoint, "m", get_backend("generic"))
        answer = await target.send(target.make_request(user_message(HELLO), max_tokens=5), **options)
    return answer, upstream


async def test_a_response_has_its_times_and_bytes():
    answer, upstream = await send_request(text_reply("Hel", "lo"))

    assert (200, True, "Hello", 10) == (answer.status, answer.ok, answer.text, answer.prompt_tokens)
    assert 2 == len(answer.arrivals)
    assert 0 < answer.arrivals[0] <= answer.seconds
    assert answer.raw.endswith(b"data: [DONE]\n\n")
    assert {"temperature": 0.0, "seed": 1, "max_tokens": 5}.items() <= upstream.requests[0].body.items()


@pytest.mark.parametrize(
    ("script", "status", "rejected", "words"),
    [
        (Script((b'{"error":{"message":"no such role"}}',), 400), 400, True, "no such role"),
        (Script((b'{"error":"slow down"}',), 429), 429, False, "slow down"),
        (Script((b'data: {"error":{"message":"template broke"}}\n\n',)), 200, True, "template broke"),
        (Script((ROLE, text_chunk("Hel"), CUT)), 200, True, "broke off"),
    ],
)
async def test_an_error_is_a_rejection_only_if_the_server_rejects_the_request(script, status, rejected, words):
    answer, _ = await send_request(script)

    assert (status, False, rejected) == (answer.status, answer.ok, answer.rejected)
    assert words in answer.error_summary()


async def test_an_unreachable_server_and_a_timeout_are_recorded(monkeypatch):
    monkeypatch.setattr(target_module, "RESPONSE_TIMEOUT", 0.2)
    async with Upstream("http://127.0.0.1:9") as away:
        target = ProbeTarget(away, "m", get_backend("generic"))
        nobody = await target.send(target.make_request(user_message(HELLO), max_tokens=5))
        page = await target.fetch_json("GET", "//props")
    nothing, _ = await send_request(Script((ROLE, HANG)))

    assert (0, False, None) == (nobody.status, nobody.rejected, page)
    assert "cannot connect" in nobody.error_summary()
    assert "no complete response within 0.2 s" == nothing.error_summary()


async def test_a_key_in_a_response_is_masked():
    script = Script((b'data: {"error":{"message":"no: secret-secret"}}\n\n',))
    async with scripted_upstream(script) as upstream, Upstream(upstream.url, key=Secret("secret-secret")) as endpoint:
        target = ProbeTarget(endpoint, "m", get_backend("generic"))
        answer = await target.send(target.make_request(user_message(HELLO), max_tokens=5))

    assert "the upstream failed: no: *************" == answer.error_summary()


async def test_reading_stops_at_the_stop_condition():
    answer, _ = await send_request(
        Script((ROLE, text_chunk("<think>"), HANG)), stop_when=lambda text, _: "<think>" in text
    )

    assert (True, False) == (answer.ok, answer.complete)


async def test_the_body_can_be_edited():
    _, upstream = await send_request(text_reply("Hi"), edit_body=lambda body: {**body, "odd": 1})

    assert 1 == upstream.requests[0].body["odd"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [(" a\n\tb ", "a b"), ("\x1b[31mred", "�[31mred"), ("x" * 500, "x" * 159 + "…"), ("", "")],
)
def test_an_excerpt_is_one_printable_line(text, expected):
    assert expected == excerpt(text)
