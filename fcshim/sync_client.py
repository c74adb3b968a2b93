"""The synchronous client: a `Client` whose event loop runs in a separate thread.

Rule: every call waits for its result, and the thread ends with the client. `on_event`, and tools that are async
functions, run in that thread.
"""

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from types import TracebackType
from typing import Self, TypeVar, Unpack, overload

from fcshim.agent import DEFAULT_MAX_ROUNDS
from fcshim.client import Client, ClientSettings, Definitions, EventStream, Functions, Output, RunResult
from fcshim.events import JSON, Event
from fcshim.openai import Messages
from fcshim.reply import Reply
from fcshim.sampling import Sampling

Result = TypeVar("Result")

_MAX_WAITING = 256
"""Events of one stream that wait for the caller; beyond it, the upstream waits."""


class SyncClient:
    """`Client` for programs without asyncio; takes the same settings. Use it as a context manager, or call `close`.

    Its methods do what those of `Client` do. They raise `RuntimeError` after `close`, and in async code of the client's
    own thread, which would wait for itself.
    """

    def __init__(self, url: str | None = None, **options: Unpack[ClientSettings]) -> None:
        self._client = Client(url, **options)
        self._thread = _LoopThread()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Stop what is running, close the connections and end the thread."""
        self._thread.close(self._client.aclose)

    def stream(
        self, messages: Messages, tools: Definitions | None = None, **sampling: Unpack[Sampling]
    ) -> "SyncEventStream":
        """Request a reply and return an iterator over its events as they come."""
        return SyncEventStream(self._client.stream(messages, tools, **sampling), self._thread)

    def complete(self, messages: Messages, tools: Definitions | None = None, **sampling: Unpack[Sampling]) -> Reply:
        """Request a reply and return it whole; its calls are not run."""
        return self._thread.wait(self._client.complete(messages, tools, **sampling))

    @overload
    def run(
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
    def run(
        self,
        messages: Messages,
        tools: Functions = (),
        *,
        output_type: None = None,
        max_rounds: int = ...,
        on_event: Callable[[Event], None] | None = ...,
        **sampling: Unpack[Sampling],
    ) -> RunResult[str]: ...

    def run(
        self,
        messages: Messages,
        tools: Functions = (),
        *,
        output_type: JSON = None,
        max_rounds: int = DEFAULT_MAX_ROUNDS,
        on_event: Callable[[Event], None] | None = None,
        **sampling: Unpack[Sampling],
    ) -> RunResult[JSON]:
        """Let the model call Python functions until it answers; return the answer, with the usage of all replies."""
        running = self._client.run(
            messages, tools, output_type=output_type, max_rounds=max_rounds, on_event=on_event, **sampling
        )
        return self._thread.wait(running)

    def models(self) -> list[str]:
        """Return the names of the endpoint's models."""
        return self._thread.wait(self._client.models())


class SyncEventStream:
    """The events of one reply, as they come. Leaving its `with` block, or `close`, cancels the upstream, too."""

    def __init__(self, stream: EventStream, thread: "_LoopThread") -> None:
        self._thread = thread
        self._events: asyncio.Queue[Event | BaseException] = asyncio.Queue(_MAX_WAITING)
        self._taken: deque[Event | BaseException] = deque()
        self._task: Future[None] | None = None  # also if it cannot be started
        self._task = thread.start(_read(stream, self._events))

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Event:
        if not self._taken:
            self._taken += self._thread.wait(self._take())
        if isinstance(self._taken[0], BaseException):  # final: the stream has ended
            raise self._taken[0]
        return self._taken.popleft()  # type: ignore[return-value] # an exception has been raised

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()

    def close(self) -> None:
        """End the stream and close its connection to the upstream, which stops generating then."""
        self._taken = deque([StopIteration()])
        if self._task is not None:
            self._task.cancel()

    async def _take(self) -> list[Event | BaseException]:
        """Return what has come, at least one event."""
        taken = [await self._events.get()]
        while not self._events.empty():
            taken.append(self._events.get_nowait())
        return taken


async def _read(stream: EventStream, events: asyncio.Queue[Event | BaseException]) -> None:
    """Read the stream in one task, as it requires; without a reference to the iterator, so that it can be collected."""
    ended: BaseException = StopIteration()
    try:
        async with stream:
            async for event in stream:
                await events.put(event)
    except Exception as error:  # noqa: BLE001 - whatever it is, the caller's thread raises it
        ended = error
    await events.put(ended)


class _LoopThread:
    """An event loop in a thread, which does not keep the program from ending."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="fcshim client", daemon=True)
        self._thread.start()

    def start(self, work: Coroutine[JSON, JSON, Result]) -> "Future[Result]":
        """Start work in the thread. Raises `RuntimeError` after `close`."""
        if self._loop.is_closed():
            work.close()
            raise RuntimeError("the client is closed")
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def wait(self, work: Coroutine[JSON, JSON, Result]) -> Result:
        """Return what the work returns, or raise what it raises; ctrl-C cancels it."""
        if threading.current_thread() is self._thread:
            work.close()
            raise RuntimeError("a SyncClient waits for itself in async code that it runs: use Client there")
        future = self.start(work)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def close(self, last: Callable[[], Coroutine[JSON, JSON, None]]) -> None:
        """Cancel what runs, do the last work, and end the thread. Does nothing when repeated."""
        if self._loop.is_closed():
            return
        self.wait(self._cancel_all())
        self.wait(last())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _cancel_all(self) -> None:
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            if not task.cancelling():  # a second one would interrupt how it ends
                task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._loop.shutdown_asyncgens()
