"""The llama architecture in numpy: float32, with a key-value cache.

Rule: the arithmetic is that of llama.cpp up to rounding (llama.cpp also quantises activations); input are token ids.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fcshim.demo.gguf_file import ModelFile, ModelSizes

Array = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class LayerWeights:
    """The weights of one layer; matrices are transposed for `row @ matrix`, query, key and value are one matrix."""

    attention_norm: Array
    qkv: Array
    attention_out: Array
    mlp_norm: Array
    gate_up: Array
    down: Array


class Llama:
    """The weights of a model, which concurrent sessions share."""

    def __init__(self, file: ModelFile) -> None:
        self.sizes = file.sizes
        self.embedding = file.weights["token_embd.weight"]
        self.output_norm = file.weights["output_norm.weight"]
        self.output = _transposed(file.weights.get("output.weight", self.embedding))
        self.blocks = [_layer_weights(file.weights, f"blk.{layer}.") for layer in range(file.sizes.layers)]
        self.cos, self.sin = _rope_tables(file.sizes)

    def start_session(self) -> "LlamaSession":
        """Start a session without tokens."""
        return LlamaSession(self)


class LlamaSession:
    """One sequence of tokens, with the cache of its keys and values."""

    def __init__(self, model: Llama) -> None:
        self._model = model
        self.length = 0
        sizes = model.sizes
        shape = (sizes.layers, sizes.kv_heads, sizes.context, sizes.width // sizes.heads)
        self._keys, self._values = np.empty(shape, np.float32), np.empty(shape, np.float32)

    def feed(self, ids: list[int]) -> Array:
        """Append tokens and return the logits of the next one. The caller ensures that they fit the context."""
        model, past = self._model, self.length
        self.length += len(ids)
        x = model.embedding[ids]
        for layer, block in enumerate(model.blocks):
            qkv = _norm(x, block.attention_norm, model.sizes.epsilon) @ block.qkv
            x = x + self._attend(layer, qkv, past) @ block.attention_out
            gate, up = np.split(_norm(x, block.mlp_norm, model.sizes.epsilon) @ block.gate_up, 2, axis=-1)
            x = x + (gate / (1 + np.exp(-gate)) * up) @ block.down
        logits: Array = _norm(x[-1], model.output_norm, model.sizes.epsilon) @ model.output
        return logits

    def _attend(self, layer: int, qkv: Array, past: int) -> Array:
        sizes, now = self._model.sizes, self.length
        heads = qkv.reshape(now - past, -1, sizes.width // sizes.heads).transpose(1, 0, 2)
        cos, sin = self._model.cos[past:now], self._model.sin[past:now]
        queries = _rotate(heads[: sizes.heads], cos, sin)
        self._keys[layer, :, past:now] = _rotate(heads[sizes.heads : -sizes.kv_heads], cos, sin)
        self._values[layer, :, past:now] = heads[-sizes.kv_heads :]
        keys, values = self._keys[layer, :, :now], self._values[layer, :, :now]
        # Grouped-query attention: several query heads share one head of keys and values.
        if sizes.kv_heads != sizes.heads:
            shared = sizes.heads // sizes.kv_heads
            keys, values = keys.repeat(shared, axis=0), values.repeat(shared, axis=0)
        scores = queries @ keys.transpose(0, 2, 1) * (queries.shape[-1] ** -0.5)
        # The causal mask. A single new token attends to all positions, so it needs none.
        if now - past > 1:
            scores += np.triu(np.full((now - past, now), -np.inf, np.float32), k=past + 1)
        weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
        softmax: Array = weights / weights.sum(axis=-1, keepdims=True)
        return (softmax @ values).transpose(1, 0, 2).reshape(now - past, -1)


def _layer_weights(weights: dict[str, Array], prefix: str) -> LayerWeights:
    def matrix(*names: str) -> Array:
        return _transposed(np.concatenate([weights[f"{prefix}{name}.weight"] for name in names]))

    return LayerWeights(
        attention_norm=weights[prefix + "attn_norm.weight"],
        qkv=matrix("attn_q", "attn_k", "attn_v"),
        attention_out=matrix("attn_output"),
        mlp_norm=weights[prefix + "ffn_norm.weight"],
        gate_up=matrix("ffn_gate", "ffn_up"),
        down=matrix("ffn_down"),
    )


def _transposed(matrix: Array) -> Array:
    return np.ascontiguousarray(matrix.T)


def _rope_tables(sizes: ModelSizes) -> tuple[Array, Array]:
    head = sizes.width // sizes.heads
    turns = sizes.rope_base ** (-np.arange(0, head, 2, dtype=np.float64) / head)
    angles = np.outer(np.arange(sizes.context), turns)
    return np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)


def _rotate(x: Array, cos: Array, sin: Array) -> Array:
    """Rotate pairs of neighbouring channels by the angle of their position (RoPE)."""
    even, odd = x[..., 0::2], x[..., 1::2]
    result = np.empty_like(x)
    result[..., 0::2] = even * cos - odd * sin
    result[..., 1::2] = even * sin + odd * cos
    return result


def _norm(x: Array, gain: Array, epsilon: float) -> Array:
    mean_square = np.mean(x * x, axis=-1, keepdims=True)
    result: Array = x / np.sqrt(mean_square + np.float32(epsilon)) * gain
    return result
