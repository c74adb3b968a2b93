"""The requests of the traffic, and how each of them ends.

Rule: where the upstream does not fail, a request is answered; where it fails, its reply may also end with an error in
the form of its API. Only a request whose worker is killed may break off.
"""

import asyncio
import enum
import functools
import json
import random
import re
import socket
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from benchmarks.proxy.load import encode_request
from benchmarks.proxy.upstream import BAD_JSON, CALL, FAULTS, REFUSE, STALL, TEXT
from benchmarks.scale.conversations import Tally, converse

_TIMEOUT = 60.0
"""Seconds after which a reply is one that never ends."""
_CLIENTS = 64
"""Clients that measure the capacity: enough that the proxy always has work."""
_WHOLE_SHARE = 0.2
"""The share of requests whose reply is not streamed."""
_PLAIN_SHARE = 0.2
"""The share of streams without tools, which are relayed where client and upstream have one API."""
_SLOW_READ, _SLOW_PAUSE = 16_384, 0.05
"""Bytes and seconds between two reads of a slow client: its reply of some 600 KB takes two seconds."""
_MAX_PROBLEMS = 20
"""Descriptions of problems that are kept; all are counted."""


class Behavior(enum.Enum):
    """What a client does with its reply."""

    READ = enum.auto()
    READ_SLOWLY = enum.auto()
    LEAVE = enum.auto()


@dataclass(frozen=True)
class Kind:
    """A kind of requests: its part of all, the script of its reply (none for a conversation), the client's behavior."""

    name: str
    part: float
    script: str
    behavior: Behavior = Behavior.READ

    @property
    def upstream_fails(self) -> bool:
        """Whether an error is a right end."""
        return self.script.partition(":")[0] in FAULTS


HEALTHY_KINDS = (Kind("texts", 60, f"{TEXT}:20:0.002"), Kind("calls", 20, f"{CALL}:20:0.002"))
KINDS = (
    *HEALTHY_KINDS,
    Kind("conversations of three turns", 2, ""),
    Kind("clients that read slowly", 1, f"{TEXT}:3000:0", Behavior.READ_SLOWLY),
    Kind("clients that leave", 3, f"{TEXT}:200:0.01", Behavior.LEAVE),
    *(Kind(f"upstream: {kind}", 0.5 if kind == STALL else 2, f"{kind}:5:0.002") for kind in FAULTS),
)


@dataclass(frozen=True)
class ReplyForm:
    """How an API ends a stream, regularly and with an error; the fields of a whole reply and of an error."""

    end: bytes
    error_end: bytes
    fields: frozenset[str]
    error_fields: frozenset[str]


_LAST_EVENT = rb"[^\n]*\n\n\Z"
_CHAT_ERROR = frozenset({"message", "type", "param", "code"})
FORMS = {
    "openai_chat": ReplyForm(
        rb"\ndata: \[DONE\]\n\n\Z", rb'(?:\A|\n)data: \{"error":' + _LAST_EVENT, frozenset({"choices"}), _CHAT_ERROR
    ),
    "openai_responses": ReplyForm(
        rb"\nevent: response\.(?:completed|incomplete)\n" + _LAST_EVENT,
        rb"\nevent: response\.failed\n[^\n]*\n\nevent: error\n" + _LAST_EVENT,
        frozenset({"output", "status"}),
        _CHAT_ERROR,
    ),
    "anthropic": ReplyForm(
        rb"\nevent: message_stop\n" + _LAST_EVENT,
        rb"(?:\A|\n)event: error\n" + _LAST_EVENT,
        frozenset({"content", "stop_reason"}),
        frozenset({"type", "message"}),
    ),
    "gemini": ReplyForm(
        rb'(?:\A|\n)data: [^\n]*"finishReason"' + _LAST_EVENT,
        rb'(?:\A|\n)data: \{"error":' + _LAST_EVENT,
        frozenset({"candidates"}),
        frozenset({"code", "message", "status"}),
    ),
    "ollama": ReplyForm(
        rb'(?:\A|\n)\{[^\n]*"done":true[^\n]*\n\Z',
        rb'(?:\A|\n)\{"error":"[^\n]*\n\Z',
        frozenset({"message", "done_reason"}),
        frozenset(),  # the error is a string
    ),
}
ANSWERED, ERROR, LEFT, CUT, WRONG = "answered", "ended with an error", "left", "cut by a kill", "wrong"
ENDS = (ANSWERED, ERROR, LEFT, CUT)
"""The ends that may be right; every other end is a description of what is wrong, and counts as `WRONG`."""


