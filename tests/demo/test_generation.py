from random import Random

import httpx
import numpy as np
import pytest

from fcshim.demo.chatml import write_prompt
from fcshim.demo.conversations import make_exchange, make_scenario
from fcshim.demo.generation import Engine, GenerationStatus, TokenSampling, sample_token
from tests.engine.llama_server import LlamaServer

GREEDY = TokenSampling()


def generate(
    engine: Engine, command: str, *, max_tokens: int = 100, stops: tuple[str, ...] = ()
) -> tuple[list[str], GenerationStatus]:
    status = GenerationStatus()
    prompt = engine.tokenizer.encode(write_prompt([("user", command)]))
    return list(engine.generate(prompt, status, max_tokens=max_tokens, stop_strings=stops, sampling=GREEDY)), status


def test_the_end_of_the_turn_ends_the_text(engine: Engine) -> None:
    pieces, status = generate(engine, "say hello world")

    assert "".join(pieces) == "hello world"
    assert status.finish_reason == "stop"
    assert status.output_tokens == len(engine.tokenizer.encode("hello world")) + 1


def test_the_limit_ends_the_text(engine: Engine) -> None:
    pieces, status = generate(engine, "say hello world", max_tokens=1)

    assert "hello world".startswith("".join(pieces))
    assert (status.finish_reason, status.output_tokens) == ("length", 1)


def test_a_limit_of_zero_generates_nothing(engine: Engine) -> None:
    pieces, status = generate(engine, "say hello", max_tokens=0)

    assert ("".join(pieces), status.output_tokens, status.finish_reason) == ("", 0, "length")


def test_the_context_ends_the_text(engine: Engine) -> None:
    prompt = engine.tokenizer.encode("x" * 10_000)[: engine.context - 2]
    status = GenerationStatus()
    list(engine.generate(prompt, status, max_tokens=100, sampling=GREEDY))

    assert status.output_tokens <= 2


@pytest.mark.parametrize("stops", [(" world",), ("o w",), ("nothing", " wor"), ("world", " ")])
def test_a_stop_string_ends_the_text_before_it(engine: Engine, stops: tuple[str, ...]) -> None:
    text = "hello world"
    pieces, status = generate(engine, f"say {text}", stops=stops)

    assert "".join(pieces) == text[: min(text.find(stop) for stop in stops if stop in text)]
    assert status.finish_reason == "stop"


def test_an_incomplete_stop_string_is_text(engine: Engine) -> None:
    pieces, _ = generate(engine, "say hello world", stops=("world!", "ldx"))

    assert "".join(pieces) == "hello world"


def test_a_character_of_several_tokens_is_emitted_whole(engine: Engine) -> None:
    pieces, _ = generate(engine, "say 北京")

    assert "".join(pieces) == "北京"
    assert "\ufffd" not in "".join(pieces)


@pytest.mark.parametrize(
    ("sampling", "picked"),
    [
        (GREEDY, {1}),
        (TokenSampling(temperature=1.0, top_p=0.1, seed=1), {1}),
        (TokenSampling(temperature=1.0, top_p=0.9, seed=1), {1, 2}),
        (TokenSampling(temperature=5.0, seed=1), {0, 1, 2}),
    ],
)
def test_sampling_chooses_among_the_likeliest_tokens(sampling: TokenSampling, picked: set[int]) -> None:
    logits = np.array([-1.0, 3.0, 2.5], np.float32)
    rng = np.random.default_rng(sampling.seed)

    assert {sample_token(logits, sampling, rng) for _ in range(300)} == picked


def test_a_seed_gives_the_same_text(engine: Engine) -> None:
    prompt = engine.tokenizer.encode(write_prompt([("user", "say rain")]))
    hot = TokenSampling(temperature=3.0, seed=4)
    texts = ["".join(engine.generate(prompt, GenerationStatus(), max_tokens=30, sampling=hot)) for _ in range(2)]

    assert texts[0] == texts[1]
    assert texts[0] != "rain"


def test_generation_ends_at_the_limit(engine: Engine) -> None:
    prompt = engine.tokenizer.encode("<|im_start|>user\n")
    engine._end_tokens, ends = frozenset(), engine._end_tokens
    try:
        status = GenerationStatus()
        list(engine.generate(prompt, status, max_tokens=100, sampling=GREEDY))
    finally:
        engine._end_tokens = ends

    assert status.output_tokens == 100


def test_llama_server_writes_the_same_texts(engine: Engine, llama_server: LlamaServer) -> None:
    """The logits differ, because llama.cpp also quantises activations, so a rare near-tie may differ."""
    rng = Random(77)
    same = 0
    with httpx.Client(base_url=llama_server.url, trust_env=False, timeout=30) as client:
        for _ in range(30):
            scenario = make_scenario(rng, plain=True)
            messages = [("system", scenario.system()), ("user", make_exchange(rng, scenario, 1).command)]
            ours = "".join(
                engine.generate(
                    engine.tokenizer.encode(write_prompt(messages)), GenerationStatus(), max_tokens=200, sampling=GREEDY
                )
            )
            body = {"messages": [{"role": r, "content": t} for r, t in messages], "temperature": 0, "max_tokens": 200}
            theirs = client.post("/v1/chat/completions", json=body).json()["choices"][0]["message"]["content"]
            same += ours == theirs

    assert same >= 28
