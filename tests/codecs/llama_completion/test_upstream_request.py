import json

import msgspec
import pytest

from fcshim.codecs.llama_completion import LlamaCompletion
from fcshim.codecs.openai_chat import OPENAI_CHAT
from fcshim.errors import UpstreamError
from fcshim.messages import MediaPart, Request, SystemMessage, TextPart, UserMessage

PROMPT = "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"
LAZY = {
    "grammar": 'root ::= "x"',
    "grammar_lazy": True,
    "grammar_triggers": [{"type": 2, "value": "x"}],
    "preserved_tokens": ["<x>"],
}
HI = UserMessage((TextPart("Hi"),))
ASKED = Request(
    model="m",
    messages=(SystemMessage((TextPart("Be brief."),)), HI),
    max_tokens=9,
    temperature=0.5,
    top_p=0.9,
    seed=3,
    stop=("END",),
    extra={"top_k": 4, "chat_template_kwargs": {"enable_thinking": False}, "logprobs": True, **LAZY},
)


def both(request=ASKED, prompt=PROMPT, *, begun=False):
    """Give the bodies of both requests, and what the reply begins with."""
    first = LlamaCompletion(starts_in_reasoning=begun).encode_request(request)
    assert first.follow_up is not None
    sequel = first.follow_up(json.dumps({"prompt": prompt}).encode())

    assert ("//apply-template", "//completion") == (first.path, sequel.request.path)
    assert sequel.request.follow_up is None

    return json.loads(first.body), json.loads(sequel.request.body), sequel.body_prefix


def test_the_template_gets_the_conversation_and_completion_what_it_made_of_it():
    first, second, lead = both()

    assert ["system", "user"] == [message["role"] for message in first["messages"]]
    assert "messages" not in second
    assert (PROMPT, b"") == (second["prompt"], lead)
    assert "prompt" not in first


def test_all_that_is_said_of_sampling_goes_along():
    _, second, _ = both()

    assert (9, 0.5, 0.9, 3, ["END"], 4) == tuple(
        second[name] for name in ("n_predict", "temperature", "top_p", "seed", "stop", "top_k")
    )
    assert second["stream"]
    assert not {"max_tokens", "max_completion_tokens", "stream_options", "logprobs"} & set(second)


def test_without_a_limit_there_is_none():
    _, second, _ = both(msgspec.structs.replace(ASKED, max_tokens=None))

    assert "n_predict" not in second


def test_the_grammar_goes_to_completion_alone_and_what_the_template_heeds_to_both():
    first, second, _ = both()

    assert LAZY == {name: second[name] for name in LAZY}
    assert not set(LAZY) & set(first)
    assert {"enable_thinking": False} == first["chat_template_kwargs"]


def test_a_client_that_names_the_limit_otherwise_is_understood():
    style = OPENAI_CHAT.decode_request(
        json.dumps({"messages": [{"role": "user", "content": "Hi"}], "max_completion_tokens": 7}).encode()
    )
    _, second, _ = both(style)

    assert 7 == second["n_predict"]
    assert "max_completion_tokens" not in second


@pytest.mark.parametrize(("opening", "closing"), [("<think>", "</think>"), ("[THINK]", "[/THINK]")])
@pytest.mark.parametrize("behind", ["", "\n", "\n\n"])
def test_where_the_prompt_opens_reasoning_the_reply_begins_there_and_the_grammar_waits_for_its_end(
    opening, closing, behind
):
    _, second, lead = both(prompt=PROMPT + opening + behind)
    (trigger,) = second["grammar_triggers"]

    assert b'data: {"content":"%s"}\n\n' % opening.encode() == lead
    assert closing[0] in trigger["value"]
    assert LAZY["grammar_triggers"] != second["grammar_triggers"]


def test_reasoning_that_the_prompt_closes_again_is_none():
    _, second, lead = both(prompt=PROMPT + "<think>\n\n</think>\n\n")

    assert (LAZY["grammar_triggers"], b"") == (second["grammar_triggers"], lead)


def test_a_parser_that_is_told_to_begin_in_reasoning_is_not_told_twice():
    _, second, lead = both(prompt=PROMPT + "<think>\n", begun=True)

    assert (LAZY["grammar_triggers"], b"") == (second["grammar_triggers"], lead)


@pytest.mark.parametrize("answer", [b"", b"<html>", b"[]", b"{}", b'{"prompt":5}', b"[" * 100_000])
def test_an_answer_without_a_prompt_is_the_upstreams_fault(answer):
    first = LlamaCompletion().encode_request(ASKED)
    assert first.follow_up is not None

    with pytest.raises(UpstreamError, match="returned no prompt"):
        first.follow_up(answer)


def test_media_and_several_choices_are_beyond_it():
    image = UserMessage((TextPart("What is this?"), MediaPart("image/png", data="AAAA")))

    assert LlamaCompletion.supports(ASKED)
    assert not LlamaCompletion.supports(msgspec.structs.replace(ASKED, n=2))
    assert not LlamaCompletion.supports(msgspec.structs.replace(ASKED, messages=(image, HI)))
