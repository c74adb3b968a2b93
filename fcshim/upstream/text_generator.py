"""A function from messages to text in the place of an endpoint, for models in this process.

Rule: functions and iterators that are not async run in threads, so that a slow model does not stop the event loop.
Leaving a reply closes its iterator, which stops the model. What the function raises is raised to the caller.
"""

import contextlib
import functools
import inspect
import threading
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable, Iterator
from typing import Protocol, Self, TypeAlias, get_args

import msgspec
from anyio import to_thread

from fcshim.codecs.base import UpstreamRequest
from fcshim.codecs.json_text import write_json
from fcshim.codecs.openai_chat import OpenAIChat
from fcshim.codecs.upstreams import UpstreamKind
from fcshim.constrain.constraint import Form, grammar_in
from fcshim.errors import ConfigError, UpstreamError
from fcshim.events import JSON, Event, Piece, Reasoning, Stop, Text, Usage
from fcshim.pipeline.backends import OFF, Backend
from fcshim.upstream.endpoint import Upstream
from fcshim.upstream.reply import Headers, Sink, UpstreamReply

Generated: TypeAlias = Piece | Iterable[Piece] | AsyncIterable[Piece]


class Generate(Protocol):
    """A model that only reads and writes text."""

    def __call__(
        self,
        messages: list[dict[str, JSON]],
        /,
        *,
        stop: list[str],
        grammar: JSON,
        max_tokens: int | None,
        temperature: float | None,
        seed: int | None,
    ) -> Generated | Awaitable[Generated]:
        """Return the reply to messages of the Chat API, whose content is text: whole, or in pieces.

        `grammar` is of the kind that the client's `constrain` names, else None.
        """
        ...


class _EventDecoder:
    """Decodes the events that `_GeneratedReply` encodes, one in each read."""

    ended = False
    progress = None

    def __init__(self) -> None:
        self._stopped = False

    def feed(self, data: bytes) -> list[tuple[int, Event]]:
        event = _EVENTS.decode(data)
        self._stopped = self._stopped or isinstance(event, Stop)
        return [(0, event)]

    def close(self) -> list[tuple[int, Event]]:
        return [] if self._stopped else [(0, Stop("complete"))]


_EVENTS: msgspec.json.Decoder[Event] = msgspec.json.Decoder(Text | Reasoning | Usage | Stop)


class _GeneratorCodec(OpenAIChat):
    """Writes requests of the Chat API, whose fields become arguments; reads events."""

    def decoder(self) -> _EventDecoder:
        """Create a decoder for one reply."""
        return _EventDecoder()


class TextGenerator(Upstream):
    """An upstream whose replies a function generates. Raises `ConfigError` for a function with other arguments.

    `constrain` is the kind of grammar that the function takes, or `off`. `model` is the model's name, if it has one.
    """

    def __init__(self, generate: Generate, *, model: str = "", constrain: str = OFF.name) -> None:
        super().__init__("", kind=UpstreamKind("openai", _GeneratorCodec(), version=""))
        _check_arguments(generate)
        self._generate = generate
        self._model = model
        self.backend = _backend_for(constrain)

    @contextlib.asynccontextmanager
    async def send_request(self, request: UpstreamRequest, *, headers: Headers = ()) -> AsyncIterator[UpstreamReply]:  # noqa: ARG002 - no HTTP
        """Call the function with the fields of the request, and open its reply."""
        body: dict[str, JSON] = msgspec.json.decode(request.body)
        fields = body if self.backend.form is not None else {"grammar": body.get("grammar")}
        limit = body.get("max_tokens")
        call = functools.partial(
            self._generate,
            body["messages"],
            stop=body.get("stop", []),
            grammar=grammar_in(fields),
            max_tokens=body.get("max_completion_tokens") if limit is None else limit,
            temperature=body.get("temperature"),
            seed=body.get("seed"),
        )
        async with contextlib.aclosing(_pieces(call)) as pieces:
            yield _GeneratedReply(pieces)

    async def fetch(self, method: str, path: str, content: bytes = b"") -> tuple[int, bytes]:  # noqa: ARG002 - no HTTP
        """Raise `UpstreamError`: a function has no pages."""
        raise UpstreamError(f"a model in this process does not answer {method} {path}")

    async def list_models(self) -> tuple[list[str], bytes]:
        """Return the model's name, if it has one."""
        return ([self._model] if self._model else []), b"{}"


