"""Interrupted calls that another reply continues, with backends that continue a last assistant message."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fcshim.errors import UpstreamError
from fcshim.events import Text, ToolCallEnd, Usage
from fcshim.messages import Tool, ToolChoice
from fcshim.parse.dialects import DIALECTS
from fcshim.pipeline.backends import OFF, get_backend, unconstrained
from fcshim.prompt.render import render_calls
from fcshim.reply import fold
from tests.parse.laws import normalise
from tests.pipeline.driver import REQUIRED, SEND, call, drive, new_exchange, reply
from tests.scripted import end_chunks, text_chunk

LLAMA, VLLM = get_backend("llama-server"), get_backend("vllm")
HEAD = '<function_call>\n{"name": "send", "arguments": {"text": "x'
PREFILL = '<function_call>\n{"name": "send", "arguments": {"text":"x'
TWICE = reply("So. " + HEAD + '", ', '"text": "y"}}\n</function_call> More.')
CUT = reply("So. " + HEAD, "yz", reason="length")
REST = reply('"', "}}\n</function_call>", " Done.")
WRITTEN = (
    "Well. "
    + call(arguments='{"a": 1}')
    + "\n"
    + call("send", '{ "text": "a \\"b\\" \\n </function_call> {", "n": [1, {"k": null}]}')
)


def checked(result):
    """Check the laws of the events; return the text, the arguments and errors of the calls, and the stop reason."""
    normalise(each for each in result.events if not isinstance(each, Usage))
    answer = fold(result.events)
    calls = [(each.tool_call_arguments_complete, each.error and each.error.kind) for each in answer.tool_calls]
    return answer.text, calls, answer.stop_reason


def test_an_unreadable_call_is_resumed_after_the_clients_arguments():
    result = drive(new_exchange(), TWICE, REST, backend=unconstrained(LLAMA))

    assert ("So.  Done.", [('{"text": "x"}', None)], "tool_use") == checked(result)
    assert {"role": "assistant", "content": "So. " + PREFILL} == result.sent[1]["messages"][-1]
    assert result.sent[0]["messages"] == result.sent[1]["messages"][:-1]
    assert Usage(20, 10) in result.events


def test_a_backend_that_accepts_grammars_gets_that_of_the_remainder():
    result = drive(new_exchange(), TWICE, REST, backend=LLAMA)

    assert "string-char" in result.sent[1]["grammar"].splitlines()[0]
    assert '"<function_call>' not in result.sent[1]["grammar"].splitlines()[0][:40]


MAKE = Tool(
    "make",
    "Make.",
    {
        "type": "object",
        "properties": {"count": {"type": "integer"}, "on": {"type": "boolean"}, "text": {"type": "string"}},
        "required": ["count", "on"],
        "additionalProperties": False,
    },
)


@pytest.mark.parametrize(
    ("first", "begun", "rest", "whole"),
    [
        ('{"on": true}', '{"on":true', ', "count": 3}', '{"on": true, "count": 3}'),
        ('{"on": 38.5, "count": 1}', "{", '"on": false, "count": 1}', '{"on": false, "count": 1}'),
        ('{"on": "much", "count": 1}', '{"on":', 'true, "count": 1}', '{"on": true, "count": 1}'),
        ('{"on": true, "more": 7}', '{"on":true', ', "count": 7}', '{"on": true, "count": 7}'),
    ],
)
def test_a_streamed_call_that_violates_its_schema_is_resumed_before_the_violation(first, begun, rest, whole):
    pieces = [*call("make", first), " Well?"]
    result = drive(new_exchange(tools=(MAKE,)), reply(*pieces), reply(rest, "}\n</function_call> Done."), backend=LLAMA)

    assert (" Done.", [(whole, None)], "tool_use") == checked(result)
    assert result.sent[1]["messages"][-1]["content"].endswith('"arguments": ' + begun)
    assert "grammar" in result.sent[1]


@pytest.mark.parametrize("first", ['{"on": true}', '{"on": 38.5, "count": 1}', '{"on": true, "more": "x", "count": 1}'])
@pytest.mark.parametrize("server", [OFF, LLAMA])
def test_a_call_that_cannot_be_resumed_is_accepted_as_it_was(first, server):
    result = drive(
        new_exchange(tools=(MAKE,)), reply(*call("make", first)), reply(reason="length"), backend=server, spare=True
    )

    assert ("", [(first, None)], "tool_use") == checked(result)


def test_a_truncated_remainder_ends_the_call_with_an_error():
    result = drive(
        new_exchange(tools=(MAKE,)),
        reply(*call("make", '{"on": true}')),
        reply(', "cou', reason="length"),
        backend=LLAMA,
    )
    longer = drive(
        new_exchange(tools=(MAKE,)),
        reply(*call("make", '{"on": true}')),
        reply(', "text": "ab', "c", reason="length"),
        backend=LLAMA,
    )

    assert ("", [('{"on": true}', None)], "tool_use") == checked(result)
    assert [('{"on": true, "text": "abc', "truncated")] == checked(longer)[1]


def test_one_of_several_calls_is_resumed_and_the_later_ones_are_repeated():
    good = call("make", '{"count": 1, "on": false}')
    last = call("make", '{"count": 3, "on": true}')
    first = reply(*good, *call("make", '{"on": true}'), *last)
    result = drive(new_exchange(tools=(MAKE,)), first, reply(', "count": 2}}\n</function_call>', last), backend=LLAMA)

    assert ['{"count": 1, "on": false}', '{"on": true, "count": 2}', '{"count": 3, "on": true}'] == [
        arguments for arguments, _ in checked(result)[1]
    ]


def test_some_backends_need_a_field_to_continue():
    result = drive(new_exchange(), TWICE, REST, backend=VLLM)

    assert (True, False) == (result.sent[1]["continue_final_message"], result.sent[1]["add_generation_prompt"])


@pytest.mark.parametrize("first", [TWICE, CUT])
def test_without_resumption_the_reply_is_the_first_one(first):
    without_retry = checked(drive(new_exchange(max_retries=0), first))

    assert without_retry == checked(drive(new_exchange(), first, backend=OFF))


def test_a_call_that_the_token_limit_truncates_is_resumed():
    result = drive(new_exchange(), CUT, REST, backend=LLAMA)

    assert ("So.  Done.", [('{"text": "xyz"}', None)], "tool_use") == checked(result)
    assert "So. " + HEAD + "yz" == result.sent[1]["messages"][-1]["content"]


def test_a_token_limit_of_the_client_is_respected():
    result = drive(new_exchange(max_tokens=9), CUT, backend=LLAMA)

    assert ("So. ", [('{"text": "xyz', "truncated")], "max_tokens") == checked(result)


def test_a_call_is_resumed_up_to_max_retries_times():
    more = reply("1", "2", reason="length")
    result = drive(new_exchange(max_retries=3), CUT, more, more, REST, backend=LLAMA)

    assert ("So.  Done.", [('{"text": "xyz1212"}', None)], "tool_use") == checked(result)


def test_a_remainder_with_the_same_error_leaves_the_first_reply():
    result = drive(new_exchange(), TWICE, reply('", "text": "z"}}\n</function_call> Oh.'), backend=LLAMA)

    assert ("So.  More.", [('{"text": "x', "malformed")], "complete") == checked(result)


def test_a_remainder_that_never_comes_leaves_the_first_reply():
    for remainder in ([], ["y"]):
        exchange = new_exchange()
        result = [each for data in [*map(text_chunk, TWICE.pieces), end_chunks()] for _, each in exchange.feed(data)]
        result += [each for _, each in exchange.close()]
        assert exchange.retry(LLAMA)
        result += [each for text in remainder for _, each in exchange.feed(text_chunk(text))]
        result += [each for _, each in exchange.fail(UpstreamError("lost"))]
        answer = fold(result)

        normalise(each for each in result if not isinstance(each, Usage))
        assert [('{"text": "x' + "".join(remainder), "error")] == [
            (each.tool_call_arguments_complete, each.error and "error") for each in answer.tool_calls
        ]
        assert answer.error is None


@given(at=st.integers(0, len(WRITTEN)), size=st.integers(1, 9))
def test_a_call_that_is_truncated_anywhere_is_completed_by_its_remainder(at, size):
    whole = checked(drive(new_exchange(), reply(WRITTEN)))
    pieces = [WRITTEN[:at][start : start + size] for start in range(0, at, size)]
    exchange = new_exchange()
    sent = len(WRITTEN[:at].rstrip())
    result = drive(exchange, reply(*pieces, reason="length"), reply(WRITTEN[sent:]), backend=LLAMA, spare=True)

    if len(result.sent) == 2:
        assert whole == checked(result)
    else:
        assert WRITTEN.startswith(checked(result)[0]) or checked(result)[2] == "max_tokens"


@pytest.mark.parametrize(
    ("names", "prefill", "rest"),
    [
        ((), '<function_call>\n{"name": "', 'send", "arguments": {"text": "x"}}\n</function_call>'),
        (("send",), '<function_call>\n{"name": "send", "arguments":', ' {"text": "x"}}\n</function_call>'),
    ],
)
def test_a_required_call_without_constraint_gets_a_prefill(names, prefill, rest):
    server = unconstrained(VLLM)
    result = drive(new_exchange(tool_choice=ToolChoice("required", names), backend=server), reply(rest))

    assert ("", [('{"text": "x"}', None)], "tool_use") == checked(result)
    assert {"role": "assistant", "content": prefill} == result.sent[0]["messages"][-1]
    assert result.sent[0]["continue_final_message"]


@pytest.mark.parametrize("fields", [{}, {"tool_choice": REQUIRED, "extra": {"guided_regex": "x"}}])
def test_there_is_no_prefill_without_a_required_call_or_with_a_constraint_of_the_client(fields):
    result = drive(new_exchange(backend=unconstrained(VLLM), **fields), reply(call()))

    assert "user" == result.sent[0]["messages"][-1]["role"]


def test_there_is_no_prefill_if_the_prompt_ends_inside_reasoning():
    exchange = new_exchange(tool_choice=REQUIRED, backend=unconstrained(VLLM), open_reasoning_tag="<think>")
    result = drive(exchange, reply("Hm. </think>", call()))

    assert ("", [('{"a": 1}', None)], "tool_use") == checked(result)
    assert "user" == result.sent[0]["messages"][-1]["role"]


def test_a_prefill_is_written_in_the_dialect():
    rest = "send>\n<parameter=text>\nx\n</parameter>\n</function>\n</tool_call>"
    result = drive(new_exchange(tool_choice=REQUIRED, backend=unconstrained(VLLM), dialect="qwen3_xml"), reply(rest))

    assert ("", [('{"text": "x"}', None)], "tool_use") == checked(result)


@pytest.mark.parametrize("size", [1, 5, 400])
def test_a_new_turn_instead_of_the_remainder_is_discarded(size):
    again = " \n" + HEAD + '"}}\n</function_call>'
    pieces = [again[at : at + size] for at in range(0, len(again), size)]
    result = drive(new_exchange(), CUT, reply(*pieces), backend=unconstrained(VLLM), spare=True)

    assert ("So. ", [('{"text": "xyz', "truncated")], "max_tokens") == checked(result)


@pytest.mark.parametrize("size", [1, 5, 400])
def test_a_new_turn_instead_of_a_prefilled_call_is_parsed_without_the_prefill(size):
    again = " \n" + HEAD + '"}}\n</function_call>'
    pieces = [again[at : at + size] for at in range(0, len(again), size)]
    result = drive(new_exchange(tool_choice=REQUIRED, backend=unconstrained(VLLM)), reply(*pieces))

    assert ("", [('{"text": "x"}', None)], "tool_use") == checked(result)


MANY = Tool(
    "many",
    "Many.",
    {"type": "object", "properties": {"text": {"type": "string"}, "n": {"type": "integer"}, "xs": {"type": "array"}}},
)
ONE_CALL = [("many", '{"text": "a  b\\n\\nc <x> ", "n": 12, "xs": [{"k": "v"}, ["w"]]}')]


@pytest.mark.parametrize("held", [False, True], ids=["streamed", "whole"])
@pytest.mark.parametrize("dialect", DIALECTS)
def test_in_every_dialect_a_call_that_is_truncated_anywhere_is_resumed(dialect, held):
    """Truncated before its name is complete, it is no call and stays text. The two ways cut at different places."""
    options = {"dialect": dialect, "tools": (MANY, SEND), "buffered": held}
    written = "Well.\n" + render_calls(DIALECTS[dialect], ONE_CALL)
    expected = checked(drive(new_exchange(**options), reply(written)))
    resumed = 0
    for at in range(18 if held else 7, len(written), 22):
        head, sent = written[:at], len(written[:at].rstrip())
        pieces = [head[start : start + 5] for start in range(0, at, 5)]
        replies = reply(*pieces, reason="length"), reply(written[sent:])
        result = drive(new_exchange(**options), *replies, backend=LLAMA, spare=True)
        resumed += len(result.sent) == 2

        if len(result.sent) == 2:
            assert expected == checked(result), head
        else:
            assert "max_tokens" == checked(result)[2]
            assert [error for _, error in checked(result)[1] if error] == []

    assert resumed >= 2


TWO_VALUES = {
    "hermes": '<tool_call>\n{"name": "send", "arguments": {"text": "x y", "text": "z"}}\n</tool_call>',
    "mistral": '[TOOL_CALLS]send[ARGS]{"text": "x y", "text": "z"}',
    "qwen3_xml": "<tool_call>\n<function=send>\n<parameter=text>\nx y\n</parameter>\n<parameter=text>\nz\n"
    "</parameter>\n</function>\n</tool_call>",
    "glm": "<tool_call>send\n<arg_key>text</arg_key>\n<arg_value>x y</arg_value>\n<arg_key>text</arg_key>\n"
    "<arg_value>z</arg_value>\n</tool_call>",
    "minimax_m2": '<minimax:tool_call>\n<invoke name="send">\n<parameter name="text">x y</parameter>\n'
    '<parameter name="text">z</parameter>\n</invoke>\n</minimax:tool_call>',
    "llama4": '<|python_start|>[send(text="x y", text="z")]<|python_end|>',
    "gemma4": '<|tool_call>call:send{text:<|"|>x y<|"|>,text:<|"|>z<|"|>}<tool_call|>',
}
"""A call with a repeated key, in each value syntax."""
CLOSED_AT_ONCE = {"gemma4": '<|"|>'}
"""Dialects whose closing quote is unambiguous: the client has it already, and the string cannot be continued."""


@pytest.mark.parametrize("server", [LLAMA, unconstrained(LLAMA)], ids=["constrained", "free"])
@pytest.mark.parametrize("dialect", TWO_VALUES)
def test_in_every_value_syntax_an_unreadable_call_is_resumed(dialect, server):
    said = "So.\n" + TWO_VALUES[dialect]
    text = "x y" if dialect in CLOSED_AT_ONCE else "x y!"
    good = render_calls(DIALECTS[dialect], [("send", json.dumps({"text": text}))])
    rest = good[good.index("x y") + 3 :].removeprefix(CLOSED_AT_ONCE.get(dialect, ""))
    pieces = [said[at : at + 3] for at in range(0, len(said), 3)]
    result = drive(new_exchange(dialect=dialect), reply(*pieces), reply(rest), backend=server)

    assert ("So.\n", [(json.dumps({"text": text}), None)], "tool_use") == checked(result)
    assert result.sent[1]["messages"][-1]["content"].endswith("x y" + CLOSED_AT_ONCE.get(dialect, ""))
    assert (server is LLAMA) == ("grammar" in result.sent[1])


@pytest.mark.parametrize("dialect", TWO_VALUES)
def test_in_every_value_syntax_a_call_that_lacks_a_member_is_resumed(dialect):
    first, good = (
        render_calls(DIALECTS[dialect], [("make", arguments)])
        for arguments in ('{"text": "x y", "on": true}', '{"text": "x y", "on": true, "count": 3}')
    )
    pieces = [first[at : at + 3] for at in range(0, len(first), 3)]
    begun = drive(new_exchange(dialect=dialect, tools=(MAKE,)), reply(*pieces), reply(), backend=LLAMA)
    (turn,) = [said["content"] for said in begun.sent[1]["messages"] if said["role"] == "assistant"]
    same = len(turn.replace(" ", ""))
    result = drive(
        new_exchange(dialect=dialect, tools=(MAKE,)), reply(*pieces), reply(good[_place(good, same) :]), backend=LLAMA
    )

    assert good.replace(" ", "").startswith(turn.replace(" ", ""))
    assert [{"text": "x y", "on": True, "count": 3}] == [json.loads(arguments) for arguments, _ in checked(result)[1]]
    assert "grammar" in result.sent[1]


def _place(text, count):
    """Return the position after `count` characters that are not blanks."""
    return next(at for at in range(len(text) + 1) if len(text[:at].replace(" ", "")) == count)


@pytest.mark.parametrize("dialect", ["qwen3_xml", "pythonic", "gemma4"])
def test_a_call_whose_invalid_value_cannot_be_located_is_accepted_as_it_was(dialect):
    arguments = '{"text": "x y", "count": "many", "on": true}'
    first = render_calls(DIALECTS[dialect], [("make", arguments)])
    pieces = [first[at : at + 3] for at in range(0, len(first), 3)]
    result = drive(new_exchange(dialect=dialect, tools=(MAKE,)), reply(*pieces), backend=LLAMA)

    assert ("", [(arguments, None)], "tool_use") == checked(result)


def test_truncated_validated_arguments_are_resumed():
    result = drive(new_exchange(arguments="validated"), CUT, REST, backend=LLAMA)

    assert ("So.  Done.", [('{"text": "xyz"}', None)], "tool_use") == checked(result)
    assert all(isinstance(each, Text) for read in result.reads[:4] for each in read)


def test_the_truncated_header_of_a_later_call_is_part_of_the_remainder():
    good = render_calls(DIALECTS["kimi_k3"], [("send", '{"text": "x"}'), ("add", '{"a": 1}')])
    at = good.index('"add"') + 7
    result = drive(
        new_exchange(dialect="kimi_k3", buffered=True),
        reply(good[:at], reason="length"),
        reply(good[at:]),
        backend=LLAMA,
    )

    assert ("", [('{"text": "x"}', None), ('{"a": 1}', None)], "tool_use") == checked(result)


def test_an_invalid_call_after_one_that_cannot_be_resumed_is_sent_whole():
    pieces = HEAD + '", ', '"text": "y"}}\n</function_call>', call("add", '{"a": "much"}')
    result = drive(new_exchange(), reply(*pieces), backend=OFF)
    doubtful = fold(result.events).tool_calls[1]

    assert [('{"text": "x', "malformed"), ('{"a": "much"}', None)] == checked(result)[1]
    assert ToolCallEnd is type(doubtful)


def test_a_call_that_violates_its_schema_at_its_end_is_resumed_before_the_end():
    for alone in (False, True):
        exchange = new_exchange(dialect="pythonic", parallel_tool_calls=not alone)
        result = drive(exchange, reply("[send()", "]"), reply('text="x")]'), backend=LLAMA)

        assert "[send(" == result.sent[1]["messages"][-1]["content"]
        assert ("", [('{"text": "x"}', None)], "tool_use") == checked(result)


SECOND = call("add", '{"a": 1}')


def test_calls_after_a_resumed_one_stand_if_the_model_repeats_them():
    first = reply(*TWICE.pieces, SECOND)
    resumed = ('{"text": "x"}', None)
    repeated = reply(*REST.pieces, SECOND)

    assert ([resumed], "tool_use") == checked(drive(new_exchange(), first, REST, backend=LLAMA))[1:]
    assert [resumed, ('{"a": 1}', None)] == checked(drive(new_exchange(), first, repeated, backend=LLAMA))[1]
    alone = new_exchange(parallel_tool_calls=False)
    assert 1 == sum(error is None for _, error in checked(drive(alone, first, REST, backend=LLAMA, spare=True))[1])


def test_valid_calls_after_a_call_that_fails_again_stand():
    result = drive(
        new_exchange(), reply(*TWICE.pieces, SECOND), reply('", "text": "z"}}\n</function_call>'), backend=LLAMA
    )

    assert [("malformed"), None] == [error for _, error in checked(result)[1]]
    assert "tool_use" == checked(result)[2]


def test_an_escape_that_is_truncated_in_the_middle_is_completed():
    first = reply("[send(te", 'xt="a', "\\", reason="length")
    result = drive(new_exchange(dialect="pythonic"), first, reply('n")]'), backend=LLAMA)

    assert ("", [('{"text": "a\\n"}', None)], "tool_use") == checked(result)


def test_a_start_marker_in_reasoning_does_not_start_the_calls():
    thought = "<think>Perhaps <function_call> it is.</think>\n"
    result = drive(new_exchange(), reply(thought + HEAD, '", ', '"text": "y"}}\n</function_call>'), REST, backend=LLAMA)

    assert [('{"text": "x"}', None)] == checked(result)[1]
    assert thought + PREFILL == result.sent[1]["messages"][-1]["content"]
    assert "string-char" in result.sent[1]["grammar"].splitlines()[0]


def test_stripped_white_space_that_the_client_has_is_repeated():
    first = reply(HEAD, " \n", reason="length")
    result = drive(new_exchange(), first, reply(' \ny"}}\n</function_call>'), backend=LLAMA)

    assert ("", [('{"text": "x \\ny"}', None)], "tool_use") == checked(result)
    assert HEAD == result.sent[1]["messages"][-1]["content"]


def test_the_grammar_of_the_remainder_repeats_stripped_white_space():
    result = drive(new_exchange(), reply(HEAD, "  ", reason="length"), REST, backend=LLAMA)

    assert result.sent[1]["grammar"].startswith('root ::= "  " ')


@pytest.mark.parametrize("spoken", ["y", "", " x"])
def test_another_text_than_the_remainder_leaves_the_call_and_cancels_the_upstream(spoken):
    exchange = new_exchange()
    result = drive(
        exchange, reply(HEAD, " \t", reason="length"), reply(spoken + '"}}\n', "</function_call>"), backend=LLAMA
    )

    assert ("", [('{"text": "x \\t', "truncated")], "max_tokens") == checked(result)


def test_text_before_a_required_call_is_sent_when_the_call_is_resumed():
    head = "So.\n<tool_call>\n<function=send>\n<par"
    first, rest = reply(head, reason="length"), reply("ameter=text>\nx\n</parameter>\n</function>\n</tool_call>")
    for whole in (False, True):
        exchange = new_exchange(dialect="qwen3_xml", tool_choice=REQUIRED, buffered=whole)
        result = drive(exchange, first, rest, backend=LLAMA)

        assert ("So.\n", [('{"text": "x"}', None)], "tool_use") == checked(result)


@pytest.mark.parametrize("whole", [False, True])
def test_a_buffered_call_may_be_truncated_again(whole):
    head = "So.\n<tool_call>\n<function=send>\n<par"
    replies = [reply(head, reason="length"), reply("ameter=text>\nx", reason="length")]
    rest = reply("y\n</parameter>\n</function>\n</tool_call>")
    result = drive(new_exchange(dialect="qwen3_xml", buffered=whole, max_retries=2), *replies, rest, backend=LLAMA)

    assert ("So.\n", [('{"text": "xy"}', None)], "tool_use") == checked(result)

    result = drive(new_exchange(dialect="qwen3_xml", buffered=whole), *replies, backend=LLAMA)

    assert ("So.\n", [('{"text": "x', "truncated")], "max_tokens") == checked(result)


@pytest.mark.parametrize("whole", [False, True])
def test_a_buffered_call_is_sent_if_its_remainder_never_comes(whole):
    exchange = new_exchange(dialect="qwen3_xml", buffered=whole)
    result = [
        event
        for _, event in [*exchange.feed(text_chunk("So.\n<tool_call>\n<function=send>\n<par") + end_chunks("length"))]
    ]
    result += [event for _, event in exchange.close()]
    assert exchange.retry(LLAMA)
    result += [event for _, event in exchange.feed(text_chunk("ameter=text>\nx"))]
    result += [event for _, event in exchange.fail(UpstreamError("lost"))]
    answer = fold(result)

    normalise(each for each in result if not isinstance(each, Usage))
    assert ["truncated"] == [call.error and call.error.kind for call in answer.tool_calls]
    assert ("So.\n", "max_tokens", None) == (answer.text, answer.stop_reason, answer.error)
