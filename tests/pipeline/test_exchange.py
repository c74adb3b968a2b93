"""One exchange without I/O: the upstream's bytes in, the client's events out."""

import itertools
import re
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fcshim.codecs.openai_chat import OPENAI_CHAT
from fcshim.errors import UpstreamError
from fcshim.events import Error, Stop, Text, ToolCallEnd, Usage
from fcshim.messages import AssistantMessage, Request, TextPart, Tool, ToolCall, UserMessage
from fcshim.pipeline.attempt import estimate_usage
from fcshim.pipeline.backends import get_backend
from fcshim.pipeline.exchange import RECEIVING, TRANSITIONS, Exchange, ExchangeInput, ExchangeState
from fcshim.pipeline.shim import ParserOptions, prepare_shim
from fcshim.reply import fold
from tests.examples import examples
from tests.parse.laws import normalise
from tests.scripted import ROLE, end_chunks, event, text_chunk

ADD = Tool("add", "Add.", {"type": "object"})
CALL = '<function_call>\n{"name": "add", "arguments": {"a": 1, "b": "é </x> \\n"}}\n</function_call>'
INVENTED = '\n<function_result name="add">\n4\n</function_result>'
USAGE = Usage(input_tokens=10, output_tokens=5)


def request(**fields):
    return Request(model="m", messages=(UserMessage((TextPart("Hi"),)),), tools=(ADD,), **fields)


def begin(**fields):
    ids = (f"call_{number}" for number in range(1000))
    client_request = request(**fields)
    shim = prepare_shim(client_request, options=ParserOptions(new_id=ids.__next__))
    exchange = Exchange()
    exchange.begin(shim, OPENAI_CHAT)
    return exchange


def run(*pieces, **fields):
    exchange = begin(**fields)
    batch = [pair for piece in pieces for pair in exchange.feed(piece)] + exchange.close()
    return exchange, batch


def piece(index, text):
    return event(choices=[{"index": index, "delta": {"content": text}}])


BODIES = [
    ROLE + text_chunk("Hel") + text_chunk("lo") + end_chunks(),
    ROLE + text_chunk("First. ") + text_chunk(CALL[:30]) + text_chunk(CALL[30:]) + end_chunks(),
    ROLE + text_chunk(CALL + "\n" + CALL) + end_chunks(),
    ROLE + text_chunk(CALL[:50]) + end_chunks("length"),
    ROLE + text_chunk("Once") + event(error={"message": "slot lost"}),
    ROLE + text_chunk("Once é") + b"data: [DONE]\n\n",
    b"\xef\xbb\xbf" + (ROLE + text_chunk(CALL) + end_chunks()).replace(b"\n", b"\r\n"),
    b'{"choices":[{"message":{"content":"Hello"},"finish_reason":"stop"}]}',
    b"<html><title>Bad Gateway</title></html>",
]


@pytest.mark.parametrize("body", BODIES, ids=range(len(BODIES)))
@examples(14)
@given(data=st.data())
def test_the_reply_is_the_same_for_any_split_of_the_bytes(body, data):
    cuts = sorted(data.draw(st.lists(st.integers(0, len(body)), max_size=12)))
    pieces = [body[start:end] for start, end in zip([0, *cuts], [*cuts, len(body)], strict=True)]
    whole, cut = (fold(event for _, event in run(*each)[1]) for each in ([body], pieces))

    assert whole == cut


@pytest.mark.parametrize("body", BODIES, ids=range(len(BODIES)))
def test_byte_by_byte_the_reply_is_the_same(body):
    whole, single = (fold(event for _, event in run(*each)[1]) for each in ([body], [bytes([byte]) for byte in body]))

    assert whole == single


@given(st.lists(st.binary(max_size=80), max_size=8))
@example([b"data: {}\n\n", b"data: [DONE]\n\n"])
@example([b'data: {"choices":[{"index":99999999999999999999}]}\n\n'])
@example([b'data: {"choices":[{"index":-1,"delta":{"content":"x"}}]}\n\n'])
def test_any_bytes_end_with_stops_or_one_error(pieces):
    exchange, batch = run(*pieces)
    ends = [event for _, event in batch if isinstance(event, Stop | Error)]

    assert ends
    assert isinstance(ends[0], Error) == (exchange.attempt.error is not None)
    assert ends[-1] is batch[-1][1]


