"""Retries: what the client sees of defective replies, and what the model is sent then."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fcshim.errors import UpstreamError
from fcshim.events import Error, Reasoning, Text, ToolCallEnd, Usage
from fcshim.messages import AUTO
from fcshim.parse.stream import StreamParser
from fcshim.pipeline.backends import GENERIC, OFF, get_backend
from fcshim.reply import fold
from tests.parse.laws import normalise
from tests.pipeline.driver import ADD, REQUIRED, call, drive, new_exchange, reply
from tests.scripted import end_chunks, event, text_chunk

GOOD = call()
UNKNOWN = call("subtract")
SENTENCE = "The model called the tool 'subtract', which is not offered."
TWICE = call(arguments='{"a": 1, "a": 2}')
UNREADABLE = '<function_call>\n{"label": "add"}\n</function_call>'
WRONG = call(arguments='{"b": 1}')
BAD = [UNKNOWN, UNREADABLE, TWICE]


def folded(result):
    return fold(result.events)


def arguments(reply):
    return [(each.tool_call_name, each.tool_call_arguments_complete) for each in reply.tool_calls]


@pytest.mark.parametrize("bad", BAD)
def test_a_defective_call_is_retried_and_never_sent(bad):
    result = drive(new_exchange(), reply("Well. ", bad, " Done."), reply(GOOD))

    assert "Well. " == folded(result).text
    assert [("add", '{"a": 1}')] == arguments(folded(result))
    assert "tool_use" == folded(result).stop_reason
    assert Usage(20, 10) == folded(result).usage


@pytest.mark.parametrize(
    ("bad", "correction"),
    [
        (UNKNOWN, 'There is no function named "subtract".\nThe functions are: add, send.'),
        (UNREADABLE, "Your call could not be read."),
        (TWICE, "Your call of \"add\" was not accepted: the key 'a' comes twice"),
    ],
)
def test_the_retry_has_the_reply_and_a_turn_with_its_defect(bad, correction):
    result = drive(new_exchange(), reply("Well. ", bad), reply(GOOD))
    first, second = (body["messages"] for body in result.sent)

    assert first == second[: len(first)]
    assert ["assistant", "user"] == [each["role"] for each in second[len(first) :]]
    assert "Well. " + bad == second[-2]["content"]
    assert correction in second[-1]["content"]
    assert '{"name": "<function name>", "arguments": {"<parameter>": "<value>"}}' in second[-1]["content"]


def test_a_missing_required_call_is_retried():
    result = drive(new_exchange(tool_choice=REQUIRED), reply("I would", " rather not."), reply("Oh. ", GOOD))

    assert [[], [], [], []] == result.reads[:4]
    assert ("", "tool_use") == (folded(result).text, folded(result).stop_reason)
    assert [("add", '{"a": 1}')] == arguments(folded(result))
    assert "You had to call a function" in result.sent[1]["messages"][-1]["content"]


def test_text_before_a_required_call_comes_with_the_call():
    result = drive(new_exchange(tool_choice=REQUIRED), reply("So: ", GOOD, " ."))

    assert [] == result.reads[0]
    assert Text("So: ") == result.reads[1][0]
    assert "So: " == folded(result).text.strip(" .") + " "


def test_nothing_is_held_back_without_a_defect():
    result = drive(new_exchange(), reply("one ", "two ", GOOD, "three"))

    assert [[Text("one ")], [Text("two ")]] == result.reads[:2]
    assert 1 == len(result.sent)


@pytest.mark.parametrize("bad", BAD)
def test_a_retry_with_the_same_defect_leaves_the_first_reply(bad):
    without_retry = fold(drive(new_exchange(max_retries=0), reply("Well. ", bad, " Done.")).events)
    result = folded(drive(new_exchange(), reply("Well. ", bad, " Done."), reply("Sorry, again: ", bad)))

    assert (without_retry.text, without_retry.stop_reason) == (result.text, result.stop_reason)
    assert [each.error for each in without_retry.tool_calls] == [each.error for each in result.tool_calls]


def test_a_tool_that_does_not_exist_may_end_in_an_answer():
    result = drive(new_exchange(), reply("Let me see.", UNKNOWN), reply("I cannot", " do that."))

    assert ("Let me see.\n\nI cannot do that.", "complete") == (folded(result).text, folded(result).stop_reason)


def test_valid_calls_pass_at_once_and_only_the_others_are_retried():
    result = drive(new_exchange(), reply(UNKNOWN, "\n", GOOD), reply(call("send", '{"text": "x"}')))

    assert [("add", '{"a": 1}'), ("send", '{"text": "x"}')] == arguments(folded(result))
    assert [0, 1] == [each.index for each in folded(result).tool_calls]
    assert any(isinstance(each, ToolCallEnd) for each in result.reads[2])
    assert 'do not repeat them:\n- add {"a": 1}' in result.sent[1]["messages"][-1]["content"]


def test_an_accepted_call_that_the_retry_repeats_is_dropped():
    result = drive(new_exchange(), reply(GOOD, UNKNOWN), reply(call(arguments='{"a":1}'), call(arguments='{"a": 2}')))

    assert [("add", '{"a": 1}'), ("add", '{"a": 2}')] == arguments(folded(result))


@pytest.mark.parametrize("buffered", [True, False])
@pytest.mark.parametrize("backend", [GENERIC, get_backend("llama-server")])
@pytest.mark.parametrize("size", [18, 28, 36, 50, 52])
def test_a_call_that_was_begun_again_is_not_asked_for(size, backend, buffered):
    exchange = new_exchange(buffered=buffered, backend=backend)
    result = drive(exchange, reply("Well. ", GOOD[:size], "\n" + GOOD, " Done."), backend=backend)
    good = [end for end in folded(result).tool_calls if end.error is None]

    assert 1 == len(result.sent)
    assert [("add", '{"a": 1}')] == [(end.tool_call_name, end.tool_call_arguments_complete) for end in good]
    assert "Well. " == folded(result).text.removesuffix(" Done.")
    assert "tool_use" == folded(result).stop_reason


@pytest.mark.parametrize("buffered", [True, False])
@pytest.mark.parametrize("sizes", [(50, 52), (18, 50), (50, 18), (18, 18), (28, 18)])
def test_a_call_that_was_begun_again_twice_is_not_asked_for(sizes, buffered):
    said = "\n".join([*(GOOD[:size] for size in sizes), GOOD])
    result = drive(new_exchange(buffered=buffered), reply("Well. ", said))
    good = [end for end in folded(result).tool_calls if end.error is None]

    assert 1 == len(result.sent)
    assert "Well. " == folded(result).text
    assert [("add", '{"a": 1}')] == [(end.tool_call_name, end.tool_call_arguments_complete) for end in good]


@pytest.mark.parametrize("buffered", [True, False])
@pytest.mark.parametrize(
    "said", [f"{GOOD[:50]}\n{call('send', '{}')}", f"{GOOD[:50]}\n{UNKNOWN}", f"{GOOD[:28]}\n{UNKNOWN}"]
)
def test_a_call_that_was_begun_again_and_is_defective_is_asked_for(said, buffered):
    result = drive(new_exchange(buffered=buffered), reply(said), reply(call("add", '{"a": 2}')))
    good = [end for end in folded(result).tool_calls if end.error is None]

    assert 2 == len(result.sent)
    assert [("add", '{"a": 2}')] == [(end.tool_call_name, end.tool_call_arguments_complete) for end in good]


@pytest.mark.parametrize("buffered", [True, False])
def test_another_call_does_not_replace_one_that_broke_off(buffered):
    said = f"{call('send', '{')[:50]}\n{GOOD}"
    result = drive(new_exchange(buffered=buffered), reply(said), reply(call("send", '{"text": "x"}')))

    assert 2 == len(result.sent)
    assert {"add", "send"} == {end.tool_call_name for end in folded(result).tool_calls if end.error is None}


def test_a_call_whose_start_was_sent_ends_with_its_error():
    pieces = ('<function_call>\n{"name": "add", "arguments": {"a": ', "1, ", '"a": 2}}\n</function_call>')
    result = drive(new_exchange(), reply(*pieces))

    assert ["malformed"] == [each.error.kind for each in folded(result).tool_calls if each.error]


def test_in_a_buffered_reply_such_a_call_is_replaced():
    pieces = ('<function_call>\n{"name": "add", "arguments": {"a": ', "1, ", '"a": 2}}\n</function_call>')
    result = drive(new_exchange(buffered=True), reply(*pieces), reply(GOOD))

    assert [("add", '{"a": 1}')] == arguments(folded(result))


def test_in_a_buffered_reply_a_schema_violation_is_retried():
    result = drive(new_exchange(buffered=True), reply(WRONG), reply(GOOD))

    assert [("add", '{"a": 1}')] == arguments(folded(result))
    assert "'a' is a required property" in result.sent[1]["messages"][-1]["content"]


@pytest.mark.parametrize("said", ["%s", "```json\n%s\n```"])
def test_in_a_stream_a_schema_violation_of_a_call_without_tags_is_retried(said):
    pieces = list(said % '{"name": "add", "arguments": {"a": "one"}}')

    assert [("add", '{"a": 1}')] == arguments(folded(drive(new_exchange(), reply(*pieces), reply(GOOD))))


def test_arguments_that_violate_the_schema_twice_are_accepted_as_without_retries():
    result = folded(drive(new_exchange(buffered=True), reply(WRONG), reply(WRONG)))

    assert [("add", '{"b": 1}')] == arguments(result)
    assert (None, "tool_use") == (result.tool_calls[0].error, result.stop_reason)


@pytest.mark.parametrize("size", [1, 5, 999])
@pytest.mark.parametrize("buffered", [True, False])
@pytest.mark.parametrize("max_retries", [1, 2])
@pytest.mark.parametrize("backend", [GENERIC, get_backend("llama-server")])
def test_arguments_that_violate_the_schema_to_the_end_may_be_an_error(backend, max_retries, buffered, size):
    exchange = new_exchange(buffered=buffered, invalid_calls="error", max_retries=max_retries, backend=backend)
    wrong = reply(*[WRONG[at : at + size] for at in range(0, len(WRONG), size)])
    result = folded(drive(exchange, *[wrong] * (max_retries + 1), backend=backend, spare=True))

    assert result.tool_calls
    assert {"invalid"} == {made.error.kind for made in result.tool_calls if made.error is not None}
    assert all(made.error is not None for made in result.tool_calls)
    assert "complete" == result.stop_reason


def test_a_valid_call_of_the_retry_stands_where_invalid_ones_are_errors():
    exchange = new_exchange(buffered=True, invalid_calls="error")

    assert [("add", '{"a": 1}')] == arguments(folded(drive(exchange, reply(WRONG), reply(GOOD))))


def test_calls_of_a_buffered_reply_keep_their_order_if_the_retry_fails():
    first = reply(WRONG, GOOD, call("send", '{"text": "x"}'))
    without_retry = folded(drive(new_exchange(max_retries=0), first))
    result = folded(drive(new_exchange(buffered=True), first, reply("No.")))

    assert arguments(without_retry) == arguments(result)
    assert [0, 1, 2] == [each.index for each in result.tool_calls]


def test_validated_calls_that_fail_twice_end_with_their_error():
    result = folded(drive(new_exchange(arguments="validated"), reply(WRONG), reply(WRONG)))

    assert ["invalid"] == [each.error.kind for each in result.tool_calls if each.error]


def test_the_model_is_asked_again_up_to_max_retries_times():
    result = drive(new_exchange(max_retries=3), reply(UNKNOWN), reply(TWICE), reply(UNREADABLE), reply(GOOD))

    assert [("add", '{"a": 1}')] == arguments(folded(result))
    assert Usage(40, 20) == folded(result).usage
    assert result.sent[2]["messages"] == result.sent[3]["messages"][:-2]


@pytest.mark.parametrize("reason", ["length", "content_filter"])
def test_a_truncated_reply_is_not_retried(reason):
    result = drive(new_exchange(), reply(UNKNOWN, reason=reason))

    assert 1 == len(result.sent)
    assert SENTENCE == folded(result).text


def test_without_parallel_calls_an_accepted_call_ends_the_retries():
    result = drive(new_exchange(parallel_tool_calls=False), reply(UNKNOWN, GOOD))

    assert [("add", '{"a": 1}')] == arguments(folded(result))
    assert "" == folded(result).text


SUM = '{"name": "add", "arguments": {"a": 1 + 2}}'


@pytest.mark.parametrize(
    "quoted",
    [
        f"`{UNKNOWN}`",
        f"```\n{UNKNOWN}\n```\nlike this",
        "Use <function_call> for calls.",
        '{"name": "x"}',
        f"{SUM}\n\nadds two numbers.",
        f"```json\n{SUM}\n```\nadds two numbers.",
        f"`{SUM}`",
        SUM.replace("1 + 2", "<a number>"),
        SUM.replace("1 + 2", "..."),
        SUM.replace("1 + 2", '1 + 2, "b": "<b>"'),
        SUM.replace("1 + 2", "1 + 2, ..."),
        f"<tools>\n{SUM.replace('1 + 2', '<a number>')}\n</tools>",
        SUM.replace("1 + 2}", '1, "type": "object", "properties": {"a": {"type": "integer"}}}'),
    ],
)
def test_a_quoted_or_mentioned_call_is_no_defect(quoted):
    result = drive(new_exchange(), reply(quoted))

    assert quoted == folded(result).text


def test_a_long_reply_is_neither_retried_nor_held_back():
    long = "x" * 40_000
    result = drive(new_exchange(), reply(UNKNOWN, long, long, "end"))

    assert 1 == len(result.sent)
    assert f"{SENTENCE}\n\n" + long + long + "end" == folded(result).text
    assert [Text("end")] == result.reads[3]


def test_a_retry_without_end_is_stopped_and_the_first_reply_stands():
    exchange = new_exchange()
    result = drive(exchange, reply(UNKNOWN), reply("x" * 70_000, "never read"))

    assert exchange.finished
    assert (SENTENCE, "complete") == (folded(result).text, folded(result).stop_reason)


def test_reasoning_of_a_retry_is_not_sent_with_its_call():
    result = drive(new_exchange(), reply("<think>a</think>", UNKNOWN), reply("<think>b</think>", GOOD))

    assert [Reasoning("a")] == [each for each in result.events if isinstance(each, Reasoning)]


def test_a_blank_reply_adds_no_turn_to_the_retry():
    result = drive(new_exchange(tool_choice=REQUIRED), reply(" \n"), reply(GOOD))
    first, second = (body["messages"] for body in result.sent)

    assert len(first) == len(second)
    assert second[-1]["content"].startswith(first[-1]["content"] + "\n\n")


def test_markers_in_the_defect_are_escaped_in_the_retry():
    result = drive(new_exchange(), reply(call("</function_call>x")), reply(GOOD))

    assert "<_/function_call>" not in result.sent[1]["messages"][-2]["content"]
    assert 'named "<_/function_call>x"' in result.sent[1]["messages"][-1]["content"]


def in_the_retry(first):
    """Return an exchange whose first attempt was `first` and whose retry has begun, and the events so far."""
    exchange = new_exchange()
    result = [each for _, each in [*exchange.feed(text_chunk(first)), *exchange.feed(end_chunks()), *exchange.close()]]
    exchange.retry()
    return exchange, result


def test_an_upstream_that_fails_in_the_first_attempt_is_an_error_after_the_buffered_text():
    exchange = new_exchange()
    result = fold(each for _, each in [*exchange.feed(text_chunk(UNKNOWN)), *exchange.fail(UpstreamError("lost"))])

    assert (SENTENCE, None, Error("upstream_error", "lost")) == (result.text, result.stop_reason, result.error)


def test_an_upstream_that_fails_in_a_retry_is_not_reported():
    exchange, result = in_the_retry(UNKNOWN)
    result += [each for _, each in [*exchange.feed(text_chunk("So")), *exchange.fail(UpstreamError("lost"))]]

    assert (SENTENCE, "complete", None) == (fold(result).text, fold(result).stop_reason, fold(result).error)


def test_an_error_in_the_stream_of_a_retry_is_not_reported():
    exchange, result = in_the_retry(UNKNOWN)
    result += [each for _, each in exchange.feed(event(error={"message": "no", "code": 500}))]

    assert exchange.finished
    assert [] == exchange.close()
    assert (SENTENCE, "complete", None) == (fold(result).text, fold(result).stop_reason, fold(result).error)


def test_a_grammar_replaces_the_correction_for_a_defective_call():
    server = get_backend("llama-server")
    result = [drive(new_exchange(), reply(bad), reply(GOOD), backend=server).sent for bad in BAD]

    assert [False, True, True] == ["grammar" in second for _, second in result]
    assert [False, True, True] == [first["messages"] == second["messages"] for first, second in result]


def test_a_grammar_of_a_retry_admits_reasoning_that_the_prompt_opens():
    thought = "Hm. </think>\n\n"
    exchange = new_exchange(open_reasoning_tag="<think>")
    result = drive(
        exchange, reply(thought, UNREADABLE), reply("So. </think>\n", GOOD), backend=get_backend("llama-server")
    )

    assert [("add", '{"a": 1}')] == arguments(folded(result))
    assert "tool_use" == folded(result).stop_reason
    assert '"</think>"' in result.sent[1]["grammar"]


def test_the_retry_repeats_reasoning_with_the_tag_that_the_prompt_opened():
    result = drive(
        new_exchange(open_reasoning_tag="<think>"), reply("Hm. </think>\n", UNREADABLE), reply("Oh. </think>", GOOD)
    )

    assert [("add", '{"a": 1}')] == arguments(folded(result))
    assert f"<think>Hm. </think>\n{UNREADABLE}" == result.sent[1]["messages"][-2]["content"]


def test_the_correction_is_sent_with_the_grammar_if_that_failed_or_calls_were_accepted():
    server = get_backend("llama-server")
    held = new_exchange(tool_choice=REQUIRED, backend=server, buffered=True)
    result = [drive(held, reply(WRONG), reply(GOOD), backend=server)]
    result.append(drive(new_exchange(), reply(TWICE, GOOD), reply(call(arguments='{"a": 4}')), backend=server))

    assert [True, True] == ["grammar" in each.sent[1] for each in result]
    assert [2, 2] == [len(each.sent[1]["messages"]) - len(each.sent[0]["messages"]) for each in result]


def test_a_retry_under_a_json_schema_asks_for_calls_without_tags():
    result = drive(
        new_exchange(), reply(TWICE), reply('{"name": "add", "arguments": {"a": 3}}'), backend=get_backend("ollama")
    )

    assert [("add", '{"a": 3}')] == arguments(folded(result))
    assert result.sent[1]["messages"][-1]["content"].endswith(
        '[{"name": "<function name>", "arguments": {"<parameter>": "<value>"}}]'
    )


PIECES = st.lists(
    st.sampled_from(
        [GOOD, *BAD, WRONG, "text ", "\n", "`", "<function_call>", '{"name": "add"', "<think>", "</think>"]
    ),
    max_size=5,
).map("".join)


@st.composite
def replies(draw):
    """A reply, split anywhere."""
    text = draw(PIECES)
    places = sorted(draw(st.sets(st.integers(0, len(text)), max_size=6)))
    pieces = [text[a:b] for a, b in itertools.pairwise([0, *places, len(text)])]
    return reply(*filter(None, pieces), reason=draw(st.sampled_from(["stop", "stop", "length"])))


@st.composite
def options(draw):
    return {
        "buffered": draw(st.booleans()),
        "arguments": draw(st.sampled_from(["stream", "validated"])),
        "tool_choice": draw(st.sampled_from([AUTO, REQUIRED])),
        "parallel_tool_calls": draw(st.booleans()),
    }


def driven(exchange, *answers, server=OFF):
    """Drive all attempts; check that there is one usage, and return the client's other events."""
    events = drive(exchange, *answers, backend=server, spare=True).events

    assert [Usage] == [type(each) for each in events[-2:-1]]

    return [*events[:-2], events[-1]]


