"""The embedded model as a function from messages to text: a model in this process, for examples and tests.

The function has the arguments that `Client(generate=...)` passes; the model takes no grammar.
"""

from collections.abc import Iterator, Sequence

from fcshim.demo.chatml import write_prompt
from fcshim.demo.generation import Engine, GenerationStatus, TokenSampling
from fcshim.demo.gguf_file import load_model
from fcshim.errors import RequestError
from fcshim.events import JSON

__all__ = ["EmbeddedGenerator"]


class EmbeddedGenerator:
    """Call it with text messages of the Chat API; it yields the text of the reply, a string per token.

    Raises `ConfigError` if a package of the extra `demo` is missing.
    """

    def __init__(self) -> None:
        self._engine = Engine(load_model())

    def __call__(
        self,
        messages: Sequence[dict[str, JSON]],
        *,
        stop: Sequence[str] = (),
        grammar: JSON = None,  # noqa: ARG002 - the model takes none
        max_tokens: int | None = None,
        temperature: float | None = None,
        seed: int | None = None,
    ) -> Iterator[str]:
        """Yield the reply's text. Raises `RequestError` for a prompt that is longer than the model's context."""
        prompt = self._engine.tokenizer.encode(write_prompt((each["role"], each["content"]) for each in messages))
        if len(prompt) >= self._engine.context:
            raise RequestError(f"messages: {len(prompt)} tokens exceed the context of {self._engine.context}")
        return self._engine.generate(
            prompt,
            GenerationStatus(),
            max_tokens=self._engine.context if max_tokens is None else max_tokens,
            stop_strings=tuple(stop),
            sampling=TokenSampling(temperature=temperature or 0.0, seed=seed),
        )
