"""The fuzzer of the whole proxy: its corpus, some of its cases, and that it notices what is wrong."""

import asyncio

import pytest

from fcshim.pipeline.response import StreamedResponse
from fcshim.server.app import App
from fcshim.server.guard import RequestGuard
from tests.fuzz.proxy.cases import ProxyCase, make_case
from tests.fuzz.proxy.judge import judge_all
from tests.fuzz.proxy.run import CORPUS, main, read_case

pytestmark = pytest.mark.security
PATIENCE = 30.0


async def reasons(*cases: ProxyCase, lanes: int = 4) -> list[str]:
    failures = []
    done = await judge_all(iter(cases), failures, lanes=lanes, patience=PATIENCE)

    assert len(cases) == done
    return [f"{case.seed}: {reason}" for case, reason in failures]


def plain_case() -> ProxyCase:
    """Return a case whose client gets a text in a stream, through the shim."""
    for case in map(make_case, range(1_000)):
        request = "".join(case.request)
        if case.expected and not case.expected[1] and '"tools"' in request and '"stream": true' in request:
            return case
    raise AssertionError


async def test_no_case_of_the_corpus_breaks_a_law():
    files = sorted(CORPUS.iterdir())

    assert len(files) > 30
    assert not await reasons(*map(read_case, files))


def test_a_seed_makes_one_case():
    assert make_case(7) == make_case(7)
    assert make_case(7) != make_case(8)


async def test_a_traceback_is_noticed(monkeypatch):
    def check(guard, connection):
        raise LookupError("broken")

    monkeypatch.setattr(RequestGuard, "check", check)
    found = await reasons(plain_case())

    assert any("status 500" in reason for reason in found)
    assert any("LookupError: broken" in reason for reason in found)


async def test_lost_text_is_noticed(monkeypatch):
    feed = StreamedResponse.feed
    monkeypatch.setattr(StreamedResponse, "feed", lambda response, events: feed(response, events[1:]))
    (reason,) = await reasons(plain_case())

    assert "expected" in reason


async def test_a_task_that_is_left_is_noticed(monkeypatch):
    left = []
    route = App._route

    async def leaving(app, *given):
        left.append(asyncio.create_task(asyncio.sleep(3_600), name="left"))
        await route(app, *given)

    monkeypatch.setattr(App, "_route", leaving)
    monkeypatch.setattr("tests.fuzz.proxy.judge._REST_LIMIT", 0.3)
    (reason,) = await reasons(plain_case(), lanes=1)
    for task in left:
        task.cancel()

    assert "left behind: task left" in reason


@pytest.mark.engine
def test_no_law_is_broken(capsys):
    assert 0 == main(["--executions", "300", "--seed", "0"]), capsys.readouterr().out
