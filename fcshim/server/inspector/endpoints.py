"""Serves the inspector: its page, and the JSON that the page and scripts read.

Rule: the page's files hold nothing private; everything below `/fcshim/api` needs the key, where keys are configured. No
other web origin can read any of it, and the page can load nothing from elsewhere. Our own server gives the inspector a
port, and so an origin, that serves nothing else: nothing of an upstream can run there. Other ASGI servers have one.
"""

import asyncio
import contextlib
import functools
import importlib.resources
from collections.abc import Awaitable, Callable, Iterator
from typing import Self
from urllib.parse import parse_qs
from weakref import WeakKeyDictionary

import msgspec

from fcshim.codecs.framing import write_data
from fcshim.config import NOT_NAMED, Config
from fcshim.dispatch import MIN_SIZE, run_off_loop
from fcshim.errors import RequestError, UpstreamError
from fcshim.server.client_connection import ClientConnection, PingSchedule
from fcshim.server.inspector.capture import CapturedRequest, CaptureRing
from fcshim.server.inspector.playground import MAX_PLAYGROUND_BODY, dialects_for, parse_for_playground, settings_of
from fcshim.server.inspector.resend import MAX_RESEND_BODY, Resender, Serve
from fcshim.server.inspector.summary import RequestSummary, summary_of
from fcshim.server.inspector.views import detail_of
from fcshim.server.reply_strings import reply_strings
from fcshim.upstream.model_report import ModelReport

_ROOT = "/fcshim/"
_API = "/fcshim/api/"
_FILES = {
    "": ("index.html", b"text/html; charset=utf-8"),
    **{
        name: (name, b"text/javascript; charset=utf-8")
        for name in ("main.js", "dom.js", "list.js", "detail.js", "resend.js", "playground.js", "models.js", "api.js")
    },
    "style.css": ("style.css", b"text/css; charset=utf-8"),
}
_SECURITY_HEADERS = (
    (
        b"content-security-policy",
        (
            b"default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; "
            b"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
            b"require-trusted-types-for 'script'; trusted-types 'none'"
        ),
    ),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
)
_PAUSE = 0.1
"""Seconds between two messages to a page: a burst of requests is one message."""
_READING_PAUSE = 1.0
"""Seconds between two messages about a request whose reply has not begun."""
_PING = 15.0
_MAX_LISTED = 5_000


