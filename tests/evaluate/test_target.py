"""The examined endpoint: whatever it answers is told, and nothing is raised."""

import pytest

from fcshim.backends import get_backend
from fcshim.config import Secret
from fcshim.evaluate import target as patients
from fcshim.evaluate.target import HELLO, ProbeTarget, excerpt, user_message
from fcshim.upstream import Upstream
from tests.scripted import CUT, HANG, ROLE, Script, scripted_upstream, text_chunk, text_reply


async def send_request(script, **options):
    async with scripted_upstream(script) as upstream, Upstream(upstream.url) as endpoint:
        patient = ProbeTarget(endpoint, "m", get_backend("generic"))
        answer = await patient.send(patient.make_request(user_message(HELLO), max_tokens=5), **options)
    return answer, upstream


async def test_a_reply_is_told_with_its_times_and_its_bytes():
    answer, upstream = await send_request(text_reply("Hel", "lo"))

    assert (200, True, "Hello", 10) == (answer.status, answer.ok, answer.text, answer.prompt_tokens)
    assert 2 == len(answer.arrivals)
    assert 0 < answer.arrivals[0] <= answer.seconds
    assert answer.raw.endswith(b"data: [DONE]\n\n")
    assert {"temperature": 0.0, "seed": 1, "max_tokens": 5}.items() <= upstream.requests[0].body.items()


@pytest.mark.parametrize(
    ("script", "status", "refused", "words"),
    [
        (Script((b'{"error":{"message":"no such role"}}',), 400), 400, True, "no such role"),
        (Script((b'{"error":"slow down"}',), 429), 429, False, "slow down"),
        (Script((b'data: {"error":{"message":"template broke"}}\n\n',)), 200, True, "template broke"),
        (Script((ROLE, text_chunk("Hel"), CUT)), 200, True, "broke off"),
    ],
)
async def test_what_goes_wrong_is_told_and_is_a_refusal_only_where_the_server_says_so(script, status, refused, words):
    answer, _ = await send_request(script)

    assert (status, False, refused) == (answer.status, answer.ok, answer.rejected)
    assert words in answer.error_summary()


async def test_nobody_there_and_nothing_in_time_are_told_too(monkeypatch):
    monkeypatch.setattr(patients, "RESPONSE_TIMEOUT", 0.2)
    async with Upstream("http://127.0.0.1:9") as away:
        patient = ProbeTarget(away, "m", get_backend("generic"))
        nobody = await patient.send(patient.make_request(user_message(HELLO), max_tokens=5))
        page = await patient.fetch_json("GET", "//props")
    nothing, _ = await send_request(Script((ROLE, HANG)))

    assert (0, False, None) == (nobody.status, nobody.rejected, page)
    assert "cannot connect" in nobody.error_summary()
    assert "no whole answer within 0.2 s" == nothing.error_summary()


async def test_a_key_that_comes_back_is_masked():
    script = Script((b'data: {"error":{"message":"no: secret-secret"}}\n\n',))
    async with scripted_upstream(script) as upstream, Upstream(upstream.url, key=Secret("secret-secret")) as endpoint:
        patient = ProbeTarget(endpoint, "m", get_backend("generic"))
        answer = await patient.send(patient.make_request(user_message(HELLO), max_tokens=5))

    assert "the upstream failed: no: *************" == answer.error_summary()


async def test_reading_stops_where_enough_was_seen():
    answer, _ = await send_request(
        Script((ROLE, text_chunk("<think>"), HANG)), enough=lambda text, _: "<think>" in text
    )

    assert (True, False) == (answer.ok, answer.complete)


async def test_a_body_can_be_altered_as_it_is_sent():
    _, upstream = await send_request(text_reply("Hi"), change=lambda body: {**body, "odd": 1})

    assert 1 == upstream.requests[0].body["odd"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [(" a\n\tb ", "a b"), ("\x1b[31mred", "�[31mred"), ("x" * 500, "x" * 159 + "…"), ("", "")],
)
def test_an_excerpt_is_one_harmless_line(text, expected):
    assert expected == excerpt(text)
