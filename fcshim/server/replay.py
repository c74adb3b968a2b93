"""Parses the replies of a record again, and compares the events with the recorded ones.

Rule: the comparison ignores what differs from run to run: ids, borders of chunks and the order of usage. Records that
cannot be parsed again are reported, and do not count as different.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from fcshim.codecs.routes import CODECS, find_route
from fcshim.codecs.upstreams import UPSTREAMS, UpstreamApi
from fcshim.config import ModelConfig
from fcshim.dispatch import make_shim
from fcshim.errors import ConfigError, UpstreamError
from fcshim.events import JSON, Event, Reasoning, Stop, Text, ToolCallEnd
from fcshim.messages import Request
from fcshim.pipeline.backends import BACKENDS, OFF, Backend
from fcshim.pipeline.call_outcome import CallOutcome
from fcshim.pipeline.exchange import Exchange, ExchangeState
from fcshim.pipeline.native import prepare_native

MAX_RECORD = 64 * 2**20
"""Bytes of a record that are read."""
_TIMEOUT = 600.0
_SENT_HEADERS = frozenset({"content-type", "anthropic-version", "anthropic-beta", "x-fcshim-mcp"})


class RecordedRequest(msgspec.Struct, frozen=True, kw_only=True, tag="request", tag_field="type"):
    """The first line of a record."""

    version: int
    id: str
    api: str
    method: str
    path: str
    query: str
    headers: list[tuple[str, str]]
    body: str
    time: float = 0.0
    upstream: str = ""
    upstream_api: UpstreamApi
    settings: ModelConfig
    relayed: bool = False
    ran_tools: bool = False
    withheld: str = ""


class RecordedAttempt(msgspec.Struct, frozen=True, kw_only=True, tag="attempt", tag_field="type"):
    """A request upstream; `reads` are the sizes in bytes of the parts in which the reply came."""

    native: bool
    backend: str = ""
    reason: str = ""
    error: str = ""
    path: str = ""
    body: str = ""
    defects: list[str] = []
    reply: str = ""
    reads: list[int] = []
    events: list[Event] = []


class RecordedCall(msgspec.Struct, frozen=True):
    """A call of the reply, and what became of it."""

    name: str
    dialect: str
    outcome: CallOutcome


class RecordedEnd(msgspec.Struct, frozen=True, kw_only=True, tag="end", tag_field="type"):
    """The last line of a record."""

    status: int
    error: str = ""
    seconds: float = 0.0
    cut: bool = False
    reply: str = ""
    calls: list[RecordedCall] = []


class Record(NamedTuple):
    """One recorded request."""

    request: RecordedRequest
    attempts: list[RecordedAttempt]
    end: RecordedEnd

    def why_not_replayed(self) -> str:
        """Return why its reply cannot be parsed again; empty if it can."""
        reasons = {
            self.request.withheld: bool(self.request.withheld),
            "its reply was relayed": self.request.relayed,
            "tools ran in the proxy": self.request.ran_tools,
            "its reply is not recorded to the end": self.end.cut,
            "it has no reply": not self.attempts or bool(self.attempts[-1].error),
        }
        return next((reason for reason, holds in reasons.items() if holds), "")


def read_record(file: Path) -> Record:
    """Read a record. Raises `ConfigError`."""
    try:
        with file.open("rb") as source:
            data = source.read(MAX_RECORD + 1)
    except OSError as error:
        raise ConfigError(f"{file}: {error.strerror}") from error
    if len(data) > MAX_RECORD:
        raise ConfigError(f"{file}: expected at most {MAX_RECORD} bytes")
    lines = [_line(file, number, line) for number, line in enumerate(data.splitlines(), 1)]
    match lines:
        case [RecordedRequest() as request, *attempts, RecordedEnd() as end]:
            return Record(request, [each for each in attempts if isinstance(each, RecordedAttempt)], end)
        case _:
            raise ConfigError(f"{file}: expected a record as --record writes it: a request, attempts, an end")


def _line(file: Path, number: int, line: bytes) -> RecordedRequest | RecordedAttempt | RecordedEnd:
    try:
        return msgspec.json.decode(line, type=RecordedRequest | RecordedAttempt | RecordedEnd)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise ConfigError(f"{file}: line {number} is not a line of a record: {error}") from error


def recorded_events(record: Record) -> list[Event]:
    """Return the events of the reply as they were."""
    return [event for attempt in _last_chain(record.attempts) for event in attempt.events]


def replayed_events(record: Record, dialect: str = "") -> list[Event]:
    """Parse the reply again, in its own dialect or another one. Raises `FcshimError`."""
    first, *retries = _last_chain(record.attempts)
    exchange = _exchange(record.request, first, dialect)
    events = _feed(exchange, first)
    for attempt in retries:
        if exchange.state is not ExchangeState.DECIDING:
            break
        if exchange.retry(_backend(attempt)):
            events += _feed(exchange, attempt)
    if exchange.state is ExchangeState.DECIDING:
        events += [event for _, event in exchange.give_up()]
    return events


def request_of(recorded: RecordedRequest) -> Request:
    """Decode the client's request. Raises `FcshimError`."""
    codec = next((each for each in CODECS.values() if each.name == recorded.api), None)
    if codec is None:
        raise ConfigError(f"there is no API {recorded.api!r:.80}")
    names = {name.encode() for name, _ in recorded.headers}
    target = find_route(recorded.method, recorded.path, names).make_target(recorded.path, recorded.query.encode())
    request = codec.decode_request(recorded.body.encode(), target)
    return msgspec.structs.replace(request, model=recorded.settings.upstream_model or request.model)


