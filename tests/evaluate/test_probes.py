"""Probes against what servers send on the wire, flaws included; the engine tests have real servers."""

import pytest

from fcshim.evaluate.finding import Finding
from fcshim.evaluate.patient import Patient, assistant, user
from fcshim.evaluate.probes import PROBES, examine
from fcshim.evaluate.probes_calls import has_tools, takes_grammar
from fcshim.evaluate.probes_prompt import continues, has_room, takes_images, takes_system
from fcshim.evaluate.probes_reasoning import reasons, sees_reasoning_again
from fcshim.evaluate.probes_reply import bears_company, counts_tokens, replies, stops, streams_cleanly
from fcshim.backends import get_backend
from fcshim.upstream import Upstream
from tests.scripted import CUT, ROLE, Script, text_reply, event, text_chunk, scripted_upstream

TEXT = "Hello there, good day to you and to your garden."


def counted(tokens: int, *texts: str, answered: int = 9) -> Script:
    usage = {"prompt_tokens": tokens, "completion_tokens": answered, "total_tokens": tokens + answered}
    finish = event(choices=[{"index": 0, "delta": {}, "finish_reason": "stop"}])
    return Script((ROLE, *map(text_chunk, texts), finish, event(choices=[], usage=usage), b"data: [DONE]\n\n"))


def uncounted(*texts: str) -> Script:
    finish = event(choices=[{"index": 0, "delta": {}, "finish_reason": "stop"}])
    return Script((ROLE, *map(text_chunk, texts), finish, b"data: [DONE]\n\n"))


def refusing(message: str, status: int = 400) -> Script:
    return Script((f'{{"error":{{"message":"{message}"}}}}'.encode(),), status)


async def seen(probe, *scripts, plain=None, server="generic", listed=None, pages=None):
    """Ask the simple question, which `plain` answers, then make the probe."""
    first = plain or counted(10, *TEXT)
    async with scripted_upstream(first, *scripts, pages=pages) as upstream, Upstream(upstream.url) as asked:
        patient = Patient(asked, "m", get_backend(server), listed)
        opening = await replies(patient)
        return opening if probe is replies else await probe(patient)


async def test_an_endpoint_that_refuses_sampling_is_asked_without_from_then_on():
    scripts = refusing("temperature is not supported"), text_reply("Hi"), text_reply("Hi")
    async with scripted_upstream(*scripts) as upstream, Upstream(upstream.url) as asked:
        patient = Patient(asked, "m", get_backend("generic"))
        found = await replies(patient)
        await patient.ask(patient.request(user("x"), assistant("y"), max_tokens=1))

    assert "yes" == found.verdict
    assert ["temperature" in asked.body for asked in upstream.requests] == [True, False, False]


async def test_without_a_reply_nothing_else_is_asked():
    async with scripted_upstream(refusing("no"), refusing("no")) as upstream, Upstream(upstream.url) as asked:
        findings = [finding async for finding in examine(Patient(asked, "m", get_backend("generic")))]

    assert [("reply", "no", True)] == [(each.probe, each.verdict, each.fatal) for each in findings]


@pytest.mark.parametrize(
    ("plain", "expected"),
    [
        (counted(10, *TEXT), []),
        (Script((*(part.replace(b"\n", b"\r\n") for part in counted(10, *TEXT).pieces),)), ["its lines end with CRLF"]),
        (Script(counted(10, *TEXT).pieces[:-1]), ["no [DONE] at its end"]),
        (counted(10, TEXT), ["all text came at once, at the end"]),
        (
            Script((b'{"choices":[{"message":{"content":"Hello"},"finish_reason":"stop"}]}',)),
            ["the reply came as one JSON document instead of a stream"],
        ),
        (
            Script(
                (
                    *(event(choices=[{"index": 0, "delta": {"role": "assistant", "content": c}}]) for c in TEXT),
                    *counted(10).pieces[1:],
                )
            ),
            ["the role comes with every chunk"],
        ),
    ],
)
async def test_what_is_wrong_with_a_stream_is_named(plain, expected):
    found = await seen(streams_cleanly, plain=plain)

    assert expected == (found.value or [])
    assert ("no" if expected else "yes") == found.verdict


