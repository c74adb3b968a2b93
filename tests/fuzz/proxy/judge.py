"""Run a case through a proxy, and check the laws.

A case goes over loopback, through fcshim's own server, to an upstream that plays its bytes. The laws: each request
gets an answer that is valid HTTP and valid in its client's API, or a documented error, with no status of 500 and above
of our own but 502, 503 and 504; nothing of a reply that is as it should be is lost; the log shows no traceback; and no
task, request or upstream exchange is left behind.

Rule: a proxy gets one case at a time, so that a failure belongs to it. Some cases wait for a limit of time, so `_LANES`
upstreams, each with its own proxies, work at once; what the log shows and which tasks are left is theirs together.
"""

import asyncio
import contextlib
import json
import logging
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import h11

from fcshim.codecs.routes import CODECS, find_route
from fcshim.config import Config
from fcshim.events import Error, Event, Stop
from fcshim.reply import fold
from fcshim.server.app import App, create_app
from fcshim.server.run import listen, silence_library_logs
from tests.codecs.test_arbitrary_replies import check_laws
from tests.fuzz.proxy.cases import VARIANTS, Play, ProxyCase, without_chunks
from tests.server.proxy import QuickServer
from tests.server.raw_upstream import RawRequest

_LANES = 12
_PATIENCE = 2.0
"""Seconds of the proxies' limits of time, which a healthy exchange keeps on a busy machine too."""
_TIMEOUTS = ("first_chunk_timeout", "chunk_timeout", "body_timeout", "head_timeout")
_ANSWER_LIMIT = 30.0
_REST_LIMIT = 10.0
_OWN_SERVER_ERRORS = frozenset({502, 503, 504})
_NOT_FOUND = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"


class BrokenLawError(AssertionError):
    """An exchange broke a law."""


@dataclass
class Upstream:
    """An upstream on loopback that plays the replies of the current case."""

    port: int = 0
    plays: list[Play] = field(default_factory=list)
    requests: list[RawRequest] = field(default_factory=list)
    played: list[Play] = field(default_factory=list)
    running: int = 0
    """Exchanges that have not ended."""
    tasks: set[asyncio.Task[None]] = field(default_factory=set)

    def start_case(self, case: ProxyCase) -> None:
        self.plays, self.requests, self.played = list(case.plays), [], []

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError), contextlib.closing(writer):
            while await self._exchange(reader, writer):
                pass

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = await reader.readuntil(b"\r\n\r\n")
        self.running += 1
        try:
            heard = RawRequest(head, b"")
            heard = RawRequest(head, await reader.readexactly(int(heard.headers.get("content-length", 0))))
            if _is_question(heard):
                writer.write(_NOT_FOUND)
                return True
            self.requests.append(heard)
            play = self.plays.pop(0) if len(self.plays) > 1 else self.plays[0]
            self.played.append(play)
            for piece in play.pieces:
                if writer.transport.is_closing():
                    return False
                writer.write(piece.encode("latin-1"))
                await writer.drain()
                await asyncio.sleep(0)
            if play.end == "hang":
                await reader.read()
            elif play.end == "reset":
                writer.transport.abort()
            return play.end == "keep"
        finally:
            self.running -= 1


def _is_question(heard: RawRequest) -> bool:
    """Return whether fcshim itself asks, about models and the kind of server."""
    method, path, _ = heard.request_line.split(" ")
    named = (
        "/v1/models",
        "/models",
        "/props",
        "/api/",
        "/version",
        "/tokenize",
        "/health",
        "/apply-template",
        "/v1beta/models",
    )
    is_list = method == "GET" and (path == "/" or path.startswith(named) or "/v1/" not in path)
    return is_list or path.startswith(("/api/show", "/apply-template", "/tokenize"))


@dataclass
class Answer:
    """What the client got. `status` is 0 without a response; `is_complete`: it ended as its head says."""

    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    is_complete: bool = False
    has_left: bool = False
    problem: str = ""
    """Why it is no HTTP."""


