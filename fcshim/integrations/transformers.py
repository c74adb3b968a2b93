"""A model of transformers in this process: `Client(generate=TransformersGenerator(model, tokenizer))`.

Rule: special tokens are text, because markers of calls are among them; only those that end a turn are left out.
"""

import functools
import queue
import sys
import threading
from collections.abc import Iterator, Sequence

from fcshim.errors import ConfigError, RequestError
from fcshim.events import JSON, Piece, Stop, Usage
from fcshim.extras import naming_extra
from fcshim.pipeline.stop_sequences import StopSearch

with naming_extra("transformers"):
    import torch
    from llguidance import LLMatcher
    from llguidance.hf import from_tokenizer
    from tokenizers.decoders import DecodeStream
    from transformers import LogitsProcessor
    from transformers.generation.streamers import BaseStreamer


class TransformersGenerator:
    """Call it with text messages of the Chat API; it yields the reply as the model writes it, then usage and stop.

    It is a function for `Client(generate=...)` (with `constrain="llguidance"`), and for `Prepared.events`. `options`
    are arguments of `model.generate` for all replies; what a request says replaces them. Raises `ConfigError` for a
    tokenizer that is not a fast one or has no chat template.
    """

    def __init__(self, model: JSON, tokenizer: JSON, **options: JSON) -> None:
        if not (getattr(tokenizer, "backend_tokenizer", None) and getattr(tokenizer, "chat_template", None)):
            raise ConfigError(f"tokenizer: expected a fast one with a chat template, got {type(tokenizer).__name__}")
        self._model = model
        self._tokenizer = tokenizer
        self._options = options

    def __call__(
        self,
        messages: Sequence[dict[str, JSON]],
        *,
        stop: Sequence[str] = (),
        grammar: str | None = None,
        max_tokens: int | None = None,
        temperature: float | None = None,
        seed: int | None = None,
    ) -> Iterator[Piece]:
        """Yield the reply. `grammar` is of the kind `llguidance`, `seed` is that of torch's global generator.

        Raises `RequestError` for a prompt that fills the model's context, and what `model.generate` raises.
        """
        template = {"add_generation_prompt": True, "return_dict": True, "return_tensors": "pt"}
        prompt = self._tokenizer.apply_chat_template(list(messages), **template).to(self._model.device)
        size = prompt["input_ids"].shape[1]
        context = getattr(self._model.config, "max_position_embeddings", None) or sys.maxsize
        if size >= context:
            raise RequestError(f"messages: {size} tokens exceed the context of {context}")
        limit = max_tokens or self._options.get("max_new_tokens") or context
        options = {**self._options, "max_new_tokens": min(limit, context - size)}
        if temperature is not None:
            options |= {"temperature": temperature, "do_sample": True} if temperature else {"do_sample": False}
        if grammar is not None:
            constraint = GrammarLogitsProcessor(grammar, self._tokenizer)
            options["logits_processor"] = [*options.get("logits_processor", ()), constraint]
        ends = (self._tokenizer.eos_token_id, self._model.generation_config.eos_token_id, options.get("eos_token_id"))
        streamer, search = _Streamer(self._tokenizer.backend_tokenizer, ends), StopSearch(stop)
        thread = threading.Thread(target=self._generate, args=({**prompt, **options}, streamer, seed), daemon=True)
        thread.start()
        try:
            for text in iter(streamer.texts.get, None):
                yield search.feed(text)
                if search.found:
                    break
        finally:
            streamer.abandoned = True
            thread.join()
        if streamer.error is not None and not search.found:
            raise streamer.error
        yield from (search.flush(), Usage(size, streamer.tokens))
        if not (search.found or streamer.ended):
            yield Stop("max_tokens")

    def _generate(self, options: dict[str, JSON], streamer: "_Streamer", seed: int | None) -> None:
        try:
            if seed is not None:
                torch.manual_seed(seed)
            self._model.generate(**options, streamer=streamer)
        except BaseException as error:  # noqa: BLE001 - whatever it is, the reader's thread raises it
            streamer.error = error
        finally:
            streamer.end()


class GrammarLogitsProcessor(LogitsProcessor):
    """Admits only tokens that a grammar of the kind `llguidance` allows, in one reply: no beams, no batches."""

    def __init__(self, grammar: str, tokenizer: JSON) -> None:
        self._grammar, self._tokenizer = grammar, tokenizer
        self._matcher: LLMatcher | None = None

    def __call__(self, input_ids: JSON, scores: JSON) -> JSON:
        """Return the scores, those of other tokens as -inf. `input_ids`: (1, length), `scores`: (1, vocabulary).

        Raises `ConfigError` for a grammar that llguidance rejects, and for another shape.
        """
        if len(input_ids) != 1:
            raise ConfigError(f"grammar: expected one reply, no beams and a batch of 1, got {len(input_ids)}")
        if self._matcher is None:
            self._matcher = LLMatcher(_grammar_tokenizer(self._tokenizer, scores.shape[-1]), self._grammar)
        elif not self._matcher.is_stopped():
            self._matcher.consume_token(input_ids[0, -1].item())
        if self._matcher.is_error():
            raise ConfigError(f"grammar: llguidance rejects it: {self._matcher.get_error():.500}")
        allowed = torch.frombuffer(bytearray(self._matcher.compute_logit_bias()), dtype=torch.uint8)
        return scores.masked_fill(allowed.to(scores.device) == 0, float("-inf"))


_grammar_tokenizer = functools.lru_cache(maxsize=4)(from_tokenizer)
"""llguidance's form of a tokenizer, by the size of its vocabulary: it takes a second to make."""


class _Streamer(BaseStreamer):
    """The text of one reply, a string for each token, how many tokens it has, and whether the model ended it."""

    def __init__(self, tokenizer: JSON, ends: Sequence[JSON]) -> None:
        self._tokenizer = tokenizer
        self._decoder = DecodeStream(skip_special_tokens=False)
        self._ends = frozenset(token for each in ends for token in (each if isinstance(each, list) else [each]))
        self.texts: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self.tokens = -1  # what comes first is the prompt
        self.ended = self.abandoned = False
        self.error: BaseException | None = None

    def put(self, value: JSON) -> None:
        """Take the prompt, then each token."""
        if self.abandoned:
            raise GeneratorExit  # through `model.generate`
        self.tokens += 1
        if self.tokens:
            token = value.flatten()[-1].item()
            self.ended = token in self._ends
            if not self.ended and (text := self._decoder.step(self._tokenizer, token)):
                self.texts.put(text)

    def end(self) -> None:
        """Take the end of the reply."""
        self.texts.put(None)