def _last_chain(attempts: Sequence[RecordedAttempt]) -> Sequence[RecordedAttempt]:
    """Return the attempts after the last that failed: a fallback restarts the reply."""
    start = max((at + 1 for at, attempt in enumerate(attempts) if attempt.error), default=0)
    return attempts[start:]


def _exchange(recorded: RecordedRequest, attempt: RecordedAttempt, dialect: str) -> Exchange:
    request, kind = request_of(recorded), UPSTREAMS[recorded.upstream_api]
    settings = msgspec.structs.replace(recorded.settings, dialect=dialect) if dialect else recorded.settings
    exchange = Exchange(max_retries=settings.max_retries, buffered=not request.stream)
    if attempt.native and not dialect:
        exchange.begin(prepare_native(request, name_rules=kind.name_rules, media=True), kind.codec)
    else:
        exchange.begin(make_shim(request, settings, None, _backend(attempt)), kind.codec)
    return exchange


def _backend(attempt: RecordedAttempt) -> Backend:
    return BACKENDS.get(attempt.backend, OFF)


def _feed(exchange: Exchange, attempt: RecordedAttempt) -> list[Event]:
    data, at, events = attempt.reply.encode(), 0, []
    for size in attempt.reads:
        events += [event for _, event in exchange.feed(data[at : at + size])]
        at += size
        if exchange.finished:
            break
    return events + [event for _, event in exchange.close()]


def summary(events: Iterable[Event]) -> list[str]:
    """Return one line for each part of a reply, in which ids and borders of chunks do not matter."""
    lines: list[tuple[str, str]] = []
    for event in events:
        match event:
            case Text(text=text) | Reasoning(text=text) if text:
                kind = "text" if isinstance(event, Text) else "reasoning"
                before = lines.pop()[1] if lines and lines[-1][0] == kind else ""
                lines.append((kind, before + text))
            case ToolCallEnd():
                lines.append(("call", _described(event)))
            case Stop():
                lines.append(("stop", event.stop_reason))
    return [f"{kind} {text if kind in {'call', 'stop'} else _json(text)}" for kind, text in lines]


def _described(call: ToolCallEnd) -> str:
    notes = ["coerced"] if call.coerced else []
    if call.error is not None:
        notes.append(call.error.kind)
    return " ".join([call.tool_call_name, call.tool_call_arguments_complete, *(f"({note})" for note in notes)])


def _json(value: JSON) -> str:
    return msgspec.json.encode(value).decode()


def resent_events(record: Record, url: str) -> list[Event]:
    """Send the client's request to another server in its own API; return the events of the reply. Raises `FcshimError`.

    Credentials are masked in a record, so none are sent.
    """
    import httpx  # noqa: PLC0415 - only where a request is sent

    recorded = record.request
    codec = CODECS.get(recorded.api)
    if codec is None or not recorded.path.startswith("/"):
        raise ConfigError(f"the record names no API and path of it: {recorded.api!r:.80}, {recorded.path!r:.80}")
    headers = {name: value for name, value in recorded.headers if name in _SENT_HEADERS}
    target = url.rstrip("/").removesuffix("/v1") + recorded.path
    try:
        response = httpx.request(
            recorded.method,
            target + ("?" + recorded.query if recorded.query else ""),
            content=recorded.body.encode(),
            headers=headers,
            timeout=_TIMEOUT,
        )
    except (httpx.HTTPError, httpx.InvalidURL, UnicodeEncodeError) as error:
        raise UpstreamError(f"{target}: {error}") from error
    if response.status_code != 200:
        raise codec.decode_error(response.status_code, {}, response.content)
    decoder = codec.decoder()
    return [event for _, event in [*decoder.feed(response.content), *decoder.close()]]