@dataclass
class Proxies:
    """The running proxies by variant, and what went wrong in them."""

    upstream: Upstream
    ports: dict[str, int]
    apps: dict[str, App]
    servers: dict[str, QuickServer]

    async def judge(self, case: ProxyCase) -> None:
        """Run a case. Raises `BrokenLawError`."""
        self.upstream.start_case(case)
        answer = await ask(self.ports[case.variant], case)
        await wait_until_nothing_is_left(lambda: self._left(case))
        check_answer(case, answer, self.upstream)

    def _left(self, case: ProxyCase) -> list[str]:
        """Return what is left of a case."""
        connections = len(self.servers[case.variant].server_state.connections)
        left = [] if self.apps[case.variant].is_idle else ["a request"]
        left += [f"{connections} connections"] if connections else []
        return left + ([f"{self.upstream.running} exchanges with the upstream"] if self.upstream.running else [])


async def wait_until_nothing_is_left(find: Callable[[], list[str]]) -> None:
    """Wait until `find` returns nothing. Raises `BrokenLawError` after `_REST_LIMIT` seconds."""
    deadline = time.monotonic() + _REST_LIMIT
    while left := find():
        if time.monotonic() > deadline:
            raise BrokenLawError(f"left behind: {'; '.join(left)}")
        await asyncio.sleep(0.001)


async def ask(port: int, case: ProxyCase) -> Answer:
    """Send the request; return what came."""
    answer = Answer()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    connection = h11.Connection(h11.CLIENT, max_incomplete_event_size=2**20)
    method = "".join(case.request).partition(" ")[0]
    connection.send(h11.Request(method="HEAD" if method == "HEAD" else "GET", target="/", headers=[("host", "x")]))
    connection.send(h11.EndOfMessage())
    try:
        async with asyncio.timeout(_ANSWER_LIMIT):
            for piece in case.request:
                if writer.transport.is_closing():
                    break
                writer.write(piece.encode("latin-1"))
                await asyncio.sleep(0)
            await _read(reader, writer, connection, case, answer)
    except TimeoutError:
        raise BrokenLawError(f"no end of the answer within {_ANSWER_LIMIT:g} s") from None
    except (ConnectionError, OSError):
        pass
    except h11.RemoteProtocolError as error:
        answer.problem = str(error)
    finally:
        writer.close()
    return answer


async def _read(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    connection: h11.Connection,
    case: ProxyCase,
    answer: Answer,
) -> None:
    count = 0
    while True:
        event = connection.next_event()
        if isinstance(event, h11.Response):
            answer.status = event.status_code
            answer.headers = {name.decode(): value.decode("latin-1") for name, value in event.headers}
        elif isinstance(event, h11.Data):
            answer.body += event.data
        elif isinstance(event, h11.EndOfMessage):
            answer.is_complete = True
            return
        elif event is h11.NEED_DATA:
            if case.reads is not None and count >= case.reads:
                answer.has_left = True
                return
            data = await reader.read(65_536)
            count += len(data)
            if not data:
                return
            connection.receive_data(data)
        elif isinstance(event, h11.ConnectionClosed):
            return


def check_answer(case: ProxyCase, answer: Answer, upstream: Upstream) -> None:
    """Check an answer against the laws. Raises `BrokenLawError`."""
    if answer.has_left:
        return
    if answer.problem:
        raise BrokenLawError(f"no valid HTTP: {answer.problem}")
    sent = [play for play in upstream.played if play.end != "keep" or case.expected is None]
    if not answer.is_complete and not sent and _is_whole(case):
        raise BrokenLawError(f"the answer is cut off after status {answer.status} and {answer.body[-100:]!r}")
    statuses = {_status(play) for play in upstream.played}
    if answer.status >= 500 and answer.status not in _OWN_SERVER_ERRORS | statuses:
        raise BrokenLawError(f"status {answer.status}: {answer.body[:300]!r}")
    if answer.is_complete and not _is_relayed(case, upstream):
        _check_body(case, answer)
    if case.expected is not None:
        _check_nothing_lost(case, answer)


def _is_whole(case: ProxyCase) -> bool:
    """Return whether the request is one that the server must answer."""
    return case.expected is not None