def judge(api: str, reply: bytes, *, streamed: bool) -> str:
    """Return `ANSWERED`, `ERROR`, or what is wrong with the bytes of a reply."""
    if not is_complete(reply):
        return "it broke off"
    head, _, body = reply.partition(b"\r\n\r\n")
    if b"\r\ntransfer-encoding: chunked" in head.lower():
        body = _join_chunks(body)
    form, status = FORMS[api], head[9:12]
    if streamed and status == b"200":
        ends = {ANSWERED: form.end, ERROR: form.error_end}
        return next((end for end, pattern in ends.items() if re.search(pattern, body)), f"no end: {body[-200:]!r}")
    try:
        document = json.loads(body)
    except ValueError:
        return f"no JSON: {reply[:300]!r}"
    if status == b"200" and form.fields <= document.keys():
        return ANSWERED
    error = document.get("error")
    fields = frozenset(error) if isinstance(error, dict) else None
    right = error and isinstance(error, str) if not form.error_fields else fields and form.error_fields <= fields
    return ERROR if status >= b"400" and right else f"not in the form of its API: {reply[:200]!r}"


def _join_chunks(body: bytes) -> bytes:
    """Return the content of a chunked body."""
    parts, at, size = [], 0, -1
    while size:
        line_end = body.index(b"\r\n", at)
        size = int(body[at:line_end], 16)
        at = line_end + 2 + size + 2
        parts.append(body[line_end + 2 : at - 2])
    return b"".join(parts)


