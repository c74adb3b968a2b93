"""Models of transformers, with the embedded model loaded by transformers from its GGUF file."""

import json
import re
import threading
from pathlib import Path

import pytest
import torch
from tokenizers import Tokenizer
from tokenizers.models import BPE
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    LogitsProcessor,
    PreTrainedTokenizerFast,
    TextIteratorStreamer,
)
from transformers.utils.chat_parsing import parse_response

import fcshim
from fcshim.demo.gguf_file import TINY_MODEL
from fcshim.demo.text_generator import EmbeddedGenerator
from fcshim.demo.tool_client import COMMAND, TOOL, add_numbers
from fcshim.errors import ConfigError, RequestError
from fcshim.events import Stop, ToolCallChunk, Usage
from fcshim.integrations.response_template import response_template
from fcshim.integrations.transformers import GrammarLogitsProcessor, TransformersGenerator
from fcshim.parse.dialects import DIALECTS
from fcshim.parse.stream import parse
from fcshim.prompt.render import render_calls
from fcshim.reply import fold

QUESTION = {"role": "user", "content": COMMAND}
GREETING = {"role": "user", "content": "say hello"}


@pytest.fixture(scope="module")
def loaded():
    torch.set_num_threads(1)  # more are slower for a model of this size
    place = {"pretrained_model_name_or_path": str(TINY_MODEL.parent), "gguf_file": TINY_MODEL.name}
    return AutoModelForCausalLM.from_pretrained(**place), AutoTokenizer.from_pretrained(**place)


@pytest.fixture
def generate(loaded):
    return TransformersGenerator(*loaded)


def written(pieces):
    return "".join(piece for piece in pieces if isinstance(piece, str))


def test_a_real_model_streams_two_rounds_of_tools(generate):
    seen = []
    with fcshim.SyncClient(generate=generate, model="fcshim-tiny") as client:
        result = client.run(QUESTION["content"], [add_numbers], temperature=0, on_event=seen.append)

    assert "add_numbers returned 42" == result.output.strip()
    assert len([event for event in seen if isinstance(event, ToolCallChunk)]) >= 3  # a number comes whole
    assert result.usage.output_tokens > 20


def test_the_text_is_that_of_the_embedded_engine(generate):
    prepared = fcshim.prepare([QUESTION], [TOOL], model="fcshim-tiny")

    pieces = list(generate(prepared.messages, temperature=0))

    assert written(EmbeddedGenerator()(prepared.messages)) == written(pieces)
    assert len(pieces) > 20  # a piece for each token


def test_replies_are_read_without_a_client(generate):
    prepared = fcshim.prepare([QUESTION], [TOOL], model="fcshim-tiny")
    message = fcshim.openai.message(prepared.events(generate(prepared.messages, temperature=0)))

    assert {"first": 19, "second": 23} == json.loads(message["tool_calls"][0]["function"]["arguments"])


def test_a_call_that_the_token_limit_cuts_off_is_truncated(generate):
    prepared = fcshim.prepare([QUESTION], [TOOL], model="fcshim-tiny")
    reply = fold(prepared.events(generate(prepared.messages, temperature=0, max_tokens=40)))

    assert ["truncated"] == [call.error.kind for call in reply.tool_calls]
    assert ("max_tokens", 40) == (reply.stop_reason, reply.usage.output_tokens)


@pytest.mark.parametrize("choice", ["required", {"type": "function", "function": {"name": "add_numbers"}}])
def test_a_demanded_call_is_constrained(generate, choice):
    settings = {"model": "fcshim-tiny", "constrain": "llguidance", "max_retries": 0}
    with fcshim.SyncClient(generate=generate, **settings) as client:
        reply = client.complete([GREETING], [TOOL], tool_choice=choice, temperature=0, max_tokens=200)
    [call] = reply.tool_calls

    assert (None, "add_numbers") == (call.error, call.tool_call_name)
    assert {"first", "second"} == call.arguments.keys()


def test_without_the_constraint_the_model_does_not_call(generate):
    with fcshim.SyncClient(generate=generate, model="fcshim-tiny", max_retries=0) as client:
        reply = client.complete([GREETING], [TOOL], tool_choice="required", temperature=0, max_tokens=200)

    assert () == reply.tool_calls


def test_the_processor_and_a_streamer_of_transformers_do_the_same(loaded):
    model, tokenizer = loaded
    prepared = fcshim.prepare([GREETING], [TOOL], model="fcshim-tiny", tool_choice="required")
    prompt = tokenizer.apply_chat_template(
        prepared.messages, add_generation_prompt=True, return_dict=True, return_tensors="pt"
    )
    streamer = TextIteratorStreamer(tokenizer, skip_prompt=True)
    processor = GrammarLogitsProcessor(prepared.grammar("llguidance"), tokenizer)
    options = {"streamer": streamer, "logits_processor": [processor], "max_new_tokens": 200, "do_sample": False}
    thread = threading.Thread(target=model.generate, kwargs={**prompt, **options})
    thread.start()
    deltas = list(fcshim.openai.deltas(prepared.events(streamer)))
    thread.join()

    assert "add_numbers" == deltas[1]["tool_calls"][0]["function"]["name"]