def _status(play: Play) -> int:
    digits = "".join(play.pieces)[9:12]
    return int(digits) if digits.isdigit() else 0


def _is_relayed(case: ProxyCase, upstream: Upstream) -> bool:
    """Return whether the upstream got what the client sent, so that the answer may be the upstream's own."""
    sent = "".join(case.request).partition("\r\n\r\n")[2]
    bodies = {each.encode("latin-1") for each in (sent, without_chunks(sent))}
    return any(heard.body in bodies or not heard.body for heard in upstream.requests)


def _check_body(case: ProxyCase, answer: Answer) -> None:
    if not answer.body:
        return
    kind = answer.headers.get("content-type", "")
    first = "".join(case.request).partition("\r\n")[0].split(" ")
    if kind.startswith("text/plain") and answer.status in {200, 400}:  # "/", and uvicorn's word for what is no HTTP
        return
    if kind.startswith("text/event-stream"):
        documents = [line[6:] for line in answer.body.decode().split("\n") if line.startswith("data: ")]
        _check_documents([each for each in documents if each != "[DONE]"])
    elif kind.startswith("application/x-ndjson"):
        _check_documents([line for line in answer.body.decode().split("\n") if line])
    elif kind.startswith("application/json"):
        _check_documents([answer.body.decode()])
    elif not (
        kind.startswith(("text/html", "text/javascript", "text/css")) or "openmetrics" in kind or answer.status == 307
    ):
        raise BrokenLawError(f"content type {kind!r} with status {answer.status}: {answer.body[:200]!r}")
    path = urlsplit(first[1]).path if len(first) == 3 else ""
    headers = [
        line.partition(":")[0].lower().encode()
        for line in "".join(case.request).partition("\r\n\r\n")[0].split("\r\n")[1:]
    ]
    route = find_route(first[0], path, headers)
    if answer.status >= 400:
        _check_error(route.api.codec.name, answer)
    elif route.operation == "reply" and answer.status == 200:
        _check_events(_events(route.api.codec.name, answer.body))


def _check_documents(texts: list[str]) -> None:
    for text in texts:
        try:
            json.loads(text)
        except ValueError as error:
            raise BrokenLawError(f"no JSON ({error}): {text[:200]!r}") from None


def _check_error(api: str, answer: Answer) -> None:
    error = CODECS[api].decode_error(answer.status, answer.headers, answer.body)
    if "wrong inside" in error.message or not error.message:
        raise BrokenLawError(f"no documented error: {answer.body[:300]!r}")
    fields = json.loads(answer.body)
    if not isinstance(fields, dict) or "error" not in fields:
        raise BrokenLawError(f"no error of the API {api}: {answer.body[:300]!r}")


def _events(api: str, body: bytes) -> list[tuple[int, Event]]:
    decoder = CODECS[api].decoder()
    return [*decoder.feed(body), *decoder.close()]


def _check_events(found: list[tuple[int, Event]]) -> None:
    for choice in {choice for choice, _ in found}:
        try:
            check_laws([event for each, event in found if each == choice])
        except AssertionError as error:
            raise BrokenLawError(f"the events of choice {choice} break a law: {error}: {found!r:.500}") from None


def _check_nothing_lost(case: ProxyCase, answer: Answer) -> None:
    assert case.expected is not None
    if answer.status != 200:
        raise BrokenLawError(f"status {answer.status} for a request as it should be: {answer.body[:300]!r}")
    events = [event for _, event in _events(case.api, answer.body)]
    reply = fold(events)
    text, calls = case.expected
    got = [(call.tool_call_name, json.loads(call.tool_call_arguments_complete)) for call in reply.tool_calls]
    if reply.error is not None or not any(isinstance(event, Stop | Error) for event in events):
        raise BrokenLawError(f"an error: {reply.error}")
    if calls != got or (text != reply.text if not calls else text.strip() != reply.text.strip()):
        raise BrokenLawError(f"expected {text!r} and {calls}, got {reply.text!r} and {got}")