@dataclass
class Outcomes:
    """How the requests of the traffic have ended."""

    ends: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Requests by the name of their kind and their end."""
    problems: list[str] = field(default_factory=list)
    conversations: Tally = field(default_factory=Tally)
    cut_ports: set[int] = field(default_factory=set)
    """Ports of the clients whose worker was killed."""

    def add(self, kind: Kind, api: str, end: str) -> None:
        """Count a request."""
        if end in ENDS and (end != ERROR or kind.upstream_fails):
            self.ends[kind.name, end] += 1
            return
        self.ends[kind.name, WRONG] += 1
        if len(self.problems) < _MAX_PROBLEMS:
            self.problems.append(f"{kind.name}, {api}: {end}")

    @property
    def wrong(self) -> int:
        """The number of requests that did not end as they should."""
        return sum(count for (_, end), count in self.ends.items() if end == WRONG)


class Traffic:
    """Sends requests to a proxy; `choose` decides which."""

    def __init__(self, port: int, choose: random.Random) -> None:
        self._port = port
        self._choose = choose
        self._conversations = 0

    async def measure_capacity(self, seconds: float) -> float:
        """Return the requests per second that are answered where the upstream does not fail."""
        outcomes, until = Outcomes(), time.monotonic() + seconds

        async def ask() -> None:
            while time.monotonic() < until:
                await self._send(self._pick(HEALTHY_KINDS), outcomes)

        await asyncio.gather(*(ask() for _ in range(_CLIENTS)))
        if outcomes.wrong:
            raise RuntimeError(f"{outcomes.wrong} requests were not answered: {outcomes.problems}")
        return outcomes.ends.total() / seconds

    async def run(self, rate: float, seconds: float, outcomes: Outcomes) -> None:
        """Begin `rate` requests of all kinds per second, at random times, and wait for their ends."""
        due, until = time.monotonic(), time.monotonic() + seconds
        async with asyncio.TaskGroup() as tasks:
            while due < until:
                await asyncio.sleep(max(0.0, due - time.monotonic()))
                tasks.create_task(self._send(self._pick(KINDS), outcomes))
                due += self._choose.expovariate(rate)

    def _pick(self, kinds: Sequence[Kind]) -> Kind:
        return self._choose.choices(kinds, [kind.part for kind in kinds])[0]

    async def _send(self, kind: Kind, outcomes: Outcomes) -> None:
        """Make one request and count its end."""
        if not kind.script:
            self._conversations += 1
            await converse(self._port, f"c{self._conversations}", 3, outcomes.conversations, chunks=5, pause=0.002)
            return
        api = self._choose.choice(list(FORMS))
        streamed = kind.behavior is not Behavior.READ or self._choose.random() >= _WHOLE_SHARE
        # What is relayed has the upstream's own form, and the scripted one streams always.
        relayed = streamed and not kind.script.startswith((REFUSE, BAD_JSON)) and self._choose.random() < _PLAIN_SHARE
        request = _encode(kind.script, api, streamed=streamed, offers_tool=not relayed)
        client = _Client(self._port, kind.behavior, leaves_at_once=self._choose.random() < 0.5)
        try:
            async with asyncio.timeout(_TIMEOUT):
                reply = await client.exchange(request, outcomes.cut_ports)
            end = LEFT if reply is None else judge(api, reply, streamed=streamed)
        except TimeoutError:
            end = f"no end within {_TIMEOUT:g} s"
        except OSError as error:
            end = f"it broke off: {error}"
        if end.startswith("it broke off") and client.port in outcomes.cut_ports:
            end = CUT
        outcomes.add(kind, api, end)


@functools.cache
def _encode(script: str, api: str, *, streamed: bool, offers_tool: bool) -> bytes:
    return encode_request(script, api, streamed=streamed, offers_tool=offers_tool)


class _Client:
    """One client on a connection of its own; `port` is its own port."""

    def __init__(self, proxy_port: int, behavior: Behavior, *, leaves_at_once: bool) -> None:
        self.port = 0
        self._proxy_port = proxy_port
        self._behavior = behavior
        self._leaves_at_once = leaves_at_once

    async def exchange(self, request: bytes, cut_ports: set[int]) -> bytes | None:
        """Send a request, and return the bytes of its reply; None if the client leaves. Raises `OSError`."""
        reader, writer = await self._connect()
        cut_ports.discard(self.port)  # it belonged to another client
        try:
            writer.write(request)
            if self._behavior is not Behavior.LEAVE:
                return await self._read(reader)
            if not self._leaves_at_once:
                await reader.read(1)
            return None
        finally:
            if self._behavior is Behavior.LEAVE and self._leaves_at_once:
                await writer.drain()
            writer.close() if self._leaves_at_once else writer.transport.abort()

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        client = socket.socket()
        client.setblocking(False)  # noqa: FBT003 - as sockets want it
        if self._behavior is Behavior.READ_SLOWLY:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _SLOW_READ)
        await asyncio.get_running_loop().sock_connect(client, ("127.0.0.1", self._proxy_port))
        self.port = client.getsockname()[1]
        return await asyncio.open_connection(sock=client, limit=_SLOW_READ)

    async def _read(self, reader: asyncio.StreamReader) -> bytes:
        """Return what was read when the reply is complete, or when the connection is closed."""
        reply = bytearray()
        while not is_complete(reply):
            data = await reader.read(_SLOW_READ)
            if not data:
                break
            reply += data
            if self._behavior is Behavior.READ_SLOWLY:
                await asyncio.sleep(_SLOW_PAUSE)
        return bytes(reply)


def is_complete(reply: bytes | bytearray) -> bool:
    """Return whether a reply has all bytes that its head announces."""
    head_end = reply.find(b"\r\n\r\n")
    if head_end < 0:
        return False
    head = bytes(reply[:head_end]).lower()
    if b"\r\ntransfer-encoding: chunked" in head:
        return reply.endswith(b"\r\n0\r\n\r\n")
    size = re.search(rb"\r\ncontent-length: (\d+)", head)
    return size is not None and len(reply) - head_end - 4 >= int(size[1])
