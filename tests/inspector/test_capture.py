"""The ring of captures: its limit holds for the memory too."""

import gc
import weakref

import pytest

from fcshim.server.inspector.capture import Capture, CaptureRing
from tests.scripted import ROLE, text_chunk
from tests.server.proxy import CALL, CHAT, chat_body, http_client, running_proxy
from tests.server.raw_upstream import hang, raw_upstream, stream_texts, stream_then


async def test_what_the_ring_drops_is_free_without_a_garbage_collection(monkeypatch):
    alive = weakref.WeakSet()
    begin = CaptureRing.begin

    def watched(ring, seen) -> Capture:
        capture = begin(ring, seen)
        alive.add(capture)
        return capture

    monkeypatch.setattr(CaptureRing, "begin", watched)
    gc.disable()
    try:
        async with (
            raw_upstream(*(stream_texts("x" * 2_000) for _ in range(40))) as upstream,
            running_proxy(upstream.url, inspect=True, inspect_bytes=2**16) as url,
            http_client(url) as client,
        ):
            for _ in range(40):
                await client.post(CHAT, json=chat_body())
            kept = len((await client.get("/fcshim/api/requests")).json()["requests"])
            held = len(alive)
    finally:
        gc.enable()

    assert 2 < kept < 30
    assert held == kept


TEXT = ("Just ", "text ", "in ", *("many ",) * 200, "pieces.")
SHOWN = {
    "text": ([TEXT], {}),
    "a call": ([("Let me see. ", *CALL)], {}),
    "a retry": ([(CALL.replace("add", "subtract"),), tuple(CALL)], {}),
    "several choices": ([TEXT], {"n": 2}),
    "relayed": ([TEXT], {"tools": None}),
    "not streamed": ([TEXT], {"stream": False}),
}


@pytest.mark.parametrize("kind", SHOWN)
async def test_what_the_client_got_is_shown_whole_and_once(kind):
    replies, fields = SHOWN[kind]
    async with (
        raw_upstream(*(stream_texts(*reply) for reply in replies)) as upstream,
        running_proxy(upstream.url, inspect=True) as url,
        http_client(url) as client,
    ):
        response = await client.post(CHAT, json=chat_body() | fields)
        shown = (await client.get("/fcshim/api/requests/1")).json()

    assert response.text == shown["response"]["body"]["text"]


async def test_a_request_that_runs_is_shown_as_far_as_it_came():
    async with (
        raw_upstream(stream_then(ROLE, text_chunk("the first words"), then=hang)) as upstream,
        running_proxy(upstream.url, inspect=True) as url,
        http_client(url) as client,
        client.stream("POST", CHAT, json=chat_body()) as response,
    ):
        got = b""
        async for part in response.aiter_bytes():
            got += part
            if b"first words" in got:
                break
        listed = (await client.get("/fcshim/api/requests")).json()["requests"]
        shown = (await client.get("/fcshim/api/requests/1")).json()

    assert listed[0]["first_chunk"] > 0
    assert got.decode() == shown["response"]["body"]["text"]


async def test_one_huge_reply_does_not_drop_the_other_captures():
    huge = ["y" * 10_000] * 100
    async with (
        raw_upstream(*(stream_texts("ok") for _ in range(3)), stream_texts(*huge)) as upstream,
        running_proxy(upstream.url, inspect=True, inspect_bytes=1_000_000) as url,
        http_client(url) as client,
    ):
        for at in range(4):
            await client.post(CHAT, json=chat_body(model=f"m{at}"))
        listed = (await client.get("/fcshim/api/requests")).json()["requests"]

    assert ["m3", "m2", "m1", "m0"] == [each["model"] for each in listed]
