"""The model: a small llama (RMSNorm, rotary positions, gated MLP) that is initialised with an induction circuit.

Rule: tensor names, layout and rotation are those of llama.cpp, so that the export needs no conversion. Measured: with
this initialisation the model copies after minutes of training; without it the circuit takes hours to emerge.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional


@dataclass(frozen=True)
class NetworkShape:
    """Sizes. The head width is `width / heads`, and must be 64 for `init_induction_heads`."""

    vocabulary: int
    width: int = 192
    layers: int = 3
    heads: int = 3
    hidden: int = 384
    rope_base: float = 1e8
    epsilon: float = 1e-5


class RMSNorm(nn.Module):
    """RMSNorm."""

    def __init__(self, shape: NetworkShape) -> None:
        super().__init__()
        self.epsilon = shape.epsilon
        self.weight = nn.Parameter(torch.ones(shape.width))

    def forward(self, x: Tensor) -> Tensor:
        """Normalise the last axis."""
        return functional.rms_norm(x, (x.shape[-1],), self.weight, self.epsilon)


class TransformerBlock(nn.Module):
    """Attention and gated MLP. The attribute names are those of the GGUF tensors."""

    def __init__(self, shape: NetworkShape) -> None:
        super().__init__()
        self.heads = shape.heads
        self.attn_norm, self.ffn_norm = RMSNorm(shape), RMSNorm(shape)
        self.attn_q, self.attn_k, self.attn_v, self.attn_output = (
            nn.Linear(shape.width, shape.width, bias=False) for _ in range(4)
        )
        self.ffn_gate = nn.Linear(shape.width, shape.hidden, bias=False)
        self.ffn_up = nn.Linear(shape.width, shape.hidden, bias=False)
        self.ffn_down = nn.Linear(shape.hidden, shape.width, bias=False)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        """Add attention and MLP to the residual stream."""
        y = self.attn_norm(x)
        q, k = rotate(self._split(self.attn_q(y)), cos, sin), rotate(self._split(self.attn_k(y)), cos, sin)
        mixed = functional.scaled_dot_product_attention(q, k, self._split(self.attn_v(y)), is_causal=True)
        x = x + self.attn_output(mixed.transpose(1, 2).flatten(2))
        y = self.ffn_norm(x)
        return x + self.ffn_down(functional.silu(self.ffn_gate(y)) * self.ffn_up(y))

    def _split(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)


class Network(nn.Module):
    """Token ids to the last hidden state; `output` gives the logits."""

    def __init__(self, shape: NetworkShape) -> None:
        super().__init__()
        self.shape = shape
        self.token_embd = nn.Embedding(shape.vocabulary, shape.width)
        self.blk = nn.ModuleList(TransformerBlock(shape) for _ in range(shape.layers))
        self.output_norm = RMSNorm(shape)
        self.output = nn.Linear(shape.width, shape.vocabulary, bias=False)
        for name, weight in self.named_parameters():
            if weight.dim() > 1:
                into_residual = name.endswith(("attn_output.weight", "ffn_down.weight"))
                nn.init.normal_(weight, 0, 0.02 / math.sqrt(2 * shape.layers) if into_residual else 0.02)

    def forward(self, ids: Tensor) -> Tensor:
        """Return the normalised hidden state for (batch, time) ids."""
        angles = torch.outer(torch.arange(ids.shape[1]).float(), frequencies(self.shape))
        cos, sin = angles.cos(), angles.sin()
        x = self.token_embd(ids)
        for block in self.blk:
            x = block(x, cos, sin)
        return self.output_norm(x)


def frequencies(shape: NetworkShape) -> Tensor:
    """Return the rotation per position of each pair of channels of a head."""
    head = shape.width // shape.heads
    return shape.rope_base ** (-torch.arange(0, head, 2).float() / head)


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotate neighbouring channels (ggml's NORM rope)."""
    a, b = x[..., 0::2], x[..., 1::2]
    return torch.stack((a * cos - b * sin, a * sin + b * cos), -1).flatten(-2)


@torch.no_grad()
def init_induction_heads(model: Network, *, code: int = 48, reach: int = 900) -> None:
    """Initialise two heads as an induction circuit: find an earlier occurrence of the token, and predict its successor.

    Channels [0, code) have the random code of the token, the next `code` channels that of the previous token (written
    by head 0 of layer 0), the next `code` channels the code that head 0 of layer 1 found (read by the output); one more
    channel is constant. Matching uses only channels that rotate by less than 0.6 rad within `reach` positions.
    """
    shape, constant = model.shape, 3 * code
    head = shape.width // shape.heads
    if head != 64 or shape.width < constant + 16:
        raise ValueError("the induction heads need heads of 64 channels, and a width of three codes and 16 channels")
    turns = frequencies(shape)
    own, before, found = slice(0, code), slice(code, 2 * code), slice(2 * code, constant)
    codes, unit = torch.randn(shape.vocabulary, code), torch.eye(code)

    embedding = model.token_embd.weight.normal_(0, 0.1)
    embedding[:, code:constant] = 0
    embedding[:, own] = 0.5 * codes
    embedding[:, constant] = 2.0
    model.output.weight.normal_(0, 0.02)[:, found] = 0.12 * codes

    first, second = model.blk[0], model.blk[1]
    for block in (first, second):
        for linear in (block.attn_q, block.attn_k, block.attn_v):
            linear.weight[:head] = 0
        block.attn_output.weight[:, :head] = 0
        block.attn_v.weight[:code, own] = unit

    first.attn_q.weight[0:head:2, constant] = 1.3
    first.attn_k.weight[0:head:2, constant] = 1.3 * turns.cos()
    first.attn_k.weight[1:head:2, constant] = 1.3 * turns.sin()
    first.attn_output.weight[before, :code] = 0.32 * unit

    slow = [2 * pair + side for pair in range(head // 2) if turns[pair] * reach < 0.6 for side in (0, 1)]
    match = torch.randn(len(slow), code) / math.sqrt(code)
    second.attn_q.weight[slow, own] = 1.3 * match
    second.attn_k.weight[slow, before] = 1.3 * match
    second.attn_output.weight[found, :code] = 0.6 * unit
