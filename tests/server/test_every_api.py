"""The whole proxy with every client API: the reply does not depend on how the upstream's bytes are split."""

import asyncio
import random

import pytest

from fcshim.codecs.routes import CODECS
from fcshim.events import Stop
from fcshim.reply import fold
from tests.codecs.helpers import cut
from tests.codecs.test_pairs import REQUEST, reply_summary
from tests.scripted import ROLE, end_chunks, event, text_chunk
from tests.server.proxy import CALL, http_client, running_proxy
from tests.server.raw_upstream import LAST_CHUNK, raw_reply, raw_upstream, stream_chunks, stream_then

APIS = pytest.mark.parametrize("codec", CODECS.values(), ids=CODECS)
CALLS = ROLE + text_chunk("Let me. ") + text_chunk(CALL[:25]) + text_chunk(CALL[25:] + "\n" + CALL) + end_chunks()
EXPECTED = ("Let me. ", [("add", {"a": 1, "b": 2})] * 2, (10, 5), "tool_use", None)


async def post(url, codec):
    """Send a streaming request as a client of this API."""
    outgoing = codec.encode_request(REQUEST)
    path = outgoing.path[1:] if outgoing.path.startswith("//") else "/v1" + outgoing.path
    headers = {"content-type": "application/json", **dict(outgoing.headers)}
    async with http_client(url) as client:
        return await client.post(path, content=outgoing.body, headers=headers)


async def ask(codec, *plays, **settings):
    """Send a request to an upstream that plays these; return the response and its events."""
    async with raw_upstream(*plays) as upstream, running_proxy(upstream.url, **settings) as url:
        response = await post(url, codec)
    decoder = codec.decoder()
    return response, [found for _, found in decoder.feed(response.content) + decoder.close()]


@APIS
@pytest.mark.parametrize("most", [len(CALLS), 200, 20, 3])
async def test_the_clients_reply_does_not_depend_on_how_upstream_bytes_are_split(codec, most):
    random_ = random.Random(most)
    response, events = await ask(codec, stream_chunks(*cut(CALLS, lambda: random_.randint(1, most))))

    assert 200 == response.status_code
    assert EXPECTED == reply_summary(events)


@APIS
async def test_a_broken_stream_ends_with_an_error_and_no_stop(codec):
    play = stream_then(ROLE, text_chunk("Once"), event(error={"message": "slot lost"}), then=raw_reply(b""))
    response, events = await ask(codec, play)
    reply = fold(events)

    assert 200 == response.status_code
    assert "Once" == reply.text
    assert "slot lost" in reply.error.message
    assert not any(isinstance(found, Stop) for found in events)


@APIS
async def test_a_truncated_call_is_never_a_finished_one(codec):
    _, events = await ask(codec, stream_chunks(ROLE, text_chunk("Ok. "), text_chunk(CALL[:60]), end_chunks("length")))
    reply = fold(events)

    assert "Ok. " == reply.text
    assert not [made for made in reply.tool_calls if made.error is None]
    assert reply.stop_reason == "max_tokens" or reply.error is not None


async def late(peer):
    await asyncio.sleep(0.2)
    await peer.chunk(text_chunk(CALL + "\n" + CALL) + end_chunks())
    await peer.send(LAST_CHUNK)


@APIS
async def test_pings_do_not_change_the_reply(codec):
    response, events = await ask(
        codec, stream_then(ROLE, text_chunk("Let me. "), then=late), ping=0.02, first_ping=0.02
    )

    assert 200 == response.status_code
    assert EXPECTED == reply_summary(events)


@APIS
async def test_an_unreachable_upstream_is_an_error_in_the_clients_api(codec):
    async with running_proxy("http://127.0.0.1:9") as url:
        response = await post(url, codec)
    error = codec.decode_error(response.status_code, {}, response.content)

    assert 502 == response.status_code
    assert "cannot connect" in error.message
