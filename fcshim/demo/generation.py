"""Text generation: the tokenizer, sampling, end tokens, stop strings, and characters that take several tokens.

Rule: text that may be the start of a stop string is not emitted until it is certain that it is not.
"""

import codecs
import functools
import itertools
import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from fcshim.demo.gguf_file import ModelFile, ModelVocabulary
from fcshim.demo.llama import Array, Llama

FinishReason = Literal["stop", "length"]
_SPLIT = re.compile(r"'(?:s|t|re|ve|m|ll|d)| ?[A-Za-z]+| ?[0-9]+| ?[^\sA-Za-z0-9]+|\s+(?!\S)|\s+", re.ASCII)
"""GPT-2's pattern for ASCII, because `re` has no \\p{L} and \\p{N}; `_ascii_equivalent` maps other characters."""


class Tokenizer:
    """Encodes text and decodes tokens with one vocabulary: byte-level BPE.

    GPT-2's splitting and byte alphabet, merges by rank, special tokens anywhere in the text. The tokens are those of
    llama.cpp for `tokenizer.ggml.pre = gpt-2`; a test compares them with a real llama-server.
    """

    def __init__(self, vocabulary: ModelVocabulary) -> None:
        self._ids = {token: position for position, token in enumerate(vocabulary.tokens)}
        self._ranks = {pair: rank for rank, pair in enumerate(vocabulary.merges)}
        self._bytes = [_to_bytes(token) for token in vocabulary.tokens]
        self._special = re.compile(
            "(" + "|".join(re.escape(vocabulary.tokens[i]) for i in sorted(vocabulary.special)) + ")"
        )
        self._encode_word = functools.lru_cache(maxsize=4096)(self._merge)

    def encode(self, text: str) -> list[int]:
        """Return the token ids. The text of a special token becomes that token."""
        ids: list[int] = []
        for position, part in enumerate(self._special.split(text)):
            if position % 2:
                ids.append(self._ids[part])
            else:
                for word in split_words(part):
                    ids += self._encode_word(word)
        return ids

    def token_bytes(self, token: int) -> bytes:
        """Return the bytes of one token, which may be a part of a character."""
        return self._bytes[token]

    def _merge(self, word: str) -> tuple[int, ...]:
        parts = [_ALPHABET[byte] for byte in word.encode(errors="replace")]  # a lone surrogate has no UTF-8
        while len(parts) > 1:
            ranks = [self._ranks.get(pair, len(self._ranks)) for pair in itertools.pairwise(parts)]
            best = min(ranks)
            if best == len(self._ranks):
                break
            at = ranks.index(best)
            parts[at : at + 2] = [parts[at] + parts[at + 1]]
        return tuple(self._ids[part] for part in parts)


def split_words(text: str) -> list[str]:
    """Split text as GPT-2 does before merging: words, numbers and others, each with an optional space before it."""
    ascii_text = text if text.isascii() else "".join(map(_ascii_equivalent, text))
    return [text[match.start() : match.end()] for match in _SPLIT.finditer(ascii_text)]


@functools.lru_cache(maxsize=4096)
def _ascii_equivalent(character: str) -> str:
    if character.isascii():
        return character
    if character.isspace():
        return "\t"
    return {"L": "Z", "N": "0"}.get(unicodedata.category(character)[0], "!")


def _byte_alphabet() -> list[str]:
    """Return GPT-2's table of bytes: printable Latin-1 maps to itself, other bytes to characters from U+0100 on."""
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = iter(range(0x100, 0x200))
    return [chr(byte) if byte in printable else chr(next(others)) for byte in range(256)]


_ALPHABET = _byte_alphabet()
_BYTES = {character: byte for byte, character in enumerate(_ALPHABET)}


def _to_bytes(token: str) -> bytes:
    return bytes(_BYTES[c] for c in token) if all(c in _BYTES for c in token) else token.encode()


@dataclass(frozen=True, slots=True)
class TokenSampling:
    """How the next token is sampled; temperature 0 is greedy."""

    temperature: float = 0.0
    top_p: float = 1.0
    seed: int | None = None


@dataclass(slots=True)
class GenerationStatus:
    """The token count and finish reason of a generation; final when the generator is exhausted."""

    output_tokens: int = 0
    finish_reason: FinishReason = "length"


@dataclass(slots=True)
class _StopStringFilter:
    """Removes the first stop string and what follows; holds back text that may be the start of one."""

    stop_strings: tuple[str, ...]
    _pending: str = ""
    matched: bool = field(default=False, init=False)

    def feed(self, text: str) -> str:
        text = self._pending + text
        found = [position for stop in self.stop_strings if (position := text.find(stop)) >= 0]
        if found:
            self.matched, self._pending = True, ""
            return text[: min(found)]
        keep = 0  # characters at the end that may be the start of a stop string
        for stop in self.stop_strings:
            longer = range(min(len(text), len(stop) - 1), keep, -1)
            keep = next((length for length in longer if stop.startswith(text[-length:])), keep)
        cut = len(text) - keep
        self._pending = text[cut:]
        return text[:cut]

    def close(self) -> str:
        text, self._pending = self._pending, ""
        return text


class Engine:
    """A model with its tokenizer."""

    def __init__(self, file: ModelFile) -> None:
        self.name = file.name
        self.context = file.sizes.context
        self.tokenizer = Tokenizer(file.vocabulary)
        self._model = Llama(file)
        self._end_tokens = file.vocabulary.special

    def generate(
        self,
        prompt: list[int],
        status: GenerationStatus,
        *,
        max_tokens: int,
        stop_strings: tuple[str, ...] = (),
        sampling: TokenSampling,
    ) -> Iterator[str]:
        """Yield the text after `prompt`, a string per token ("" if it completes no character), and update `status`."""
        decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        stopper = _StopStringFilter(stop_strings)
        for token in self._tokens(prompt, min(max_tokens, self.context - len(prompt)), sampling):
            status.output_tokens += 1
            if token in self._end_tokens:
                status.finish_reason = "stop"
                break
            yield stopper.feed(decoder.decode(self.tokenizer.token_bytes(token)))
            if stopper.matched:
                status.finish_reason = "stop"
                return
        yield stopper.close()

    def _tokens(self, prompt: list[int], max_tokens: int, sampling: TokenSampling) -> Iterator[int]:
        session, rng = self._model.start_session(), np.random.default_rng(sampling.seed)
        fresh = prompt
        for _ in range(max_tokens):
            token = sample_token(session.feed(fresh), sampling, rng)
            yield token
            fresh = [token]


def sample_token(logits: Array, sampling: TokenSampling, rng: np.random.Generator) -> int:
    """Return the likeliest token, or one sampled from the likeliest ones whose probabilities sum up to `top_p`."""
    if sampling.temperature <= 0:
        return int(logits.argmax())
    order = np.argsort(-logits)
    weights = np.exp((logits[order] - logits[order[0]]) / sampling.temperature)
    reached = np.cumsum(weights) / weights.sum()
    kept = int(np.searchsorted(reached, sampling.top_p)) + 1
    chances = weights[:kept] / weights[:kept].sum()
    return int(order[rng.choice(len(chances), p=chances)])
