"""Trains the tokenizer, then the model: AdamW for a given time, first on echo conversations, then on calls.

Rule: training ends after a given time, so the learning rate and the mix of data depend on the elapsed share of it.
"""

import logging
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from torch import Tensor, nn
from torch.nn import functional

from fcshim.demo.chatml import CLOSE, OPEN, SPECIAL_TOKENS
from fcshim.demo.conversations import PromptTurn, make_conversation, make_echo_conversation
from fcshim.demo.recipe.network import Network, NetworkShape, init_induction_heads

log = logging.getLogger(__name__)

TOKENIZER_SEED = 7
CONVERSATION_COUNT = 3000


def train_tokenizer(size: int) -> Tokenizer:
    """Train a byte-level BPE tokenizer with GPT-2's splitting and `size` tokens on the conversations.

    No merge contains a space. A word then has the same tokens after a space, a quote or an equals sign, so that copying
    is a matter of single tokens, which a model of this size learns in minutes.
    """
    tokenizer = Tokenizer(models.BPE())
    split = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(" ", "isolated"), split])
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        special_tokens=list(SPECIAL_TOKENS),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(_texts(), trainer)
    tokenizer.pre_tokenizer = split
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def _texts() -> Iterator[str]:
    rng = Random(TOKENIZER_SEED)
    for _ in range(CONVERSATION_COUNT):
        yield from (turn.text for turn in make_conversation(rng))


POOL_SIZE = 300
Sample = tuple[list[int], list[int]]
"""Token ids, and a mask of those to learn: only the assistant's, with the end of its turn."""


@dataclass(frozen=True)
class TrainingPlan:
    """The parameters of the training."""

    minutes: float
    seed: int = 1
    peak_rate: float = 2e-3
    tokens_per_batch: int = 3500
    max_length: int = 900
    bfloat16_share: float = 0.6
    """Share of the time with bfloat16: precise enough at first, and almost twice as fast on CPUs that have it."""
    prompt_weight: float = 0.1
    """Weight of the tokens that are not the assistant's: a small one helps the matching to emerge."""


def train(tokenizer: Tokenizer, plan: TrainingPlan, checkpoint: Path) -> Network:
    """Train a new model; `checkpoint` is overwritten every 100 steps."""
    torch.manual_seed(plan.seed)
    model = Network(NetworkShape(tokenizer.get_vocab_size()))
    init_induction_heads(model)
    matrices = [weight for weight in model.parameters() if weight.dim() > 1]
    gains = [weight for weight in model.parameters() if weight.dim() == 1]
    groups = [{"params": matrices, "weight_decay": 0.1}, {"params": gains, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=plan.peak_rate, betas=(0.9, 0.98))
    started, elapsed, recent = time.monotonic(), 0.0, _Average()
    stream = make_batches(
        tokenizer,
        plan.seed,
        max_tokens=plan.tokens_per_batch,
        max_length=plan.max_length,
        echo_share=lambda: 0.85 if elapsed < 0.12 else 0.4 if elapsed < 0.2 else 0.05,
    )
    for step, (ids, mask) in enumerate(stream):
        elapsed = (time.monotonic() - started) / (60 * plan.minutes)
        if elapsed >= 1:
            break
        for group in optimizer.param_groups:
            group["lr"] = plan.peak_rate * min(1, (step + 1) / 80) * min(1, (1 - elapsed) / 0.6)
        with torch.autocast("cpu", torch.bfloat16, enabled=elapsed < plan.bfloat16_share):
            outcome = _step(model, optimizer, ids, mask, plan.prompt_weight)
        recent.add(*outcome)
        if step % 100 == 0:
            log.info("%5.0f s, step %5d: %s, batch %s", time.monotonic() - started, step, recent, tuple(ids.shape))
            torch.save(model.state_dict(), checkpoint)
    return model


def _step(
    model: Network, optimizer: torch.optim.Optimizer, ids: Tensor, mask: Tensor, prompt_weight: float
) -> tuple[float, float]:
    target, learnt = ids[:, 1:], mask[:, 1:]
    weight = learnt + prompt_weight * (1 - learnt) * (target != 0)
    logits = model.output(model(ids[:, :-1]))
    losses = functional.cross_entropy(logits.flatten(0, 1), target.flatten(), reduction="none").view_as(weight)
    optimizer.zero_grad(set_to_none=True)
    ((losses * weight).sum() / weight.sum()).backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    with torch.no_grad():
        exact = ((logits.argmax(-1) == target) | (learnt == 0)).all(1).float().mean().item()
        return ((losses * learnt).sum() / learnt.sum()).item(), exact


class _Average:
    """Moving averages of the loss on the assistant's tokens, and of the share of conversations without an error."""

    def __init__(self) -> None:
        self.loss = self.exact = 0.0
        self.steps = 0

    def add(self, loss: float, exact: float) -> None:
        self.steps += 1
        share = max(0.03, 1 / self.steps)
        self.loss += share * (loss - self.loss)
        self.exact += share * (exact - self.exact)

    def __str__(self) -> str:
        return f"loss {self.loss:.4f}, exact {self.exact:.3f}"


def make_batches(
    tokenizer: Tokenizer, seed: int, *, max_tokens: int, max_length: int, echo_share: Callable[[], float]
) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield (ids, mask) of conversations of similar length, about `max_tokens` tokens at most, without an end.

    `echo_share()` is the share of echo conversations.
    """
    rng = Random(seed)
    while True:
        pool: list[Sample] = []
        while len(pool) < POOL_SIZE:
            turns = make_echo_conversation(rng) if rng.random() < echo_share() else make_conversation(rng)
            ids, mask = encode(tokenizer, turns, max_length)
            if any(mask):
                pool.append((ids, mask))
        shuffled = list(_batches_by_length(pool, max_tokens))
        rng.shuffle(shuffled)
        yield from map(_tensors, shuffled)


def encode(tokenizer: Tokenizer, turns: list[PromptTurn], max_length: int) -> Sample:
    """Return ids and mask of as many whole turns as fit into `max_length` tokens."""
    start, end = tokenizer.token_to_id(OPEN), tokenizer.token_to_id(CLOSE)
    newline = tokenizer.encode("\n").ids
    ids: list[int] = []
    mask: list[int] = []
    for turn in turns:
        header = [start, *tokenizer.encode(f"{turn.role}\n").ids]
        text = [*tokenizer.encode(turn.text).ids, end]
        if len(ids) + len(header) + len(text) + len(newline) > max_length:
            break
        ids += header + text + newline
        mask += [0] * len(header) + [int(turn.role == "assistant")] * len(text) + [0] * len(newline)
    return ids, mask


def _batches_by_length(pool: list[Sample], tokens: int) -> Iterator[list[Sample]]:
    batch: list[Sample] = []
    for sample in sorted(pool, key=lambda sample: len(sample[0])):
        if batch and (len(batch) + 1) * len(sample[0]) > tokens:
            yield batch
            batch = []
        batch.append(sample)
    yield batch


def _tensors(batch: list[Sample]) -> tuple[Tensor, Tensor]:
    longest = max(len(ids) for ids, _ in batch)
    ids = torch.zeros(len(batch), longest, dtype=torch.long)
    mask = torch.zeros(len(batch), longest)
    for row, (sample, marks) in enumerate(batch):
        ids[row, : len(sample)] = torch.tensor(sample)
        mask[row, : len(marks)] = torch.tensor(marks, dtype=torch.float)
    return ids, mask
