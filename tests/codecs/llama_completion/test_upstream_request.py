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
REQUEST = Request(
    model="m",
    messages=(SystemMessage((TextPart("Be brief."),)), HI),
    max_tokens=9,
    temperature=0.5,
    top_p=0.9,
    seed=3,
    stop=("END",),
    extra={"top_k": 4, "chat_template_kwargs": {"enable_thinking": False}, "logprobs": True, **LAZY},
)


def both(request=REQUEST, prompt=PROMPT, *, starts_in_reasoning=False):
    """Return the bodies of both requests, and the prefix of the reply's body."""
    first = LlamaCompletion(starts_in_reasoning=starts_in_reasoning).encode_request(request)
    assert first.follow_up is not None
    sequel = first.follow_up(json.dumps({"prompt": prompt}).encode())

    assert ("//apply-template", "//completion") == (first.path, sequel.request.path)
    assert sequel.request.follow_up is None

    return json.loads(first.body), json.loads(sequel.request.body), sequel.body_prefix


def test_the_template_gets_the_messages_and_completion_the_prompt():
    first, second, body_prefix = both()

    assert ["system", "user"] == [message["role"] for message in first["messages"]]
    assert "messages" not in second
    assert (PROMPT, b"") == (second["prompt"], body_prefix)
    assert "prompt" not in first


def test_all_sampling_fields_go_to_completion():
    _, second, _ = both()

    assert (9, 0.5, 0.9, 3, ["END"], 4) == tuple(
        second[name] for name in ("n_predict", "temperature", "top_p", "seed", "stop", "top_k")
    )
    assert second["stream"]
    assert not {"max_tokens", "max_completion_tokens", "stream_options", "logprobs"} & set(second)


def test_without_a_token_limit_none_is_sent():
    _, second, _ = both(msgspec.structs.replace(REQUEST, max_tokens=None))

    assert "n_predict" not in second


def test_only_completion_gets_the_grammar_and_both_get_template_options():
    first, second, _ = both()

    assert LAZY == {name: second[name] for name in LAZY}
    assert not set(LAZY) & set(first)
    assert {"enable_thinking": False} == first["chat_template_kwargs"]


def test_the_newer_name_of_the_token_limit_is_converted():
    style = OPENAI_CHAT.decode_request(
        json.dumps({"messages": [{"role": "user", "content": "Hi"}], "max_completion_tokens": 7}).encode()
    )
    _, second, _ = both(style)

    assert 7 == second["n_predict"]
    assert "max_completion_tokens" not in second


@pytest.mark.parametrize(("opening", "closing"), [("<think>", "</think>"), ("[THINK]", "[/THINK]")])
@pytest.mark.parametrize("behind", ["", "\n", "\n\n"])
def test_a_prompt_that_opens_reasoning_prepends_its_tag_and_triggers_at_its_end(opening, closing, behind):
    _, second, body_prefix = both(prompt=PROMPT + opening + behind)
    (trigger,) = second["grammar_triggers"]

    assert b'data: {"content":"%s"}\n\n' % opening.encode() == body_prefix
    assert closing[0] in trigger["value"]
    assert LAZY["grammar_triggers"] != second["grammar_triggers"]


def test_reasoning_that_the_prompt_closes_is_ignored():
    _, second, body_prefix = both(prompt=PROMPT + "<think>\n\n</think>\n\n")

    assert (LAZY["grammar_triggers"], b"") == (second["grammar_triggers"], body_prefix)


def test_starts_in_reasoning_prepends_no_tag():
    _, second, body_prefix = both(prompt=PROMPT + "<think>\n", starts_in_reasoning=True)

    assert (LAZY["grammar_triggers"], b"") == (second["grammar_triggers"], body_prefix)


@pytest.mark.parametrize("answer", [b"", b"<html>", b"[]", b"{}", b'{"prompt":5}', b"[" * 100_000])
def test_a_response_without_a_prompt_is_an_upstream_error(answer):
    first = LlamaCompletion().encode_request(REQUEST)
    assert first.follow_up is not None

    with pytest.raises(UpstreamError, match="returned no prompt"):
        first.follow_up(answer)


def test_media_and_several_choices_are_not_supported():
    image = UserMessage((TextPart("What is this?"), MediaPart("image/png", data="AAAA")))

    assert LlamaCompletion.supports(REQUEST)
    assert not LlamaCompletion.supports(msgspec.structs.replace(REQUEST, n=2))
    assert not LlamaCompletion.supports(msgspec.structs.replace(REQUEST, messages=(image, HI)))