def test_usage_comes_once_before_the_stops():
    _, batch = run(ROLE, text_chunk("Hello"), end_chunks())

    assert [(0, Text("Hello")), (0, USAGE), (0, Stop("complete"))] == batch


def test_usage_is_estimated_where_the_upstream_sends_none():
    _, batch = run(ROLE, text_chunk("x" * 9), event(choices=[{"index": 0, "delta": {}, "finish_reason": "stop"}]))
    (usage,) = [event for _, event in batch if isinstance(event, Usage)]

    assert 3 == usage.output_tokens
    assert usage.input_tokens > 50


def test_the_estimate_counts_texts_and_past_calls():
    sent = Request(
        model="m",
        messages=(UserMessage((TextPart("12345678"),)), AssistantMessage(tool_calls=(ToolCall("c", "add", "{}"),))),
    )

    assert Usage(input_tokens=4, output_tokens=1) == estimate_usage(sent, 1)


def test_the_exchange_is_finished_when_stop_and_usage_have_come():
    exchange = begin()
    before = [exchange.finished]
    for each in (ROLE, text_chunk("Hello"), event(choices=[{"index": 0, "delta": {}, "finish_reason": "stop"}])):
        exchange.feed(each)
        before.append(exchange.finished)
    exchange.feed(event(choices=[], usage={"prompt_tokens": 1, "completion_tokens": 1}))

    assert not any(before)
    assert exchange.finished


def test_a_model_that_invents_the_result_is_finished_at_once():
    exchange = begin()
    exchange.feed(ROLE + text_chunk(CALL))
    assert not exchange.finished
    exchange.feed(text_chunk(INVENTED))
    assert exchange.finished
    reply = fold(event for _, event in exchange.close())

    assert "tool_use" == reply.stop_reason


def test_every_choice_has_its_own_events_and_its_own_stop():
    ends = event(choices=[{"index": index, "delta": {}, "finish_reason": "stop"} for index in (0, 1)])
    _, batch = run(piece(1, CALL[:25]), piece(0, "no"), piece(1, CALL[25:]), ends, n=2)
    first, second = ([event for index, event in batch if index == wanted] for wanted in (0, 1))

    assert (Text("no"), Stop("complete")) == (first[0], first[-1])
    assert Stop("tool_use") == second[-1]
    assert 1 == sum(isinstance(event, ToolCallEnd) for event in second)


def test_choices_beyond_the_requested_count_are_dropped():
    _, batch = run(piece(0, "a"), piece(1, "b"), end_chunks())

    assert {0} == {index for index, _ in batch}
    assert "a" == fold(event for _, event in batch).text


def test_an_upstream_that_is_lost_inside_a_call_leaves_no_call():
    exchange = begin()
    exchange.feed(ROLE + text_chunk(CALL[:60]))
    batch = exchange.fail(UpstreamError("the line is cut"))

    assert (0, Error("upstream_error", "the line is cut")) == batch[-1]
    assert all(event.error is not None for _, event in batch if isinstance(event, ToolCallEnd))
    assert exchange.attempt.error is batch[-1][1]


def test_an_upstream_that_is_lost_after_its_finish_reason_loses_nothing():
    exchange = begin()
    exchange.feed(ROLE + text_chunk("Hello") + event(choices=[{"index": 0, "delta": {}, "finish_reason": "stop"}]))
    batch = exchange.fail(UpstreamError("the line is cut"))

    assert (0, Stop("complete")) == batch[-1]
    assert exchange.attempt.error is None


def test_no_events_follow_the_end():
    exchange, _ = run(ROLE, text_chunk("Hello"), end_chunks())

    assert [] == exchange.feed(text_chunk("more")) == exchange.close() == exchange.fail(UpstreamError("late"))


ARCHITECTURE = Path(__file__).parents[2] / "ARCHITECTURE.md"
ARROW = re.compile(r"(?P<corner>[├└])──(?P<input>[a-z ]+): (?P<action>[a-z]+)──▶ (?P<target>[a-z ]+)")


def drawn_transitions(drawing: str) -> dict[tuple[str, str], tuple[str, str]]:
    """Read the arrows of a drawing; each starts at the name above its corner."""
    lines, found = drawing.splitlines(), {}
    for row, line in enumerate(lines):
        arrow = ARROW.search(line)
        if arrow is None:
            continue
        at, above = arrow.start(), row - 1
        while lines[above][at] in "│├":
            above -= 1
        source = re.match("[a-z ]+", lines[above][at:])
        assert source is not None
        key = source[0].rstrip(), arrow["input"]
        assert key not in found
        found[key] = arrow["target"], arrow["action"]
    return found


