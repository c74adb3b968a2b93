"""Probes against scripted responses, including flawed ones. `tests/engine` runs them against real servers."""

import pytest

from fcshim.evaluate.probes import PROBES, run_probes
from fcshim.evaluate.probes_calls import probe_grammar, probe_text_calls, probe_tools
from fcshim.evaluate.probes_prompt import probe_context_length, probe_images, probe_prefill, probe_system_role
from fcshim.evaluate.probes_reply import (
    probe_concurrency,
    probe_reasoning,
    probe_reasoning_replay,
    probe_reply,
    probe_stop_strings,
    probe_stream,
    probe_usage,
)
from fcshim.evaluate.result import Finding
from fcshim.evaluate.target import ProbeTarget, assistant_message, user_message
from fcshim.pipeline.backends import get_backend
from fcshim.upstream import Upstream
from tests.scripted import CUT, ROLE, Script, event, scripted_upstream, text_chunk, text_reply

TEXT = "Hello there, good day to you and to your garden."


def reply_with_usage(tokens: int, *texts: str, answered: int = 9) -> Script:
    usage = {"prompt_tokens": tokens, "completion_tokens": answered, "total_tokens": tokens + answered}
    finish = event(choices=[{"index": 0, "delta": {}, "finish_reason": "stop"}])
    return Script((ROLE, *map(text_chunk, texts), finish, event(choices=[], usage=usage), b"data: [DONE]\n\n"))


def reply_without_usage(*texts: str) -> Script:
    finish = event(choices=[{"index": 0, "delta": {}, "finish_reason": "stop"}])
    return Script((ROLE, *map(text_chunk, texts), finish, b"data: [DONE]\n\n"))


def rejection(message: str, status: int = 400) -> Script:
    return Script((f'{{"error":{{"message":"{message}"}}}}'.encode(),), status)


async def run_probe(probe, *scripts, plain=None, backend="generic", model_list=None, pages=None):
    """Send the baseline request, to which `plain` is the response, then run the probe."""
    first = plain or reply_with_usage(10, *TEXT)
    async with scripted_upstream(first, *scripts, pages=pages) as upstream, Upstream(upstream.url) as client:
        target = ProbeTarget(client, "m", get_backend(backend), model_list)
        baseline = await probe_reply(target)
        return baseline if probe is probe_reply else await probe(target)


async def test_sampling_fields_are_omitted_after_they_were_rejected():
    scripts = rejection("temperature is not supported"), text_reply("Hi"), text_reply("Hi")
    async with scripted_upstream(*scripts) as upstream, Upstream(upstream.url) as client:
        target = ProbeTarget(client, "m", get_backend("generic"))
        found = await probe_reply(target)
        await target.send(target.make_request(user_message("x"), assistant_message("y"), max_tokens=1))

    assert "yes" == found.verdict
    assert ["temperature" in asked.body for asked in upstream.requests] == [True, False, False]


async def test_without_a_reply_no_other_probe_runs():
    async with scripted_upstream(rejection("no"), rejection("no")) as upstream, Upstream(upstream.url) as client:
        findings = [finding async for finding in run_probes(ProbeTarget(client, "m", get_backend("generic")))]

    assert [("reply", "no", True)] == [(each.probe, each.verdict, each.fatal) for each in findings]


@pytest.mark.parametrize(
    ("plain", "expected"),
    [
        (reply_with_usage(10, *TEXT), []),
        (
            Script((*(part.replace(b"\n", b"\r\n") for part in reply_with_usage(10, *TEXT).pieces),)),
            ["its lines end with CRLF"],
        ),
        (Script(reply_with_usage(10, *TEXT).pieces[:-1]), ["no [DONE] at its end"]),
        (reply_with_usage(10, TEXT), ["all text came at once, at the end"]),
        (
            Script((b'{"choices":[{"message":{"content":"Hello"},"finish_reason":"stop"}]}',)),
            ["the reply came as one JSON document instead of a stream"],
        ),
        (
            Script(
                (
                    *(event(choices=[{"index": 0, "delta": {"role": "assistant", "content": c}}]) for c in TEXT),
                    *reply_with_usage(10).pieces[1:],
                )
            ),
            ["the role comes with every chunk"],
        ),
    ],
)
async def test_flaws_of_a_stream_are_named(plain, expected):
    found = await run_probe(probe_stream, plain=plain)

    assert expected == (found.value or [])
    assert ("no" if expected else "yes") == found.verdict