@pytest.mark.parametrize("kind", ["object", "array"])
def test_an_answer_has_its_schema(generate, kind):
    city = {"enum": ["Oslo", "Rome"]}
    schema = {"type": kind, "properties": {"city": city}, "required": ["city"], "items": city, "maxItems": 2}
    wanted = {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema}}
    with fcshim.SyncClient(generate=generate, constrain="llguidance", max_retries=0) as client:
        text = client.complete([GREETING], response_format=wanted, temperature=0, max_tokens=100).text

    assert {"object": dict, "array": list}[kind] is type(json.loads(text))


def test_usage_and_stop_say_how_the_reply_ended(loaded, generate):
    _, tokenizer = loaded
    prompt = tokenizer.apply_chat_template([GREETING], add_generation_prompt=True)["input_ids"]
    *_, usage = generate([GREETING], temperature=0)
    *_, cut, stop = generate([GREETING], temperature=0, max_tokens=1)

    assert Usage(len(prompt), 3) == usage  # hel, lo, and the end of the turn
    assert (Usage(len(prompt), 1), Stop("max_tokens")) == (cut, stop)


@pytest.mark.parametrize(
    ("stop", "text"), [(["l"], "he"), (["xyz", "o"], "hell"), (["lo"], "hel"), (["hello!"], "hello")]
)
def test_a_stop_sequence_ends_the_reply(generate, stop, text):
    pieces = list(generate([GREETING], temperature=0, stop=stop))

    assert text == written(pieces)
    assert not any(isinstance(piece, Stop) for piece in pieces)


def test_a_seed_repeats_a_reply(generate):
    def sampled(seed):
        return written(generate([QUESTION], temperature=3.0, seed=seed, max_tokens=20))

    assert sampled(1) == sampled(1)
    assert len({sampled(seed) for seed in range(5)}) > 1


def test_options_are_for_all_replies_and_requests_replace_them(loaded):
    generate = TransformersGenerator(*loaded, max_new_tokens=1, do_sample=False)

    assert 1 == next(piece.output_tokens for piece in generate([GREETING]) if isinstance(piece, Usage))
    assert 3 == next(piece.output_tokens for piece in generate([GREETING], max_tokens=9) if isinstance(piece, Usage))


class Only(LogitsProcessor):
    """Lets the model write one token again and again."""

    def __init__(self, token):
        self.token = token

    def __call__(self, input_ids, scores):
        return torch.full_like(scores, float("-inf")).index_fill(1, torch.tensor([self.token]), 0.0)


def test_special_tokens_are_text_but_not_the_end_of_a_turn(loaded):
    _, tokenizer = loaded
    opening = Only(tokenizer.convert_tokens_to_ids("<|im_start|>"))
    ending = Only(tokenizer.eos_token_id)

    assert "<|im_start|>" * 3 == written(
        TransformersGenerator(*loaded, logits_processor=[opening])([GREETING], max_tokens=3)
    )
    assert "" == written(TransformersGenerator(*loaded, logits_processor=[ending])([GREETING], max_tokens=3))


def test_leaving_a_reply_stops_the_model(loaded):
    _, tokenizer = loaded
    generate = TransformersGenerator(*loaded, logits_processor=[Only(tokenizer.encode(" a")[0])])
    threads = threading.active_count()
    reply = generate([GREETING], max_tokens=4000)
    next(piece for piece in reply if piece)
    reply.close()

    assert threads == threading.active_count()


def test_the_context_limits_the_reply(loaded, generate):
    model, _ = loaded
    context = model.config.max_position_embeddings
    with pytest.raises(RequestError, match=f"exceed the context of {context}"):
        list(generate([{"role": "user", "content": "word " * context}]))


def test_what_the_model_raises_is_raised(loaded):
    with pytest.raises(ValueError, match="no_such_option"):
        list(TransformersGenerator(*loaded, no_such_option=1)([GREETING]))


def test_a_grammar_that_is_none_is_an_error(generate):
    with pytest.raises(ConfigError, match="grammar: llguidance rejects it"):
        list(generate([GREETING], grammar="start: ("))


@pytest.mark.parametrize("tokenizer", [None, PreTrainedTokenizerFast(tokenizer_object=Tokenizer(BPE()))])
def test_a_tokenizer_without_a_chat_template_is_an_error(loaded, tokenizer):
    with pytest.raises(ConfigError, match="tokenizer: expected a fast one with a chat template"):
        TransformersGenerator(loaded[0], tokenizer)


def test_a_grammar_constrains_one_reply(loaded):
    generate = TransformersGenerator(*loaded, num_return_sequences=2, do_sample=True)
    with pytest.raises((ConfigError, ValueError), match="batch"):
        list(generate([GREETING], grammar='start: "a"'))