@pytest.mark.parametrize("broken", [Script((ROLE, text_chunk("He"), CUT)), Script((ROLE, text_chunk("He"), b"data: [DONE]\n\n"))])
async def test_a_stream_that_never_says_that_it_is_complete_is_no_reply(broken):
    found = await seen(replies, broken, plain=broken)

    assert ("no", True) == (found.verdict, found.fatal)
    assert "broke off" in found.evidence or "closed" in found.evidence


@pytest.mark.parametrize(
    ("answer", "verdict", "words"),
    [
        (counted(80, "marigold"), "yes", "70 tokens, and the model does"),
        (counted(80, "Hi!"), "yes", "but the model answers 'Hi!'"),
        (counted(12, "Hi!"), "no", "dropped without a word"),
        (refusing("System role not supported"), "no", "System role not supported"),
        (refusing("busy", 429), "unclear", "busy"),
        (uncounted("marigold"), "yes", "nobody counts tokens, and the model does"),
        (uncounted("Hi!"), "unclear", "nobody counts tokens, but the model answers"),
    ],
)
async def test_a_system_message_is_there_dropped_or_refused(answer, verdict, words):
    found = await seen(takes_system, answer)

    assert verdict == found.verdict
    assert words in found.evidence


async def test_where_only_whole_replies_are_counted_they_are_asked_for():
    whole = b'{"choices":[{"message":{"content":"Hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":%d}}'
    scripts = uncounted("Hi"), Script((whole % 10,)), Script((whole % 80,))
    async with scripted_upstream(*scripts) as upstream, Upstream(upstream.url) as asked:
        patient = Patient(asked, "m", get_backend("generic"))
        await replies(patient)
        counted_so = await counts_tokens(patient)
        found = await takes_system(patient)

    assert ("no", "yes") == (counted_so.verdict, found.verdict)
    assert "70 tokens" in found.evidence
    assert [True, False, False] == [each.body["stream"] for each in upstream.requests]
    assert "stream_options" not in upstream.requests[2].body


async def test_where_nothing_is_counted_streams_are_asked_for():
    async with scripted_upstream(uncounted("Hi"), uncounted("Hi")) as upstream, Upstream(upstream.url) as asked:
        patient = Patient(asked, "m", get_backend("generic"))
        await replies(patient)

        assert "no usage in its stream" == (await counts_tokens(patient)).evidence
        assert patient.streams


async def test_requests_that_break_one_another_off_are_noticed():
    broken = Script((ROLE, text_chunk("He"), CUT))
    found = await seen(bears_company, broken, counted(10), broken)

    assert "no" == found.verdict
    assert found.evidence.startswith("of 3 requests at once 2 failed")
    assert "yes" == (await seen(bears_company, counted(10), counted(10), counted(10))).verdict


@pytest.mark.parametrize(
    ("begun", "as_user", "verdict"),
    [
        (counted(20, " four, five"), counted(20), "yes"),
        (counted(25, " four, five"), counted(20), "no"),
        (counted(21, " four, five"), counted(20), "yes"),
        (counted(22, "Hm"), counted(20), "unclear"),
        (refusing("the last message must be the user's"), counted(20), "no"),
    ],
)
async def test_whether_a_turn_is_continued_is_told_by_the_tokens_around_it(begun, as_user, verdict):
    assert verdict == (await seen(continues, begun, as_user)).verdict


@pytest.mark.parametrize(
    ("answer", "verdict"),
    [(text_reply("H"), "yes"), (text_reply(TEXT), "no"), (text_reply("Something else"), "unclear"), (refusing("x"), "no")],
)
async def test_a_stop_string_is_taken_from_the_models_own_words(answer, verdict):
    assert verdict == (await seen(stops, answer)).verdict


async def test_a_word_is_too_short_to_be_stopped():
    assert "unclear" == (await seen(stops, plain=text_reply("Hi"))).verdict


THOUGHT = event(choices=[{"index": 0, "delta": {"reasoning_content": "Let me see"}}])


@pytest.mark.parametrize(
    ("answer", "verdict", "value"),
    [
        (Script((ROLE, THOUGHT, *text_reply("42").pieces[1:])), "yes", "apart"),
        (text_reply("<think>", "17 + 25", "</think>", "42"), "yes", "text"),
        (text_reply("17 + 25 is", "</think>", "42"), "yes", {"in_reasoning": "<think>"}),
        (text_reply("42"), "no", None),
        (refusing("no"), "unclear", None),
    ],
)
async def test_reasoning_is_apart_in_the_text_or_in_a_tag_that_is_open_already(answer, verdict, value):
    found = await seen(reasons, answer)

    assert (verdict, value) == (found.verdict, found.value)


