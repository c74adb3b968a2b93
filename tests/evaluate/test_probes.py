"""Probes against what servers send on the wire, flaws included; the engine tests have real servers."""

import pytest

from fcshim.backends import get_backend
from fcshim.evaluate.finding import Finding
from fcshim.evaluate.probes import PROBES, run_probes
from fcshim.evaluate.probes_calls import probe_grammar, probe_tools
from fcshim.evaluate.probes_prompt import probe_context_length, probe_images, probe_prefill, probe_system_role
from fcshim.evaluate.probes_reasoning import probe_reasoning, probe_reasoning_replay
from fcshim.evaluate.probes_reply import probe_concurrency, probe_reply, probe_stop_strings, probe_stream, probe_usage
from fcshim.evaluate.target import ProbeTarget, assistant_message, user_message
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
    """Ask the simple question, which `plain` answers, then make the probe."""
    first = plain or reply_with_usage(10, *TEXT)
    async with scripted_upstream(first, *scripts, pages=pages) as upstream, Upstream(upstream.url) as asked:
        patient = ProbeTarget(asked, "m", get_backend(backend), model_list)
        opening = await probe_reply(patient)
        return opening if probe is probe_reply else await probe(patient)


async def test_an_endpoint_that_refuses_sampling_is_asked_without_from_then_on():
    scripts = rejection("temperature is not supported"), text_reply("Hi"), text_reply("Hi")
    async with scripted_upstream(*scripts) as upstream, Upstream(upstream.url) as asked:
        patient = ProbeTarget(asked, "m", get_backend("generic"))
        found = await probe_reply(patient)
        await patient.send(patient.make_request(user_message("x"), assistant_message("y"), max_tokens=1))

    assert "yes" == found.verdict
    assert ["temperature" in asked.body for asked in upstream.requests] == [True, False, False]


async def test_without_a_reply_nothing_else_is_asked():
    async with scripted_upstream(rejection("no"), rejection("no")) as upstream, Upstream(upstream.url) as asked:
        findings = [finding async for finding in run_probes(ProbeTarget(asked, "m", get_backend("generic")))]

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
async def test_what_is_wrong_with_a_stream_is_named(plain, expected):
    found = await run_probe(probe_stream, plain=plain)

    assert expected == (found.value or [])
    assert ("no" if expected else "yes") == found.verdict


@pytest.mark.parametrize(
    "broken", [Script((ROLE, text_chunk("He"), CUT)), Script((ROLE, text_chunk("He"), b"data: [DONE]\n\n"))]
)
async def test_a_stream_that_never_says_that_it_is_complete_is_no_reply(broken):
    found = await run_probe(probe_reply, broken, plain=broken)

    assert ("no", True) == (found.verdict, found.fatal)
    assert "broke off" in found.evidence or "closed" in found.evidence


@pytest.mark.parametrize(
    ("answer", "verdict", "words"),
    [
        (reply_with_usage(80, "marigold"), "yes", "70 tokens, and the model does"),
        (reply_with_usage(80, "Hi!"), "yes", "but the model answers 'Hi!'"),
        (reply_with_usage(12, "Hi!"), "no", "dropped without a word"),
        (rejection("System role not supported"), "no", "System role not supported"),
        (rejection("busy", 429), "unclear", "busy"),
        (reply_without_usage("marigold"), "yes", "nobody counts tokens, and the model does"),
        (reply_without_usage("Hi!"), "unclear", "nobody counts tokens, but the model answers"),
    ],
)
async def test_a_system_message_is_there_dropped_or_refused(answer, verdict, words):
    found = await run_probe(probe_system_role, answer)

    assert verdict == found.verdict
    assert words in found.evidence


async def test_where_only_whole_replies_are_counted_they_are_asked_for():
    whole = b'{"choices":[{"message":{"content":"Hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":%d}}'
    scripts = reply_without_usage("Hi"), Script((whole % 10,)), Script((whole % 80,))
    async with scripted_upstream(*scripts) as upstream, Upstream(upstream.url) as asked:
        patient = ProbeTarget(asked, "m", get_backend("generic"))
        await probe_reply(patient)
        counted_so = await probe_usage(patient)
        found = await probe_system_role(patient)

    assert ("no", "yes") == (counted_so.verdict, found.verdict)
    assert "70 tokens" in found.evidence
    assert [True, False, False] == [each.body["stream"] for each in upstream.requests]
    assert "stream_options" not in upstream.requests[2].body


async def test_where_nothing_is_counted_streams_are_asked_for():
    async with (
        scripted_upstream(reply_without_usage("Hi"), reply_without_usage("Hi")) as upstream,
        Upstream(upstream.url) as asked,
    ):
        patient = ProbeTarget(asked, "m", get_backend("generic"))
        await probe_reply(patient)

        assert "no usage in its stream" == (await probe_usage(patient)).evidence
        assert patient.streaming


async def test_requests_that_break_one_another_off_are_noticed():
    broken = Script((ROLE, text_chunk("He"), CUT))
    found = await run_probe(probe_concurrency, broken, reply_with_usage(10), broken)

    assert "no" == found.verdict
    assert found.evidence.startswith("of 3 requests at once 2 failed")
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
async def test_whether_a_turn_is_continued_is_told_by_the_tokens_around_it(begun, as_user, verdict):
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
async def test_a_stop_string_is_taken_from_the_models_own_words(answer, verdict):
    assert verdict == (await run_probe(probe_stop_strings, answer)).verdict


async def test_a_word_is_too_short_to_be_stopped():
    assert "unclear" == (await run_probe(probe_stop_strings, plain=text_reply("Hi"))).verdict


REASONING_CHUNK = event(choices=[{"index": 0, "delta": {"reasoning_content": "Let me see"}}])


@pytest.mark.parametrize(
    ("answer", "verdict", "value"),
    [
        (Script((ROLE, REASONING_CHUNK, *text_reply("42").pieces[1:])), "yes", "apart"),
        (text_reply("<think>", "17 + 25", "</think>", "42"), "yes", "text"),
        (text_reply("17 + 25 is", "</think>", "42"), "yes", {"in_reasoning": "<think>"}),
        (text_reply("42"), "no", None),
        (rejection("no"), "unclear", None),
    ],
)
async def test_reasoning_is_apart_in_the_text_or_in_a_tag_that_is_open_already(answer, verdict, value):
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
async def test_earlier_reasoning_is_there_again_dropped_or_refused(answers, verdict, value):
    async def probe(patient):
        patient.reasons = True
        return await probe_reasoning_replay(patient)

    found = await run_probe(probe, *answers)

    assert (verdict, value) == (found.verdict, found.value)


async def test_a_model_that_does_not_reason_is_not_asked_about_its_reasoning():
    assert await run_probe(probe_reasoning_replay) is None


async def test_images_that_are_accepted_and_not_counted_were_not_seen():
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
async def test_how_long_a_conversation_may_be_stands_on_a_page(server, pages, listed, expected):
    scripts = (Script((b"{}",)),) if server == "ollama" else ()
    found = await run_probe(probe_context_length, *scripts, backend=server, pages=pages, model_list=listed)

    assert expected == found.value


def test_every_probe_has_a_name_of_its_own():
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
async def test_a_constraint_is_one_where_the_model_writes_what_nobody_asked_for(answer, verdict, words):
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
async def test_tools_of_its_own_are_called_ignored_left_in_the_text_or_refused(answers, verdict, value):
    found = await run_probe(probe_tools, *answers)

    assert (verdict, value) == (found.verdict, found.value)
