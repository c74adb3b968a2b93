"""The tokenizer: byte-level BPE with GPT-2's splitting, trained on the conversations.

Rule: no merge contains a space. A word then has the same tokens after a space, a quote or an equals sign, so that
copying is a matter of single tokens, which a model of this size learns in minutes.
"""

from collections.abc import Iterator
from random import Random

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from fcshim.demo.chatml import SPECIAL_TOKENS
from fcshim.demo.conversations import make_conversation

SEED = 7
CONVERSATION_COUNT = 3000


def train_tokenizer(size: int) -> Tokenizer:
    """Train a tokenizer with `size` tokens."""
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
    rng = Random(SEED)
    for _ in range(CONVERSATION_COUNT):
        yield from (turn.text for turn in make_conversation(rng))