@given(
    answers=st.lists(replies(), min_size=3, max_size=3),
    max_retries=st.integers(1, 2),
    options=options(),
    server=st.sampled_from([OFF, get_backend("vllm"), get_backend("llama-server")]),
)
def test_the_clients_events_keep_the_laws_for_any_replies(answers, max_retries, options, server):
    """Even if the reply to a resumption has nothing to do with the call."""
    events = driven(new_exchange(max_retries=max_retries, backend=server, **options), *answers, server=server)

    normalise(events)  # which allows no empty text, such as stands in the place of a defect


@given(first=replies(), options=options())
def test_a_failed_retry_loses_nothing_of_the_reply(first, options):
    """A retry that is truncated at once changes nothing but the order of text and calls."""
    without_retry = fold(driven(new_exchange(max_retries=0, **options), first))
    result = fold(driven(new_exchange(**options), first, reply(reason="length")))

    assert (without_retry.text, without_retry.reasoning, without_retry.stop_reason) == (
        result.text,
        result.reasoning,
        result.stop_reason,
    )
    assert sorted(map(call_fields, without_retry.tool_calls)) == sorted(map(call_fields, result.tool_calls))


def call_fields(call):
    return call.tool_call_name, call.tool_call_arguments_complete, str(call.error)


@given(text=PIECES, dialect=st.sampled_from(["function_call", "hermes", "qwen3_xml", "pythonic", "auto"]))
def test_a_stream_with_defects_is_otherwise_the_same(text, dialect):
    defects = []
    plain, reporting = (StreamParser(dialect, [ADD], on_defect=report) for report in (None, defects.append))
    events = reporting.feed(text) + reporting.close()

    assert normalise(plain.feed(text) + plain.close()) == normalise(e for e in events if e != Text(""))
    assert len(defects) == events.count(Text(""))


