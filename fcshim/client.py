"""The async client: tool calling with an endpoint that has none.

Rule: an error before the first event is raised; after it, an error is an `Error` event, as in every stream. Options of
a request are those of `Sampling`; an unknown one is a `TypeError`.
"""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Generic, Self, TypeAlias, TypeVar, Unpack, overload

import msgspec

from fcshim import openai
from fcshim.agent import DEFAULT_MAX_ROUNDS, Round, rounds, total_usage
from fcshim.agent.loop import check_mended, executable_calls
from fcshim.agent.output import FINAL_ANSWER, OutputTool
from fcshim.codecs.model_info import ModelInfo, read_models
from fcshim.codecs.prompt_progress import PromptProgress
from fcshim.codecs.upstreams import UPSTREAMS, UpstreamApi
from fcshim.config import ModelOptions, ModelSettings, Secret, endpoint_url
from fcshim.config.values import check_address
from fcshim.dispatch import AttemptPlanner, RequestAttempts
from fcshim.errors import ConfigError, ModelOutputError, RequestError, UpstreamError
from fcshim.events import JSON, Error, Event
from fcshim.messages import AUTO, Message, Request, Tool, ToolChoice, as_tools
from fcshim.openai import Messages
from fcshim.parse.dialect import Dialect
from fcshim.pipeline.attempt import Batch
from fcshim.prompt.profiles import AUTO as AUTO_SETTING
from fcshim.prompt.profiles import chosen_profile
from fcshim.reply import Reply, fold
from fcshim.sampling import Sampling, request_fields
from fcshim.tools import AnyTool, Executor, FunctionTool, Registry
from fcshim.upstream import Timeouts, Upstream
from fcshim.upstream.capabilities import Capabilities
from fcshim.upstream.model_pages import complete_model
from fcshim.upstream.text_generator import Generate, TextGenerator

Functions: TypeAlias = Executor | Registry | Iterable[AnyTool | Callable[..., JSON]]
"""Tools that run in this process; an `Executor` sets limits other than the defaults."""
Definitions: TypeAlias = Functions | Iterable[Tool | dict[str, JSON] | AnyTool | Callable[..., JSON]]
"""Tools to offer to the model: definitions (objects, or dicts of the Chat API), or tools that run in this process."""
Output = TypeVar("Output")


class RunResult(Reply, Generic[Output], frozen=True, kw_only=True):
    """The last reply of a run, with the usage of all replies.

    `text` is the answer, and `output` is the answer as a value of the output type. `messages` is the conversation
    including the answer; append a message to continue it.
    """

    messages: tuple[Message, ...]
    output: Output


_NAME_MODEL = "name the model: Client(..., model=...)"
_DEFAULT_TIMEOUTS = Timeouts()


class ClientSettings(ModelOptions, total=False):
    """The arguments of `Client` after its URL, for what passes them on."""

    generate: Generate | None
    api: UpstreamApi
    model: str | None
    dialect: str | Dialect | None
    api_key: str | None
    constrain: str
    measured: bool
    timeouts: Timeouts
    new_id: Callable[[], str] | None