class InspectorEndpoints:
    """The endpoints below `/fcshim/`."""

    def __init__(
        self, config: Config, reports: Callable[[], Awaitable[list[ModelReport]]], ring: CaptureRing, *, port: int = 0
    ) -> None:
        """`port` serves the inspector and nothing else; 0 if it is below `/fcshim/` of the proxy's port."""
        self.port = port
        self._config = config
        self._reports = reports
        self._ring = ring
        self._settings = config.merged_with(None)
        self._dialects = dialects_for(self._settings)
        self._resender = Resender(config, ring)
        self._summaries: WeakKeyDictionary[CapturedRequest, RequestSummary] = WeakKeyDictionary()
        """Of requests that have ended."""

    def serves(self, connection: ClientConnection) -> bool:
        """Return whether a request is for the inspector."""
        if self.port:
            return connection.own_port == self.port
        return self.is_page(connection) or self.is_api(connection)

    def is_page(self, connection: ClientConnection) -> bool:
        """Return whether a request is for a file of the page."""
        path = connection.path
        known = (
            path == "/fcshim"
            or (self.port and path == "/")
            or (path.startswith(_ROOT) and path[len(_ROOT) :] in _FILES)
        )
        return bool(known) and connection.method in {"GET", "HEAD"}

    @staticmethod
    def is_api(connection: ClientConnection) -> bool:
        """Return whether a request is for the inspector's JSON."""
        return connection.path.startswith(_API)

    async def serve_page(self, connection: ClientConnection) -> None:
        """Send a file of the page."""
        if connection.path in {"/", "/fcshim"}:
            connection.prepare(307, [(b"location", _ROOT.encode())])
            await connection.end()
            return
        name, content_type = _FILES[connection.path[len(_ROOT) :]]
        connection.prepare(200, [(b"content-type", content_type), *_SECURITY_HEADERS])
        await connection.end(_read_file(name))

    async def serve_api(self, connection: ClientConnection, serve: Serve) -> None:
        """Answer a request for data; `serve` serves requests that are sent again. Raises `RequestError`."""
        if not self.is_api(connection):
            raise RequestError(
                f"there is nothing at {connection.path!r:.200}; this port serves the inspector, at {_ROOT}",
                status=404,
                kind="not_found",
            )
        path = connection.path[len(_API) :]
        if path == "parse":
            await self._serve_parse(connection)
            return
        if path.startswith("requests/") and path.endswith("/resend"):
            await self._resend(connection, path.removeprefix("requests/").removesuffix("/resend"), serve)
            return
        if connection.method != "GET":
            raise RequestError("expected GET", status=405)
        if path == "requests":
            await self._serve_list(connection)
        elif path.startswith("requests/"):
            capture = self._find(path.removeprefix("requests/"))
            capture.catch_up()
            await _respond(connection, await run_off_loop(MIN_SIZE, functools.partial(detail_of, capture)))
        elif path == "events":
            await self._serve_events(connection)
        elif path == "models":
            await _respond(connection, await self._models())
        else:
            raise RequestError(f"there is nothing at {connection.path!r:.200}", status=404, kind="not_found")

    async def _serve_list(self, connection: ClientConnection) -> None:
        """Send the summaries of the last requests, of those only that have all words of the parameter `text`."""
        captures = self._ring.newest_first()[:_MAX_LISTED]
        for capture in captures:
            capture.catch_up()
        words = SearchWords.from_query(connection.query)
        if words is not None:  # one at a time: requests of clients wait for the same thread
            captures = [each for each in captures if await run_off_loop(MIN_SIZE, functools.partial(words.match, each))]
        found = await run_off_loop(MIN_SIZE, lambda: list(map(self._summary, captures)))
        await _respond(connection, {"requests": found})

    async def _serve_parse(self, connection: ClientConnection) -> None:
        if connection.method != "POST":
            raise RequestError("expected POST", status=405)
        body = await connection.body(MAX_PLAYGROUND_BODY)
        await _respond(
            connection, await run_off_loop(len(body) * 8, functools.partial(parse_for_playground, body, self._dialects))
        )

    async def _resend(self, connection: ClientConnection, capture_id: str, serve: Serve) -> None:
        if connection.method != "POST":
            raise RequestError("expected POST", status=405)
        capture = self._find(capture_id)
        body = await connection.body(MAX_RESEND_BODY)
        await _respond(connection, {"id": await self._resender.send(connection, capture, body, serve)})

    def _find(self, capture_id: str) -> CapturedRequest:
        capture = self._ring.find(capture_id)
        if capture is None:
            raise RequestError(
                f"request {capture_id!r:.40} is not captured, or no longer: --inspect-bytes keeps more",
                status=404,
                kind="not_found",
            )
        return capture

    async def _serve_events(self, connection: ClientConnection) -> None:
        subscriber = self._ring.subscribe()
        if subscriber is None:
            raise RequestError("too many pages are open", status=503, kind="unavailable")
        connection.prepare(200, [(b"content-type", b"text/event-stream"), *_SECURITY_HEADERS])
        pings = PingSchedule(lambda: b": ping\n\n", first_interval=_PING, interval=_PING)
        try:
            async with connection.watch_disconnect(pings):
                await connection.write(b": connected\n\n")
                reading: list[str] = []
                while True:
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(_READING_PAUSE if reading else None):
                            await subscriber.wake.wait()
                    await asyncio.sleep(_PAUSE)
                    subscriber.wake.clear()
                    changed, subscriber.changed = {**dict.fromkeys(reading), **subscriber.changed}, {}
                    captures = [found for each in changed if (found := self._ring.find(each))]
                    for capture in captures:
                        capture.catch_up()
                    summaries = await run_off_loop(MIN_SIZE, lambda: list(map(self._summary, captures)))  # noqa: B023
                    running = [each for each in summaries if each.duration is None]
                    # The replies of these have not begun.
                    reading = [each.id for each in running if each.first_chunk is None or each.reading]
                    await connection.write(write_data(msgspec.json.encode(summaries)))
        finally:
            self._ring.unsubscribe(subscriber)

    def _summary(self, capture: CapturedRequest) -> RequestSummary:
        found = self._summaries.get(capture)
        if found is None:
            found = summary_of(capture)
            if found.duration is not None:
                self._summaries[capture] = found
        return found

    async def _models(self) -> dict[str, object]:
        models, problem = [], ""
        try:
            models = await self._reports() if self._config.upstream != NOT_NAMED or self._config.upstreams else []
        except UpstreamError as error:  # the dialects and the settings are known all the same
            problem = error.message
        return {
            "upstream": ", ".join(self._config.upstreams) or self._config.upstream,
            "upstream_api": self._config.upstream_api,
            "dialects": list(self._dialects),
            "settings": settings_of(self._settings),
            "models": models,
            "problem": problem,
        }


async def _respond(connection: ClientConnection, document: object) -> None:
    await connection.respond(200, msgspec.json.encode(document), *_SECURITY_HEADERS)


@functools.cache
def _read_file(name: str) -> bytes:
    return importlib.resources.files("fcshim.server.inspector").joinpath("page", name).read_bytes()


_MAX_WORDS = 200
"""Characters of what is searched for."""


class SearchWords:
    """Words that all have to occur in a request or its reply, in any case of letters."""

    def __init__(self, words: list[str]) -> None:
        self._words = words

    @classmethod
    def from_query(cls, query: bytes) -> Self | None:
        """Read the parameter `text`; None if it is missing or blank. Raises `RequestError` for one that is too long."""
        text = " ".join(parse_qs(query.decode("latin-1"), max_num_fields=10).get("text", []))
        if len(text) > _MAX_WORDS:
            raise RequestError(f"text: expected at most {_MAX_WORDS} characters, got {len(text)}", param="text")
        words = text.casefold().split()
        return cls(words) if words else None

    def match(self, capture: CapturedRequest) -> bool:
        """Return whether each word occurs. Long work: call it outside of the event loop."""
        missing = self._words
        for text in _texts(capture):
            folded = text.casefold()
            missing = [word for word in missing if word not in folded]
            if not missing:
                return True
        return False


def _texts(capture: CapturedRequest) -> Iterator[str]:
    yield f"{capture.model} {capture.path} {capture.error}"
    try:
        yield from reply_strings(capture.body)
    except RecursionError:
        yield capture.body.decode("utf-8", "replace")
    replies = [capture.decoded(attempt) for attempt in capture.attempts] or [capture.received()]
    for each in replies:
        for reply in each:
            yield "".join(piece.text for piece in reply.pieces)