@pytest.mark.parametrize(
    "broken", [Script((ROLE, text_chunk("He"), CUT)), Script((ROLE, text_chunk("He"), b"data: [DONE]\n\n"))]
)
async def test_an_incomplete_stream_is_not_a_reply(broken):
    found = await run_probe(probe_reply, broken, plain=broken)

    assert ("no", True) == (found.verdict, found.fatal)
    assert "broke off" in found.evidence or "closed" in found.evidence


@pytest.mark.parametrize(
    ("answer", "verdict", "words"),
    [
        (reply_with_usage(80, "marigold"), "yes", "70 tokens, and the model obeys"),
        (reply_with_usage(80, "Hi!"), "yes", "but the model answers 'Hi!'"),
        (reply_with_usage(12, "Hi!"), "no", "dropped without a word"),
        (rejection("System role not supported"), "no", "System role not supported"),
        (rejection("busy", 429), "unclear", "busy"),
        (reply_without_usage("marigold"), "yes", "tokens are not counted, and the model obeys"),
        (reply_without_usage("Hi!"), "unclear", "tokens are not counted, but the model answers"),
    ],
)
async def test_a_system_message_is_in_the_prompt_dropped_or_rejected(answer, verdict, words):
    found = await run_probe(probe_system_role, answer)

    assert verdict == found.verdict
    assert words in found.evidence


async def test_replies_are_not_streamed_if_only_unstreamed_ones_have_token_counts():
    whole = b'{"choices":[{"message":{"content":"Hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":%d}}'
    scripts = reply_without_usage("Hi"), Script((whole % 10,)), Script((whole % 80,))
    async with scripted_upstream(*scripts) as upstream, Upstream(upstream.url) as client:
        target = ProbeTarget(client, "m", get_backend("generic"))
        await probe_reply(target)
        usage = await probe_usage(target)
        found = await probe_system_role(target)

    assert ("no", "yes") == (usage.verdict, found.verdict)
    assert "70 tokens" in found.evidence
    assert [True, False, False] == [each.body["stream"] for each in upstream.requests]
    assert "stream_options" not in upstream.requests[2].body


async def test_replies_are_streamed_if_no_reply_has_token_counts():
    async with (
        scripted_upstream(reply_without_usage("Hi"), reply_without_usage("Hi")) as upstream,
        Upstream(upstream.url) as client,
    ):
        target = ProbeTarget(client, "m", get_backend("generic"))
        await probe_reply(target)

        assert "no usage in its stream" == (await probe_usage(target)).evidence
        assert target.streaming


async def test_concurrent_requests_that_abort_each_other_are_noticed():
    broken = Script((ROLE, text_chunk("He"), CUT))
    found = await run_probe(probe_concurrency, broken, reply_with_usage(10), broken)

    assert "no" == found.verdict
    assert found.evidence.startswith("2 of 3 concurrent requests failed")
    assert (
        "yes"
        == (
            await run_probe(probe_concurrency, reply_with_usage(10), reply_with_usage(10), reply_with_usage(10))
        ).verdict
    )


@pytest.mark.parametrize(
    ("begun", "as_user", "verdict"),
    [
        (reply_with_usage(20, " four, five"), reply_with_usage(20), "yes"),
        (reply_with_usage(25, " four, five"), reply_with_usage(20), "no"),
        (reply_with_usage(21, " four, five"), reply_with_usage(20), "yes"),
        (reply_with_usage(22, "Hm"), reply_with_usage(20), "unclear"),
        (rejection("the last message must be the user's"), reply_with_usage(20), "no"),
    ],
)
async def test_the_tokens_after_a_prefill_show_whether_the_turn_is_continued(begun, as_user, verdict):
    assert verdict == (await run_probe(probe_prefill, begun, as_user)).verdict


