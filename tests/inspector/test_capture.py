"""The ring of captures: its limit holds for the memory too."""

import gc
import weakref

from fcshim.server.inspector.capture import Capture, CaptureRing
from tests.server.proxy import CHAT, chat_body, http_client, running_proxy
from tests.server.raw_upstream import raw_upstream, stream_texts


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
