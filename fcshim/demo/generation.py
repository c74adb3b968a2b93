"""Text generation: sampling, end tokens, stop strings, and characters that take several tokens.

Rule: text that may be the start of a stop string is not emitted until it is certain that it is not.
"""

import codecs
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from fcshim.demo.bpe import Tokenizer
from fcshim.demo.gguf_file import ModelFile
from fcshim.demo.llama import Array, Llama

FinishReason = Literal["stop", "length"]


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
