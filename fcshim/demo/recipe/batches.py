"""Batches of conversations of similar length, as token ids with a mask of the tokens to learn.

Rule: only the assistant's tokens, with the end of its turn, are learnt. The conversations never repeat, and the
iterator never ends.
"""

from collections.abc import Callable, Iterator
from random import Random

import torch
from tokenizers import Tokenizer
from torch import Tensor

from fcshim.demo.chatml import CLOSE, OPEN
from fcshim.demo.conversations import PromptTurn, make_conversation, make_echo_conversation

Sample = tuple[list[int], list[int]]
POOL_SIZE = 300


def make_batches(
    tokenizer: Tokenizer, seed: int, *, max_tokens: int, max_length: int, echo_share: Callable[[], float]
) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield (ids, mask) of about `max_tokens` tokens at most; `echo_share()` is the share of echo conversations."""
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