PROPERTIES = {
    "text": {"type": "string"},
    "count": {"type": "integer"},
    "items": {"type": "array"},
    "where": {"type": "object"},
    "ok": {"type": "boolean"},
}
TOOLS = [
    {"type": "function", "function": {"name": name, "parameters": {"type": "object", "properties": PROPERTIES}}}
    for name in ("get_weather", "send-mail")
]
MAIL = {"text": 'a "b" {c} [d] é\n', "count": 3, "items": [1, "x"], "where": {"k": {"l": None}}, "ok": True}
TURNS = [
    [("get_weather", {"text": "Paris"})],
    [("get_weather", {})],
    [("send-mail", {**MAIL, "text": "two\nlines"})],
    [("send-mail", MAIL | {"text": 'a "b" {c} [d] é'}), ("get_weather", {"text": "1"}), ("get_weather", {"count": 0})],
]


def template_of(name):
    """Return the template of a dialect; None if transformers has no form for its calls."""
    try:
        return response_template(name, start="<|bot|>", end=["<|end|>", "<|stop|>"])
    except ConfigError:
        return None


TEMPLATES = {name: template for name in DIALECTS if (template := template_of(name)) is not None}


def read(name, reply, tools):
    message = parse_response(reply, TEMPLATES[name], prefix="", tools=tools)
    calls = [call["function"] for call in message.get("tool_calls", [])]
    return message.get("content", ""), [(call["name"], call["arguments"]) for call in calls]


@pytest.mark.parametrize("turn", TURNS, ids=range(len(TURNS)))
@pytest.mark.parametrize("name", TEMPLATES)
def test_transformers_reads_calls_by_the_template_of_a_dialect(name, turn):
    written = render_calls(DIALECTS[name], [(tool, json.dumps(values, ensure_ascii=False)) for tool, values in turn])

    for end in ("", "<|end|>", "<|stop|>"):
        assert ("Hello.", turn) == read(name, f"Hello.\n{written}{end}", TOOLS)
    assert ("Hello.", []) == read(name, "Hello.<|end|>", TOOLS)


def vectors():
    """Yield the vectors that are nothing but calls, just as the dialect's templates write them."""
    for file in sorted((Path(__file__).parents[2] / "parse" / "vectors").glob("*.json")):
        for vector in json.loads(file.read_text(encoding="utf-8")):
            dialect = vector.get("options", {}).get("dialect")
            if dialect in TEMPLATES:
                tools = [each if isinstance(each, dict) else {"name": each} for each in vector.get("tools") or ()]
                reply = fold(parse(vector["input"], dialect, tools or None))
                valid = [call for call in reply.tool_calls if call.error is None]
                calls = [(call.tool_call_name, call.tool_call_arguments_complete) for call in valid]
                if calls and vector["input"].strip() == render_calls(DIALECTS[dialect], calls).strip():
                    yield pytest.param(dialect, vector["input"], tools, reply, id=f"{file.stem}: {vector['name']}")


def is_plain(vector):
    """Return whether names are words, values have no markers, and none depends on fcshim's own reading of types."""
    *_, reply = vector.values
    calls = [call.tool_call_name + call.tool_call_arguments_complete for call in reply.tool_calls]
    return not (
        re.search("[<`]", "".join(calls)) or re.search("spellings|schema|brace|colon|quotes|escapes", vector.id)
    )


VECTORS = list(filter(is_plain, vectors()))
"""transformers ends a call at the first end marker, and without a type in the schema values in tags are strings."""


@pytest.mark.parametrize(("name", "text", "tools", "reply"), VECTORS)
def test_transformers_reads_the_vectors_as_fcshim_does(name, text, tools, reply):
    assert [(call.tool_call_name, call.arguments) for call in reply.tool_calls] == read(name, text, tools)[1]


def test_most_dialects_have_a_template():
    assert len(TEMPLATES) > 50
    assert len(VECTORS) > 60


def test_reasoning_is_the_thinking_of_the_message():
    reply = "<think>Hm.</think>Hello.\n" + render_calls(DIALECTS["hermes"], [("get_weather", "{}")])
    message = parse_response(reply, TEMPLATES["hermes"], prefix="", tools=TOOLS)

    assert ("Hm.", "Hello.", 1) == (message["thinking"], message["content"], len(message["tool_calls"]))


def test_the_tokenizer_reads_its_own_models_reply(loaded, generate):
    _, tokenizer = loaded
    prepared = fcshim.prepare([QUESTION], [TOOL], model="fcshim-tiny")
    tokenizer.response_template = response_template("function_call", start="<|im_start|>assistant", end=["<|im_end|>"])
    prompt = tokenizer.apply_chat_template(prepared.messages, add_generation_prompt=True, tokenize=False)
    message = tokenizer.parse_response(written(generate(prepared.messages, temperature=0)), prefix=prompt)

    assert {"first": 19, "second": 23} == message["tool_calls"][0]["function"]["arguments"]