class Client:
    """Get replies with tool calls from the model at `url` (with or without `/v1`). Use it as a context manager.

    `generate` takes the place of `url` for a model in this process: `generate(messages, *, stop, grammar, max_tokens,
    temperature, seed)` returns text, or an iterable or async iterable of it. `api`, `api_key`, `timeouts` and
    `measured` are of endpoints only, and `constrain` then names the kind of grammar that the function takes (`gbnf`,
    `regex`, ...; none by default).

    `api`: the API that the endpoint speaks (a row of `codecs.upstreams`). `model`: by default the first one that the
    endpoint lists. `dialect`: the format in which the model writes calls, by default chosen by the model (`None` is
    short for native tools). `constrain`: `auto` lets the endpoint constrain required calls to their schemas if it can,
    `off` does not; the name of a backend replaces detection. `measured`: what was measured for the model (`fcshim
    doctor`) and its chat template decide what is left to the defaults; without it only the model's name does. `new_id`:
    as for `StreamParser`.

    `settings` are those that a model may have for itself, with the same defaults (`fcshim serve --help-all`).
    If one is given that only a prompt has (`dialect`, `prompt_style`, `max_tools`, ...), tools are described in the
    prompt, unless `tools` says otherwise.

    An address without a scheme (`localhost:8080`) gets `http://`.

    Raises `ConfigError` for an invalid `url`, or an unknown api, dialect, profile, prompt style, reasoning tag or
    backend.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        generate: Generate | None = None,
        api: UpstreamApi = "openai",
        model: str | None = None,
        dialect: str | Dialect | None = AUTO_SETTING,
        api_key: str | None = None,
        constrain: str = AUTO_SETTING,
        measured: bool = True,
        timeouts: Timeouts = _DEFAULT_TIMEOUTS,
        new_id: Callable[[], str] | None = None,
        **settings: Unpack[ModelOptions],
    ) -> None:
        if generate is not None:
            if url is not None:
                raise ConfigError("generate: expected a url or a function that generates text, got both")
            if settings.get("tools") == "native" or dialect is None:
                raise ConfigError("tools: a function that generates text has no native tools, expected 'prompt'")
            settings["tools"], measured, model = "prompt", False, model or ""
            generator = TextGenerator(
                generate, model=model, constrain="off" if constrain == AUTO_SETTING else constrain
            )
            self._upstream: Upstream = generator
            self._capabilities = Capabilities(generator, generator.backend)
        else:
            if api not in UPSTREAMS:
                raise ConfigError(f"there is no API {api!r}. Known are {', '.join(UPSTREAMS)}")
            url = endpoint_url(url) if url else ""
            check_address(url, "url")
            key = Secret(api_key) if api_key else None
            self._upstream = Upstream(url, key=key, timeouts=timeouts, kind=UPSTREAMS[api])
            self._capabilities = Capabilities(self._upstream, constrain)
        self._model = model
        self._measured = measured
        self._model_lock = asyncio.Lock()
        self._new_id = new_id
        if dialect is None:
            dialect, settings["tools"] = AUTO_SETTING, "native"
        self._settings = ModelSettings(dialect=dialect, **settings).merged_with()
        self._settings.check_names()  # now instead of at the first request

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the connections."""
        await self._upstream.aclose()

    def stream(
        self, messages: Messages, tools: Definitions | None = None, **sampling: Unpack[Sampling]
    ) -> "EventStream":
        """Request a reply and return its events as they come.

        `sampling` are fields of the Chat API: `temperature`, `max_tokens`, `tool_choice`, `stop`, ..., and in
        `extra_body` any other. Raises `RequestError` at once, and `UpstreamError` when the first event is read; after
        that, an upstream that fails ends the events with an `Error`.
        """
        return self._stream(read_request(messages, definitions_of(tools), sampling))

    async def complete(
        self, messages: Messages, tools: Definitions | None = None, **sampling: Unpack[Sampling]
    ) -> Reply:
        """Request a reply and return it whole; its calls are not run. Raises `RequestError` and `UpstreamError`."""
        reply, _ = await self._complete(read_request(messages, definitions_of(tools), sampling))
        return reply

    @overload
    async def run(
        self,
        messages: Messages,
        tools: Functions = (),
        *,
        output_type: type[Output],
        max_rounds: int = ...,
        on_event: Callable[[Event], None] | None = ...,
        **sampling: Unpack[Sampling],
    ) -> RunResult[Output]: ...

    @overload
    async def run(
        self,
        messages: Messages,
        tools: Functions = (),
        *,
        output_type: None = None,
        max_rounds: int = ...,
        on_event: Callable[[Event], None] | None = ...,
        **sampling: Unpack[Sampling],
    ) -> RunResult[str]: ...

    async def run(
        self,
        messages: Messages,
        tools: Functions = (),
        *,
        output_type: JSON = None,
        max_rounds: int = DEFAULT_MAX_ROUNDS,
        on_event: Callable[[Event], None] | None = None,
        **sampling: Unpack[Sampling],
    ) -> RunResult[JSON]:
        """Let the model call Python functions until it answers; return the answer, with the usage of all replies.

        With an `output_type` (a pydantic model, a dataclass, a TypedDict, `list[int]`, ...) `output` is a value of it:
        the model answers by calling a tool `final_answer`. `on_event` receives every event of every reply. Raises as
        `complete` does, and `ModelOutputError` with what the model wrote in `raw`: kind `max_rounds` if the last
        allowed reply still calls a tool, `invalid_call` if a call stayed invalid after all retries, `truncated` if the
        last reply broke off in its calls, `missing_call` if a demanded call did not come, `invalid_output` if the
        answer is not of the type.
        """
        executor = tools if isinstance(tools, Executor) else Executor(tools)
        output = None if output_type is None else OutputTool(output_type)
        if output is not None:
            executor = executor.extended(output)
        results = [
            each
            async for each in self._rounds(
                read_request(
                    messages,
                    executor.definitions,
                    {**sampling, "tool_choice": sampling.get("tool_choice") or "required"} if output else sampling,
                ),
                executor,
                max_rounds=max_rounds,
                on_event=on_event,
                final_tool=FINAL_ANSWER if output else "",
            )
        ]
        last = results[-1]
        _check_answer(last)
        text = last.answer or ""
        fields = {name: getattr(last.reply, name) for name in Reply.__struct_fields__}
        fields |= {"text": text, "usage": total_usage(each.reply.usage for each in results)}
        value = text if output is None else output.value_or_text(text)
        return RunResult(messages=last.messages, output=value, **fields)

    async def rounds(
        self,
        messages: Messages,
        tools: Functions,
        *,
        max_rounds: int = DEFAULT_MAX_ROUNDS,
        on_event: Callable[[Event], None] | None = None,
        **sampling: Unpack[Sampling],
    ) -> AsyncIterator[Round]:
        """Do what `run` does, and yield every round: the reply, and the conversation including it."""
        executor = tools if isinstance(tools, Executor) else Executor(tools)
        first = read_request(messages, executor.definitions, sampling)
        async for each in self._rounds(first, executor, max_rounds=max_rounds, on_event=on_event):
            yield each

    async def _rounds(
        self,
        first: Request,
        executor: Executor,
        *,
        max_rounds: int,
        on_event: Callable[[Event], None] | None,
        final_tool: str = "",
    ) -> AsyncIterator[Round]:
        async def ask(conversation: tuple[Message, ...]) -> Reply:
            request = _continue_request(first, conversation, call_ends=bool(final_tool))
            reply, stream = await self._complete(request, on_event)
            if not final_tool:  # else the caller reads the reply, which may be the answer although it is not a call
                if request.tool_choice.mode == "required" and not reply.tool_calls:
                    message = stream.remaining_defects or "no call came although one was demanded"
                    raise ModelOutputError(message, kind="missing_call", raw=stream.raw_text or reply.text)
                check_mended(reply, stream.remaining_defects, stream.raw_text)
            return reply

        async for each in rounds(ask, first.messages, executor, max_rounds=max_rounds, final_tool=final_tool):
            yield each

    async def _complete(
        self, request: Request, on_event: Callable[[Event], None] | None = None
    ) -> tuple[Reply, "EventStream"]:
        """Return the reply, and its stream, which knows the defects that remain after all retries."""
        events: list[Event] = []
        async with self._stream(request, buffered=on_event is None) as stream:
            async for event in stream:
                events.append(event)
                if on_event is not None:
                    on_event(event)
        reply = fold(events)
        if reply.error is not None:
            raise UpstreamError(reply.error.message, kind=reply.error.kind)
        return reply, stream

    def _stream(self, request: Request, *, buffered: bool = False) -> "EventStream":
        queue = _EventQueue()
        return EventStream(self._events(request, queue, buffered=buffered), queue)

    async def _events(
        self, request: Request, queue: "_EventQueue", *, buffered: bool = False
    ) -> AsyncGenerator[Event, None]:
        if not request.model:
            request = msgspec.structs.replace(request, model=await self._default_model())
        settings = self._settings
        if self._measured:
            settings = await self._capabilities.models.resolve(settings, request.model)
        attempts = RequestAttempts(
            AttemptPlanner(request, settings, self._capabilities, self._new_id, buffered=buffered)
        )
        queue.attempts = attempts
        try:
            async with contextlib.aclosing(attempts.run(queue)) as pauses:
                async for _ in pauses:
                    for event in queue.take():
                        yield event
            queue.remaining_defects, queue.raw_text = attempts.remaining_defects, attempts.raw_text
        except UpstreamError as error:
            rest = [event for _, event in attempts.fail(error)]
            if not queue.started and (not rest or isinstance(rest[-1], Error)):
                raise
            for event in rest:
                yield event

    async def models(self) -> list[str]:
        """Return the names of the endpoint's models. Raises `UpstreamError`."""
        names, _ = await self._upstream.list_models()
        return names

    async def image_refusal(self, model: str = "") -> str:
        """Return why images do not reach a model, according to its profile and its server; empty if they may.

        Raises `UpstreamError` if the server does not answer.
        """
        name = model or await self._default_model()
        settings = await self._capabilities.models.resolve(self._settings, name, probe=False)
        profile = chosen_profile(settings.profile, settings.real_name or name)
        if not profile.media:
            return f"requests to {name} are written for a model that takes only text (profile {profile.name})"
        return await self._capabilities.image_refusal(name)

    async def context_length(self, model: str = "") -> int:
        """Return the tokens that fit the context of a model, as its server says; 0 if it does not.

        Raises `UpstreamError` if the server does not list its models.
        """
        name = model or await self._default_model()
        names, listed = await self._upstream.list_models()
        found = next((each for each in read_models(listed) if each.name == name), ModelInfo(name=name))
        return (await complete_model(self._upstream, found, name, alone=len(names) == 1)).context_length

    async def _default_model(self) -> str:
        async with self._model_lock:
            if self._model is None:
                self._model = await self._first_listed_model()
            return self._model

    async def _first_listed_model(self) -> str:
        codec = self._upstream.kind.codec
        status, body = await self._upstream.fetch("GET", codec.models_path)
        if status != 200:
            error = codec.decode_error(status, {}, body)
            if isinstance(error, UpstreamError) and error.key_refused:
                raise error
            raise UpstreamError(
                f"{error.message}. If it does not list its models, {_NAME_MODEL}", status=error.status, kind=error.kind
            )
        names = codec.decode_models(body)
        if not names:
            raise UpstreamError(
                f"{self._upstream.url} lists no models. Is it the address of the API, and is a model loaded? "
                f"If so, {_NAME_MODEL}"
            )
        return names[0]