@pytest.mark.parametrize(
    ("answer", "verdict"),
    [
        (text_reply("H"), "yes"),
        (text_reply(TEXT), "no"),
        (text_reply("Something else"), "unclear"),
        (rejection("x"), "no"),
    ],
)
async def test_a_stop_string_is_taken_from_the_baseline_reply(answer, verdict):
    assert verdict == (await run_probe(probe_stop_strings, answer)).verdict


async def test_a_short_baseline_reply_has_no_stop_string():
    assert "unclear" == (await run_probe(probe_stop_strings, plain=text_reply("Hi"))).verdict


REASONING_CHUNK = event(choices=[{"index": 0, "delta": {"reasoning_content": "Let me see"}}])


@pytest.mark.parametrize(
    ("answer", "verdict", "value"),
    [
        (Script((ROLE, REASONING_CHUNK, *text_reply("42").pieces[1:])), "yes", "apart"),
        (text_reply("<think>", "17 + 25", "</think>", "42"), "yes", "text"),
        (text_reply("17 + 25 is", "</think>", "42"), "yes", {"open_reasoning_tag": "<think>"}),
        (text_reply("42"), "no", None),
        (rejection("no"), "unclear", None),
    ],
)
async def test_reasoning_is_in_its_own_field_in_the_text_or_after_an_open_tag(answer, verdict, value):
    found = await run_probe(probe_reasoning, answer)

    assert (verdict, value) == (found.verdict, found.value)


@pytest.mark.parametrize(
    ("answers", "verdict", "value"),
    [
        ((reply_with_usage(80), reply_with_usage(30)), "yes", None),
        ((reply_with_usage(31), reply_with_usage(30)), "no", None),
        ((reply_without_usage("Hi"), reply_without_usage("Hi")), "unclear", None),
        ((rejection("unknown field reasoning_content"),), "no", "refused"),
    ],
)
async def test_earlier_reasoning_is_in_the_prompt_dropped_or_rejected(answers, verdict, value):
    async def probe(target):
        target.emits_reasoning = True
        return await probe_reasoning_replay(target)

    found = await run_probe(probe, *answers)

    assert (verdict, value) == (found.verdict, found.value)


async def test_a_model_that_does_not_reason_is_not_probed_for_replay():
    assert await run_probe(probe_reasoning_replay) is None


async def test_images_that_add_no_tokens_are_not_in_the_prompt():
    assert "no" == (await run_probe(probe_images, reply_with_usage(11))).verdict
    assert "yes" == (await run_probe(probe_images, reply_with_usage(200))).verdict


OLLAMA_PS = Script((b'{"models":[{"name":"other","context_length":1},{"name":"m","context_length":8192}]}',))
LMSTUDIO_MODELS = Script((b'{"data":[{"id":"m","max_context_length":32768,"loaded_context_length":4096}]}',))


@pytest.mark.parametrize(
    ("server", "pages", "listed", "expected"),
    [
        ("llama-server", {"/props": Script((b'{"default_generation_settings":{"n_ctx":2048}}',))}, None, 2048),
        ("ollama", {"/api/ps": OLLAMA_PS}, None, 8192),
        ("lmstudio", {"/api/v0/models": LMSTUDIO_MODELS}, None, 4096),
        ("lmstudio", {"/api/v0/models": Script((b'{"data":[{"id":"m","max_context_length":9}]}',))}, None, None),
        ("llama-server", {}, {"data": [{"id": "m", "meta": {"n_ctx": 512, "n_ctx_train": 4096}}]}, 512),
        ("vllm", {}, {"data": [{"id": "m", "max_model_len": 131072}]}, 131072),
        ("llama-cpp-python", {}, {"data": [{"id": "m"}]}, None),
        ("generic", {}, {"data": [{"id": "a", "max_model_len": 1}, {"id": "b", "max_model_len": 2}]}, None),
        ("generic", {}, ["nonsense"], None),
    ],
)
async def test_the_context_length_is_read_from_a_page(server, pages, listed, expected):
    scripts = (Script((b"{}",)),) if server == "ollama" else ()
    found = await run_probe(probe_context_length, *scripts, backend=server, pages=pages, model_list=listed)

    assert expected == found.value


