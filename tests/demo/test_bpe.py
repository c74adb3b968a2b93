import random

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fcshim.demo.generation import Tokenizer, split_words
from fcshim.demo.gguf_file import load_model
from tests.engine.llama_server import LlamaServer

TOKENIZER = Tokenizer(load_model().vocabulary)

HARD_TEXTS = [
    "it's we'll I'M don't 'S 's9 ’s",
    "two  spaces\n\n\ttabs \r\n and an end  ",
    "²½Ⅷ 一二 ١٢٣ 3.14 1,000 x86_64",
    "no-break\xa0space \u3000 \u2028 \x1c \x85 e\u0301 \u200b",
    "😀😀 (!!) _x_ a_b-c.d 한국어 ภาษาไทย हिन्दी עברית",
    " \n \n x",
    " ",
    "<|im_start|>user\nhi<|im_end|>\n<|im_start",
]


def decoded(ids: list[int]) -> str:
    return b"".join(map(TOKENIZER.token_bytes, ids)).decode()


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"])))
def test_decoding_reverses_encoding(text: str) -> None:
    assert decoded(TOKENIZER.encode(text)) == text


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"])))
def test_the_split_words_join_to_the_text(text: str) -> None:
    assert "".join(split_words(text)) == text


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Hello, world's end", ["Hello", ",", " world", "'s", " end"]),
        ('{"name": "x12"}', ['{"', "name", '":', ' "', "x", "12", '"}']),
        ("a  b\n\nc ", ["a", " ", " b", "\n", "\n", "c", " "]),
        ("naïve 北京 ²", ["naïve", " 北京", " ²"]),
        ("e\u0301", ["e", "\u0301"]),
    ],
)
def test_text_is_split_as_gpt2_splits_it(text: str, words: list[str]) -> None:
    assert split_words(text) == words


def test_a_special_token_is_one_token_at_any_position() -> None:
    start = TOKENIZER.encode("<|im_start|>")

    assert len(start) == 1
    assert TOKENIZER.encode("a<|im_start|>b") == TOKENIZER.encode("a") + start + TOKENIZER.encode("b")


def test_a_word_has_the_same_tokens_after_a_space_and_in_quotes() -> None:
    word = TOKENIZER.encode("Paris")

    assert TOKENIZER.encode(" Paris")[-len(word) :] == word
    assert TOKENIZER.encode('="Paris"')[-len(word) - 1 : -1] == word


def test_a_lone_surrogate_becomes_a_question_mark() -> None:
    assert decoded(TOKENIZER.encode("a\ud800b")) == "a?b"


@pytest.mark.engine
def test_llama_server_gives_the_same_tokens(llama_server: LlamaServer) -> None:
    rng = random.Random(1)
    pieces = [*HARD_TEXTS, "call get_weather with city=", "'s", " ", "\n", "12", "ab", "\u2028", "北", "é"]
    texts = HARD_TEXTS + ["".join(rng.choices(pieces, k=3)) for _ in range(40)]
    texts += ["".join(chr(rng.randrange(1, 0xD800)) for _ in range(30)) for _ in range(40)]
    with httpx.Client(base_url=llama_server.url, trust_env=False) as client:
        for text in texts:
            answer = client.post("/tokenize", json={"content": text, "parse_special": True}).json()

            assert TOKENIZER.encode(text) == answer["tokens"]