class _EventQueue:
    """Hands the events of one reply from the driver to the caller; implements `dispatch.ReplySink`."""

    def __init__(self) -> None:
        self.started = False
        self.remaining_defects = self.raw_text = ""
        """The defects that the reply still has after all retries, once it has ended; and what the model wrote then."""
        self.attempts: RequestAttempts | None = None
        """Those of the reply, once it has begun."""
        self._events: list[Event] = []

    def restart(self) -> None:
        """Do nothing: events are handed on at once, so none is left to discard when another attempt starts."""

    def feed(self, batch: Batch) -> bool:
        """Take the events of one read. The next read waits until the caller has taken them."""
        self._events += [event for _, event in batch]
        self.started = self.started or bool(batch)
        return not batch

    def close(self, batch: Batch) -> None:
        """Take the last events of the reply."""
        self.feed(batch)

    def take(self) -> list[Event]:
        """Return the events that the caller does not have yet."""
        events, self._events = self._events, []
        return events


class EventStream:
    """The events of one reply, as they come. Leaving its `async with` block, or `aclose`, cancels the upstream, too.

    Read it only in the task that read its first event.
    """

    def __init__(self, events: AsyncGenerator[Event, None], queue: _EventQueue) -> None:
        self._events = events
        self._queue = queue

    @property
    def remaining_defects(self) -> str:
        """The defects that the reply still has after all retries, as a phrase, once it has ended; empty without any."""
        return self._queue.remaining_defects

    @property
    def raw_text(self) -> str:
        """What the model wrote, with markup, if defects remain; empty without any."""
        return self._queue.raw_text

    @property
    def progress(self) -> PromptProgress | None:
        """How far the server has read the prompt; None while it has not said so (llama-server does)."""
        return None if self._queue.attempts is None else self._queue.attempts.progress

    @property
    def prompt_tokens(self) -> int:
        """The estimated tokens of the prompt, once it is written; 0 before."""
        return 0 if self._queue.attempts is None else self._queue.attempts.prompt_tokens

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Event:
        return await anext(self._events)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """End the stream and close its connection to the upstream, which stops generating then."""
        await self._events.aclose()