def test_the_drawing_in_architecture_is_the_table():
    (drawing,) = re.findall(r"```text\n(new\n.*?)```", ARCHITECTURE.read_text(encoding="utf-8"), re.DOTALL)
    table = {
        (state.value, happened): (target.value, action) for (state, happened), (target, action) in TRANSITIONS.items()
    }

    assert table == drawn_transitions(drawing)


def test_every_action_of_the_table_is_explained():
    page = ARCHITECTURE.read_text(encoding="utf-8")
    (rows,) = re.findall(r"\| action \| what the client gets \|\n\|---\|---\|\n((?:\|.*\n)+)", page)
    explained = [name for row in rows.splitlines() for name in row.split("|")[1].strip().split(", ")]

    assert sorted({action for _, action in TRANSITIONS.values()}) == sorted(explained)


def test_every_state_but_the_end_goes_on():
    assert {ExchangeState.ENDED} == set(ExchangeState) - {state for state, _ in TRANSITIONS}
    assert set(get_args(ExchangeInput)) == {happened for _, happened in TRANSITIONS}


@pytest.mark.parametrize(
    ("state", "happened"),
    [pair for pair in itertools.product(ExchangeState, get_args(ExchangeInput)) if pair not in TRANSITIONS],
)
def test_what_the_table_does_not_have_may_not_happen(state, happened):
    exchange = Exchange()
    exchange.state = state

    with pytest.raises(RuntimeError, match="may not happen"):
        exchange._step(happened)


TEXTS = [
    "Well. ",
    "\n",
    CALL,
    CALL[:40],
    CALL[40:],
    CALL.replace("add", "subtract"),
    '<function_call>\n{"x": 1',
    INVENTED,
]
WAYS = ["feed", "feed", "feed", "stop", "length", "error", "close", "fail", "retry", "begin", "give up"]


def take(exchange, way, text, shim, server):
    """Do what the driver may do in this state; return the client's events, none if it may not do that."""
    if exchange.state in RECEIVING:
        match way:
            case "feed" | "stop" | "length" | "error":
                pieces = {"feed": text_chunk(text), "error": event(error={"message": "lost"})}
                return [] if exchange.finished else exchange.feed(pieces.get(way) or end_chunks(way))
            case "close":
                return exchange.close()
            case "fail":
                return exchange.fail(UpstreamError("lost"))
    elif exchange.state is ExchangeState.DECIDING:
        match way:
            case "retry":
                exchange.retry(server)
            case "give up":
                return exchange.give_up()
            case "fail":
                return exchange.fail(UpstreamError("lost"))
    return []


@examples(300)
@given(data=st.data())
def test_whatever_happens_the_client_gets_one_well_formed_reply(data):
    ids = map("call_{}".format, itertools.count()).__next__
    server = get_backend(data.draw(st.sampled_from(["generic", "llama-server"])))
    exchange = Exchange(max_retries=data.draw(st.integers(0, 2)), buffered=data.draw(st.booleans()))
    shim = prepare_shim(request(), options=ParserOptions(rescue=True, new_id=ids))
    exchange.begin(shim, OPENAI_CHAT)
    batch = []
    for way, text in data.draw(st.lists(st.tuples(st.sampled_from(WAYS), st.sampled_from(TEXTS)), max_size=14)):
        if way == "begin" and not batch and exchange.state in RECEIVING:
            exchange.begin(shim, OPENAI_CHAT)
        batch += take(exchange, way, text, shim, server)
        assert way != "fail" or exchange.state in {ExchangeState.ENDED, ExchangeState.FAILED}
    if exchange.state in RECEIVING:
        batch += exchange.close()
    if exchange.state is ExchangeState.DECIDING:
        batch += exchange.give_up()
    events = [event for _, event in batch]
    ends = [event for event in events if isinstance(event, Stop | Error)]

    assert exchange.state in {ExchangeState.ENDED, ExchangeState.FAILED}
    assert events[-1:] == ends
    assert isinstance(ends[0], Error) == (exchange.state is ExchangeState.FAILED)
    normalise(event for event in events if not isinstance(event, Usage | Error))