class _GeneratedReply(UpstreamReply):
    """The reply of a function, which is read piece by piece."""

    def __init__(self, pieces: AsyncIterator[Piece]) -> None:
        self.status = 200
        self._pieces = pieces

    async def read_into(self, sink: Sink) -> bool:
        """Pass each piece to `sink` as an event; return true at the end, false if the sink wants no more for now."""
        async for piece in self._pieces:
            event = Text(piece) if isinstance(piece, str) else piece
            if not isinstance(event, get_args(Piece)):
                raise TypeError(f"generate: expected text, got {piece!r:.80}")
            if not sink(write_json(msgspec.to_builtins(event))):
                return False
        return True


async def _pieces(call: Callable[[], Generated | Awaitable[Generated]]) -> AsyncGenerator[Piece, None]:
    """Call the function and yield what it gives, in pieces."""
    function = call.func if isinstance(call, functools.partial) else call
    implementation = function if inspect.isroutine(function) else type(function).__call__
    if inspect.iscoroutinefunction(implementation) or inspect.isasyncgenfunction(implementation):
        generated = call()
    else:
        generated = await to_thread.run_sync(call, abandon_on_cancel=True)
    if inspect.isawaitable(generated):
        generated = await generated
    if isinstance(generated, get_args(Piece)):
        yield generated
        return
    if not isinstance(generated, AsyncIterable | Iterable):
        raise TypeError(f"generate: expected text or an iterable of text, got {type(generated).__name__}")
    iterator = aiter(generated) if isinstance(generated, AsyncIterable) else _ThreadedIterator(iter(generated))
    try:
        async for piece in iterator:
            yield piece
    finally:
        if (close := getattr(iterator, "aclose", None)) is not None:
            await close()


class _ThreadedIterator:
    """Computes each item of an iterator in a thread.

    A cancelled task does not wait for the thread that computes an item, so `aclose` does: one thread uses a model.
    """

    def __init__(self, iterator: Iterator[Piece]) -> None:
        self._iterator = iterator
        self._lock = threading.Lock()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Piece:
        piece = await to_thread.run_sync(self._next)
        if piece is _END:
            raise StopAsyncIteration
        return piece  # type: ignore[return-value] # not the end

    async def aclose(self) -> None:
        """Close the iterator, if it can be closed."""
        await to_thread.run_sync(self._close)

    def _next(self) -> object:
        with self._lock:
            return next(self._iterator, _END)

    def _close(self) -> None:
        with self._lock:
            if (close := getattr(self._iterator, "close", None)) is not None:
                close()


_END = object()
"""Stands for the end of an iterator: a thread cannot pass `StopIteration` on."""


def _check_arguments(generate: Generate) -> None:
    """Raise `ConfigError` if the function cannot be called with the arguments of `Generate`."""
    if not callable(generate):
        raise ConfigError(f"generate: expected a function, got {generate!r:.80}")
    try:
        signature = inspect.signature(generate)
    except ValueError:  # functions in C do not say which arguments they take
        return
    try:
        signature.bind([], stop=[], grammar=None, max_tokens=None, temperature=None, seed=None)
    except TypeError as error:
        expected = "generate(messages, *, stop, grammar, max_tokens, temperature, seed)"
        raise ConfigError(f"generate: expected a function {expected}, but it has {signature}: {error}") from error


def _backend_for(constrain: str) -> Backend:
    """Return the backend of a function that takes grammars of this kind. Raises `ConfigError`."""
    if constrain == OFF.name:
        return OFF
    for form in get_args(Form):
        if constrain == form:
            return Backend(form, f"a function that takes a grammar of the kind {form}", form, demanded=True)
    raise ConfigError(
        f"constrain: expected off or one of {', '.join(get_args(Form))} with generate, got {constrain!r:.80}"
    )