def definitions_of(tools: Definitions | None) -> tuple[Tool, ...]:
    """Return the definitions of tools. Raises `RequestError` and `ConfigError`."""
    if isinstance(tools, Executor | Registry):
        return tools.definitions
    definitions: list[Tool | dict[str, JSON]] = []
    for each in tools or ():
        if isinstance(each, Tool | dict):
            definitions.append(each)
        else:
            definitions.append((each if isinstance(each, AnyTool) else FunctionTool(each)).definition)
    return as_tools(definitions)


def read_request(messages: Messages, tools: Sequence[Tool], sampling: Mapping[str, JSON]) -> Request:
    """Make a request from messages, tools and options. Raises `RequestError`, and `TypeError` for an unknown option."""
    request = openai.read_request(messages, tools, request_fields(sampling))
    if request.n > 1:
        raise RequestError("n: the client reads one choice; ask again for more", param="n")
    return request


def _continue_request(first: Request, conversation: tuple[Message, ...], *, call_ends: bool) -> Request:
    """Return the request of a later round.

    A call is only required in the first round, or the model would never answer with text. If a call ends the run
    (`call_ends`), every round requires one.
    """
    if len(conversation) == len(first.messages):
        return first
    required = ToolChoice("required") if call_ends else AUTO
    choice = required if call_ends or first.tool_choice.mode == "required" else first.tool_choice
    return msgspec.structs.replace(first, messages=conversation, tool_choice=choice)


def _check_answer(last: Round) -> None:
    """Raise `ModelOutputError` if the last reply has calls that could not be executed, because it broke off."""
    calls = last.reply.tool_calls
    if calls and not executable_calls(last.reply):
        message = f"the last reply broke off in its calls ({last.reply.stop_reason}); they were not run"
        raw = "\n".join(call.error.raw if call.error else call.tool_call_arguments_complete for call in calls)
        raise ModelOutputError(message, kind="truncated", raw=raw)
