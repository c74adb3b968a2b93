import numpy as np
import pytest

from fcshim.demo.gguf_file import ModelFile, ModelSizes, ModelVocabulary
from fcshim.demo.llama import Array, Llama

IDS = [3, 1, 4, 1, 5, 9, 2, 6]


def random_model(*, kv_heads: int, seed: int = 1) -> ModelFile:
    rng = np.random.default_rng(seed)
    width, heads, hidden, tokens, layers = 32, 4, 48, 12, 2
    shapes = {
        "attn_q": (width, width),
        "attn_k": (kv_heads * 8, width),
        "attn_v": (kv_heads * 8, width),
        "attn_output": (width, width),
        "ffn_gate": (hidden, width),
        "ffn_up": (hidden, width),
        "ffn_down": (width, hidden),
        "attn_norm": (width,),
        "ffn_norm": (width,),
    }
    weights: dict[str, Array] = {
        f"blk.{layer}.{name}.weight": rng.normal(0, 0.3, shape).astype(np.float32)
        for layer in range(layers)
        for name, shape in shapes.items()
    }
    weights["token_embd.weight"] = rng.normal(0, 1, (tokens, width)).astype(np.float32)
    weights["output_norm.weight"] = np.ones(width, np.float32)
    sizes = ModelSizes(64, width, layers, heads, kv_heads, 10_000.0, 1e-5)
    return ModelFile("random", "", sizes, ModelVocabulary((), (), frozenset(), 0), weights)


@pytest.mark.parametrize("kv_heads", [4, 2, 1])
@pytest.mark.parametrize("cuts", [[1, 2, 3, 4, 5, 6, 7], [3], [1, 6]])
def test_the_cache_does_not_change_the_logits(kv_heads: int, cuts: list[int]) -> None:
    model = Llama(random_model(kv_heads=kv_heads))
    whole = model.start_session().feed(IDS)
    session = model.start_session()
    for begin, end in zip([0, *cuts], [*cuts, len(IDS)], strict=True):
        last = session.feed(IDS[begin:end])

    np.testing.assert_allclose(last, whole, rtol=1e-4, atol=1e-5)
    assert session.length == len(IDS)


def test_grouped_query_attention_equals_repeated_keys_and_values() -> None:
    shared = random_model(kv_heads=2)
    full = random_model(kv_heads=4)
    for name, weight in shared.weights.items():
        repeated = weight.reshape(2, 8, -1).repeat(2, axis=0).reshape(32, -1) if name[6:] in KEYS_AND_VALUES else weight
        full.weights[name] = repeated

    np.testing.assert_allclose(
        Llama(shared).start_session().feed(IDS), Llama(full).start_session().feed(IDS), rtol=1e-4, atol=1e-5
    )


KEYS_AND_VALUES = {"attn_k.weight", "attn_v.weight"}


def test_feeding_in_parts_gives_the_same_logits() -> None:
    model = Llama(random_model(kv_heads=4))
    session = model.start_session()
    session.feed(IDS[:4])
    after = session.feed([7])

    np.testing.assert_allclose(after, model.start_session().feed([*IDS[:4], 7]), rtol=1e-4, atol=1e-5)


def test_the_order_of_tokens_matters() -> None:
    model = Llama(random_model(kv_heads=4))

    assert not np.allclose(model.start_session().feed([1, 2, 3]), model.start_session().feed([2, 1, 3]))


def test_a_model_without_an_output_matrix_uses_its_embedding() -> None:
    tied, untied = random_model(kv_heads=4), random_model(kv_heads=4)
    untied.weights["output.weight"] = untied.weights["token_embd.weight"]

    np.testing.assert_array_equal(Llama(tied).start_session().feed(IDS), Llama(untied).start_session().feed(IDS))