@pytest.mark.parametrize(
    ("answers", "verdict", "value"),
    [
        ((counted(80), counted(30)), "yes", None),
        ((counted(31), counted(30)), "no", None),
        ((uncounted("Hi"), uncounted("Hi")), "unclear", None),
        ((refusing("unknown field reasoning_content"),), "no", "refused"),
    ],
)
async def test_earlier_reasoning_is_there_again_dropped_or_refused(answers, verdict, value):
    async def probe(patient):
        patient.reasons = True
        return await sees_reasoning_again(patient)

    found = await seen(probe, *answers)

    assert (verdict, value) == (found.verdict, found.value)


async def test_a_model_that_does_not_reason_is_not_asked_about_its_reasoning():
    assert await seen(sees_reasoning_again) is None


async def test_images_that_are_accepted_and_not_counted_were_not_seen():
    assert "no" == (await seen(takes_images, counted(11))).verdict
    assert "yes" == (await seen(takes_images, counted(200))).verdict


PS = Script((b'{"models":[{"name":"other","context_length":1},{"name":"m","context_length":8192}]}',))
STUDIO = Script((b'{"data":[{"id":"m","max_context_length":32768,"loaded_context_length":4096}]}',))


@pytest.mark.parametrize(
    ("server", "pages", "listed", "expected"),
    [
        ("llama-server", {"/props": Script((b'{"default_generation_settings":{"n_ctx":2048}}',))}, None, 2048),
        ("ollama", {"/api/ps": PS}, None, 8192),
        ("lmstudio", {"/api/v0/models": STUDIO}, None, 4096),
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
    found = await seen(has_room, *scripts, server=server, pages=pages, listed=listed)

    assert expected == found.value


def test_every_probe_has_a_name_of_its_own():
    assert len(PROBES) == len({probe.name for probe in PROBES}) == len({probe.title for probe in PROBES})
    assert all(probe.name.isidentifier() for probe in PROBES)
    assert {"probe", "title"} < set(Finding.__struct_fields__)


SEAL = '<function_call>\n{"name": "seal", "arguments": {"word": "fcshim-7391"}}\n</function_call>'
REASONED = Script((ROLE, THOUGHT, *text_reply(reason="length").pieces[1:]))
CALL = {
    "index": 0,
    "id": "c",
    "type": "function",
    "function": {"name": "get_weather", "arguments": '{"city": "Paris"}'},
}


@pytest.mark.parametrize(
    ("answer", "verdict", "words"),
    [
        (text_reply(SEAL), "yes", "it made the model write"),
        (text_reply("Hello."), "no", "accepted, and made no difference: 'Hello.'"),
        (refusing("grammar is not supported"), "no", "grammar is not supported"),
        (refusing("busy", 429), "unclear", "busy"),
        (REASONED, "unclear", "still reasoning"),
    ],
)
async def test_a_constraint_is_one_where_the_model_writes_what_nobody_asked_for(answer, verdict, words):
    found = await seen(takes_grammar, answer)

    assert verdict == found.verdict
    assert words in found.evidence


def calling(tokens: int) -> Script:
    called = event(choices=[{"index": 0, "delta": {"tool_calls": [CALL]}}])
    return Script((ROLE, called, *counted(tokens).pieces[1:]))


@pytest.mark.parametrize(
    ("answers", "verdict", "value"),
    [
        ([calling(90)], "yes", "auto"),
        ([refusing("tools param requires --jinja flag", 500)], "no", None),
        ([counted(30, "Sunny"), counted(30)], "no", "ignored"),
        ([counted(90, '{"name": "get_weather", "arguments": {"city": "Paris"}}'), counted(30)], "no", "text"),
        ([counted(90, "Sunny"), counted(30), calling(90)], "unclear", "required"),
        ([counted(90, "Sunny"), counted(30), counted(90, "Sunny")], "unclear", None),
        ([uncounted("Sunny"), uncounted(), uncounted("Sunny")], "unclear", None),
    ],
)
async def test_tools_of_its_own_are_called_ignored_left_in_the_text_or_refused(answers, verdict, value):
    found = await seen(has_tools, *answers)

    assert (verdict, value) == (found.verdict, found.value)
