"""Observers of requests: errors and delays of one affect neither the request nor the other observers."""

import functools
import logging
import threading

import pytest

from fcshim.codecs.openai_chat import OPENAI_CHAT
from fcshim.codecs.routes import find_route
from fcshim.config import Config
from fcshim.messages import Request, TextPart, UserMessage
from fcshim.pipeline.exchange import Exchange
from fcshim.pipeline.response import StreamedResponse
from fcshim.server.app import create_app
from fcshim.server.client_connection import ClientConnection
from fcshim.server.inspector.capture import CaptureRing
from fcshim.server.metrics import Metrics
from fcshim.server.observation import RequestObserver, RequestObservers
from fcshim.server.observed_request import ObservedRequest
from fcshim.server.recording import _MAX_WAITING, Recorder, Recording
from tests.scripted import text_chunk
from tests.server.proxy import CALL, CHAT, chat_body, http_client, post_chat, running_app, stream_documents
from tests.server.raw_upstream import raw_upstream, stream_texts
from tests.server.test_api_pairs import IDENTITY
from tests.steps import steps

HOOKS = [
    *("on_request", "begin_attempt", "on_events", "on_seconds", "on_reads", "end_attempt", "on_relayed"),
    *("on_status", "on_write", "end"),
]


class Faulty(RequestObserver):
    """Raises in one of its methods; `told` has the names of all that were called."""

    wants_reads = wants_writes = wants_seconds = True

    def __init__(self, hook: str) -> None:
        self.told: list[str] = []
        for name in HOOKS:
            setattr(self, name, self._hook(name, name == hook))

    def _hook(self, name: str, fails: bool):
        def tell(*_, **__):
            self.told.append(name)
            if fails:
                raise ValueError("this observer is broken")

        return tell


class Observes:
    """An observer of a server, whose observers of requests are those that `begin` makes."""

    def __init__(self, begin) -> None:
        self.begun: list[RequestObserver] = []
        self._begin = begin

    def begin(self, _seen) -> RequestObserver:
        self.begun.append(self._begin())
        return self.begun[-1]

    def close(self) -> None:
        pass


async def observed_reply(*begin, tools: bool = True):
    """Serve one request with these observers; return its response and the observers of the request."""
    async with raw_upstream(stream_texts(*(CALL[at : at + 3] for at in range(0, len(CALL), 3)))) as upstream:
        app = create_app(Config(upstream=upstream.url, port=0, metrics=True))
        observers = [Observes(each) for each in begin]
        app.state.observers.listed = [*app.state.observers.listed, *observers]
        async with running_app(app) as url, http_client(url) as client:
            response = await client.post("/v1/chat/completions", json=chat_body(tools=tools))
            figures = (await client.get("/metrics")).text
    return response, figures, [each.begun[0] for each in observers if each.begun]


@pytest.mark.parametrize("tools", [True, False], ids=["emulated", "relayed"])
@pytest.mark.parametrize("hook", HOOKS)
async def test_an_observer_that_raises_harms_neither_the_request_nor_the_others(hook, tools, caplog):
    response, figures, (first, faulty, last) = await observed_reply(
        lambda: Faulty(""), lambda: Faulty(hook), lambda: Faulty(""), tools=tools
    )
    documents = stream_documents(response)
    failures = [record for record in caplog.records if "Faulty failed" in record.getMessage()]

    assert (200, "DONE") == (response.status_code, documents[-1])
    assert first.told == last.told
    assert len(failures) == (hook in first.told)
    assert "end" == faulty.told[-1]
    assert set(faulty.told[:-1]) <= set(first.told[: first.told.index(hook) + 1] if hook in first.told else first.told)
    assert "fcshim_live_requests{" in figures
    assert 'status="200"' in figures


async def test_an_observer_that_cannot_begin_is_left_out(caplog):
    def fail():
        raise ValueError("this observer is broken")

    response, _, (other,) = await observed_reply(fail, lambda: Faulty(""))

    assert 200 == response.status_code
    assert "end" == other.told[-1]
    assert "Observes failed" in caplog.text


async def test_all_chunks_are_reported_in_their_order():
    taken = []

    class Keeper(RequestObserver):
        wants_reads = wants_writes = True

        def on_reads(self, reads) -> None:
            taken.append(reads.read.data)

    _, _, _ = await observed_reply(Keeper)
    texts = b"".join(taken)

    assert texts.endswith(b"data: [DONE]\n\n")
    assert len(CALL) // 3 <= texts.count(b"data: ")


async def test_a_disk_that_hangs_holds_up_no_request_and_what_waits_has_a_limit(tmp_path, caplog):
    caplog.set_level(logging.WARNING)
    go_on = threading.Event()
    recorder = Recorder(Config(upstream="http://unused"), tmp_path)
    recorder._writer.submit(go_on.wait)  # in place of a write that hangs
    async with raw_upstream(*(stream_texts("Hi") for _ in range(_MAX_WAITING + 2))) as upstream:
        app = create_app(Config(upstream=upstream.url, port=0))
        app.state.observers.listed = [recorder]
        async with running_app(app) as url:
            statuses = {(await post_chat(url)).status_code for _ in range(_MAX_WAITING + 2)}
            go_on.set()
    written = len(list(tmp_path.glob("*.jsonl")))

    assert {200} == statuses
    assert _MAX_WAITING == written
    assert 2 == caplog.text.count("too many requests wait to be written")


OBSERVERS = {
    "the facts alone": lambda _: [],
    "figures": lambda seen: [Metrics("http://unused").begin(seen)],
    "the inspector": lambda seen: [CaptureRing(Config(upstream="http://unused")).begin(seen)],
    "a record": lambda seen: [Recording(seen, lambda _: None)],
}


def steps_of_a_chunk(observe=None) -> float:
    """Count the instructions for one more chunk of text, which is decoded, passed to observers and encoded."""
    request = Request(model="m", messages=(UserMessage((TextPart("Hi"),)),), stream=True)
    exchange, encode = Exchange(), StreamedResponse(request, IDENTITY, OPENAI_CHAT).feed
    exchange.begin(request, OPENAI_CHAT)
    feed = lambda batch: encode(batch) != b""  # noqa: E731 - as short as it gets
    read = lambda data: feed(exchange.feed(data)) and not exchange.finished  # noqa: E731
    if observe is not None:
        scope = {"method": "POST", "path": CHAT, "raw_path": CHAT.encode(), "headers": []}
        seen = ObservedRequest("id", find_route("POST", CHAT), ClientConnection(scope, None, None))
        observers = RequestObservers([seen, *observe(seen)])
        observers.begin_attempt(exchange, "", native=False)
        if observers.wants_writes:
            feed = lambda batch: observers.on_written(data := encode(batch)) or data != b""  # noqa: E731
        read = observers.reader(exchange, feed)
    chunk = text_chunk("some text")
    few, many = [steps(functools.partial(list, map(read, [chunk] * count))) for count in (128, 640)]
    return (many - few) / 512


@pytest.mark.parametrize("kind", OBSERVERS)
async def test_a_chunk_costs_few_instructions_with_any_observer(kind):
    limit = 90 if kind in {"the inspector", "a record"} else 60

    assert steps_of_a_chunk(OBSERVERS[kind]) - steps_of_a_chunk() < limit