def test_every_probe_has_a_unique_name_and_title():
    assert len(PROBES) == len({probe.name for probe in PROBES}) == len({probe.title for probe in PROBES})
    assert all(probe.name.isidentifier() for probe in PROBES)
    assert {"probe", "title"} < set(Finding.__struct_fields__)


NONCE_CALL = '<function_call>\n{"name": "seal", "arguments": {"word": "fcshim-7391"}}\n</function_call>'
REASONED = Script((ROLE, REASONING_CHUNK, *text_reply(reason="length").pieces[1:]))
CALL = {
    "index": 0,
    "id": "c",
    "type": "function",
    "function": {"name": "get_weather", "arguments": '{"city": "Paris"}'},
}


@pytest.mark.parametrize(
    ("answer", "verdict", "words"),
    [
        (text_reply(NONCE_CALL), "yes", "it made the model write"),
        (text_reply("Hello."), "no", "accepted, and made no difference: 'Hello.'"),
        (rejection("grammar is not supported"), "no", "grammar is not supported"),
        (rejection("busy", 429), "unclear", "busy"),
        (REASONED, "unclear", "still reasoning"),
    ],
)
async def test_a_constraint_is_enforced_if_the_model_writes_the_nonce(answer, verdict, words):
    found = await run_probe(probe_grammar, answer)

    assert verdict == found.verdict
    assert words in found.evidence


def reply_with_call(tokens: int) -> Script:
    called = event(choices=[{"index": 0, "delta": {"tool_calls": [CALL]}}])
    return Script((ROLE, called, *reply_with_usage(tokens).pieces[1:]))


@pytest.mark.parametrize(
    ("answers", "verdict", "value"),
    [
        ([reply_with_call(90)], "yes", "auto"),
        ([rejection("tools param requires --jinja flag", 500)], "no", None),
        ([reply_with_usage(30, "Sunny"), reply_with_usage(30)], "no", "ignored"),
        (
            [reply_with_usage(90, '{"name": "get_weather", "arguments": {"city": "Paris"}}'), reply_with_usage(30)],
            "no",
            "text",
        ),
        ([reply_with_usage(90, "Sunny"), reply_with_usage(30), reply_with_call(90)], "unclear", "required"),
        ([reply_with_usage(90, "Sunny"), reply_with_usage(30), reply_with_usage(90, "Sunny")], "unclear", None),
        ([reply_without_usage("Sunny"), reply_without_usage(), reply_without_usage("Sunny")], "unclear", None),
    ],
)
async def test_native_tools_are_called_ignored_called_in_the_text_or_rejected(answers, verdict, value):
    found = await run_probe(probe_tools, *answers)

    assert (verdict, value) == (found.verdict, found.value)


@pytest.mark.parametrize(
    ("answer", "verdict", "words"),
    [
        (reply_with_call(90), "no", "no tools were sent, yet it answered with a call: get_weather"),
        (
            text_reply('<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n</tool_call>'),
            "yes",
            "a call stayed in the text",
        ),
        (text_reply("I cannot call tools."), "unclear", "no call came, but 'I cannot call tools.'"),
        (rejection("busy", 429), "unclear", "busy"),
    ],
)
async def test_a_server_that_parses_calls_without_tools_is_found(answer, verdict, words):
    found = await run_probe(probe_text_calls, answer)

    assert verdict == found.verdict
    assert words in found.evidence
    assert (verdict == "no") == ("checks such calls" in found.means)
