"""A reasoning model may reason before a required call."""

import json
import random

import msgspec
import pytest

from fcshim.constrain.calls import grammar_of_calls
from fcshim.constrain.constraint import constraint_for
from fcshim.constrain.reasoning import ReasoningSyntax, reasoning_of
from fcshim.constrain.token_limit import limit_tokens
from fcshim.events import Reasoning, ToolCallEnd
from fcshim.messages import Request, Tool, ToolChoice
from fcshim.parse.dialects import DIALECTS, FUNCTION_CALL
from fcshim.parse.stream import StreamParser
from fcshim.testing.splits import random_split
from tests.constrain.matcher import Matcher, admits
from tests.constrain.sampler import sample

ADD = Tool("add", "", {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]})
CALL = '<function_call>\n{"name": "add", "arguments": {"a":1}}\n</function_call>'


@pytest.mark.parametrize("open_reasoning_tag", ["", "<think>"])
@pytest.mark.parametrize("dialect", ["function_call", "qwen3_xml", "pythonic", "bare_json", "gemma4"])
def test_sampled_replies_are_reasoning_then_calls(dialect: str, open_reasoning_tag: str) -> None:
    grammar = grammar_of_calls(
        DIALECTS[dialect], [ADD], reasoning=ReasoningSyntax("<think>", opened=bool(open_reasoning_tag))
    )
    assert grammar is not None
    thought = 0
    for seed in range(30):
        text = sample(limit_tokens(grammar, 2_000), seed)
        if "</think>" in text and not open_reasoning_tag and not text.startswith("<think>"):
            continue  # the prompt may have opened it, which the parser cannot know
        parser = StreamParser(dialect, [ADD], open_reasoning_tag=open_reasoning_tag)
        pieces = random_split(text, random.Random(seed))
        events = [event for piece in pieces for event in parser.feed(piece)] + parser.close()
        ends = [event for event in events if isinstance(event, ToolCallEnd)]
        thought += any(isinstance(event, Reasoning) for event in events)

        assert ends, text
        assert all(end.error is None and "a" in json.loads(end.tool_call_arguments_complete) for end in ends), text
    assert thought > 3


def test_open_reasoning_must_end_and_other_reasoning_is_optional() -> None:
    free = grammar_of_calls(FUNCTION_CALL, [ADD], max_calls=1, reasoning=ReasoningSyntax("<think>"))
    unfinished = grammar_of_calls(FUNCTION_CALL, [ADD], max_calls=1, reasoning=ReasoningSyntax("<think>", opened=True))
    assert free is not None
    assert unfinished is not None

    assert [True, True, True] == [admits(free, each + CALL) for each in ("", "<think>a</think>\n\n", "a</think>")]
    assert [False, True] == [admits(unfinished, each + CALL) for each in ("", "a < b </think>\n")]
    assert not admits(unfinished, f"a{CALL}")


@pytest.mark.parametrize(
    ("model", "opening"),
    [
        ("Qwen/Qwen3-8B", "<think>"),
        ("qwen3-coder:30b", None),
        ("Qwen3-4B-Instruct-2507", None),
        ("/models/DeepSeek-R1-Distill-Llama-8B.gguf", "<think>"),
        ("zai-org/GLM-4.6", "<think>"),
        ("Magistral-Small-2509", "[THINK]"),
        ("Llama-3.2-3B-Instruct", None),
        ("tiny", None),
    ],
)
def test_reasoning_models_are_known_by_name(model: str, opening: str | None) -> None:
    found = reasoning_of(model)

    assert opening == (found and found.opening)
    assert ReasoningSyntax("<seed:think>", opened=True) == reasoning_of(model, "<seed:think>")


def test_the_model_of_a_request_decides_whether_reasoning_is_admitted() -> None:
    request = Request(model="tiny", messages=(), tool_choice=ToolChoice("required"))
    thinker = msgspec.structs.replace(request, model="qwq-32b")
    made = [constraint_for("gbnf", FUNCTION_CALL, [ADD], each) for each in (request, thinker)]

    assert [False, True] == ["</think>" in constraint.fields["grammar"] for constraint in made if constraint]


def test_a_marker_inside_reasoning_begins_no_call() -> None:
    reasoned = "Is it <function_call> that I need? < </ Yes. "
    may = grammar_of_calls(FUNCTION_CALL, [ADD], text=True, reasoning=ReasoningSyntax("<think>"))
    unfinished = grammar_of_calls(FUNCTION_CALL, [ADD], text=True, reasoning=ReasoningSyntax("<think>", opened=True))
    assert may is not None
    assert unfinished is not None
    opened = [(Matcher(may), f"<think>{reasoned}"), (Matcher(unfinished), reasoned)]

    for matcher, before in opened:
        assert matcher.admits(f"{before}</think>\nSo: {CALL}")
        assert matcher.admits(f"{before}</think> No. <b>")
        assert not matcher.begins(f"{before}</think>\n<function_call>?")
    assert opened[0][0].admits(f"So: {CALL}")
    assert not opened[0][0].begins("<function_call>?")