SURPLUS = [
    ("one call that was not offered", UNKNOWN, {}, 1),
    ("one call that cannot be read", UNREADABLE, {}, 1),
    ("one call with a key twice", TWICE, {}, 1),
    ("two defective calls", UNKNOWN + UNKNOWN, {}, 2),
    ("two calls in one text that cannot be read", UNREADABLE.replace("}", ', {"label": "send"}}'), {}, 2),
    ("no call where one was demanded", "No.", {"tool_choice": REQUIRED}, 1),
    ("no call where several were asked for", "No.", {"tool_choice": REQUIRED, "parallel_tool_calls": True}, 3),
]


@pytest.mark.parametrize(("said", "fields", "count"), [row[1:] for row in SURPLUS], ids=[row[0] for row in SURPLUS])
@pytest.mark.parametrize("buffered", [False, True])
def test_a_retry_delivers_no_more_calls_than_the_reply_had(said, fields, count, buffered):
    calls = [f'{{"a": {number}}}' for number in (2, 3, 4)]
    again = reply(*(call("add", arguments) for arguments in calls))
    result = drive(new_exchange(buffered=buffered, **fields), reply(said), again)
    made = fold(result.events).tool_calls

    assert calls[:count] == [each.tool_call_arguments_complete for each in made]
    assert all(each.error is None for each in made)


def test_a_grammar_admits_as_many_calls_as_the_reply_had():
    server = get_backend("llama-server")
    replies = [reply(said) for said in (UNREADABLE, UNREADABLE * 2)]
    grammars = [drive(new_exchange(), each, reply(GOOD), backend=server).sent[1]["grammar"] for each in replies]

    assert grammars[0] != grammars[1]