class _Watcher(logging.Handler):
    """Collects what the log must not show: tracebacks, and whatever asyncio and uvicorn report as an error."""

    def __init__(self, log: list[str]) -> None:
        super().__init__(logging.WARNING)
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        if (
            record.exc_info
            or record.name.startswith(("asyncio", "uvicorn"))
            or "something went wrong" in record.getMessage()
        ):
            self._log.append(self.format(record))


@contextlib.contextmanager
def watched_log() -> Iterator[list[str]]:
    """Yield a list that gets the lines of the log that should not be there."""
    log = list[str]()
    watcher, loop = _Watcher(log), asyncio.get_running_loop()
    silence_library_logs()
    logging.getLogger().addHandler(watcher)
    loop.set_exception_handler(lambda _, context: log.append(f"{context.get('message')}: {context.get('exception')!r}"))
    try:
        yield log
    finally:
        loop.set_exception_handler(None)
        logging.getLogger().removeHandler(watcher)


@contextlib.asynccontextmanager
async def running_proxies(patience: float = _PATIENCE) -> AsyncIterator[Proxies]:
    """Run an upstream and a proxy of each variant."""
    upstream = Upstream()
    async with contextlib.AsyncExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        server = await asyncio.start_server(upstream.handle, "127.0.0.1", 0, limit=2**22)
        upstream.port = server.sockets[0].getsockname()[1]
        proxies, tasks = Proxies(upstream, {}, {}, {}), list[asyncio.Task[None]]()
        for name, (api, settings) in VARIANTS.items():
            record = {"record": str(Path(folder) / "records")} if settings.get("inspect") else {}
            config = Config(
                **{
                    **dict.fromkeys(_TIMEOUTS, patience),
                    "upstream": f"http://127.0.0.1:{upstream.port}",
                    "upstream_api": api,
                    "port": 0,
                },
                **{"drain_timeout": 0.0, **record, **settings},
            )
            listener = stack.enter_context(listen(config))
            app = create_app(config)
            served = QuickServer(config, app)
            task = asyncio.create_task(served.serve(sockets=[listener]))
            await served.ready.wait()
            tasks.append(task)
            proxies.ports[name], proxies.apps[name] = listener.getsockname()[1], app
            proxies.servers[name] = served
        yield proxies
        for served in proxies.servers.values():
            served.request_exit()
            served.exit_requested.set()
        await asyncio.gather(*tasks)
        server.close()
        for task in list(upstream.tasks):
            task.cancel()


Failure = tuple[ProxyCase, str]
"""A case and the law that it broke."""


async def judge_all(
    cases: Iterator[ProxyCase], failures: list[Failure], *, lanes: int = _LANES, patience: float = _PATIENCE
) -> int:
    """Judge cases in several lanes, and add to `failures`; return how many there were."""
    running: dict[int, ProxyCase] = {}
    done = 0

    async def work(lane: int, proxies: Proxies) -> None:
        nonlocal done
        for case in cases:
            running[lane], done = case, done + 1
            try:
                await proxies.judge(case)
            except BrokenLawError as error:
                failures.append((case, str(error)))
            if log:
                seeds = ", ".join(str(each.seed) for each in running.values())
                failures.append((case, f"the log, while {seeds} ran: {log[0]}"))
                log.clear()

    async with contextlib.AsyncExitStack() as stack:
        log = stack.enter_context(watched_log())
        all_proxies = [await stack.enter_async_context(running_proxies(patience)) for _ in range(lanes)]
        before = asyncio.all_tasks()
        await asyncio.gather(*(work(*each) for each in enumerate(all_proxies)))
        try:
            await wait_until_nothing_is_left(lambda: _tasks_left(before, all_proxies))
        except BrokenLawError as error:
            failures.append((running[0], str(error)))
    return done


def _tasks_left(before: set[asyncio.Task[object]], all_proxies: list[Proxies]) -> list[str]:
    tasks = asyncio.all_tasks() - before
    return [f"task {task.get_name()}" for task in tasks if not any(task in each.upstream.tasks for each in all_proxies)]
