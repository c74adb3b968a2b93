"""What clients of each API get when the upstream sends very many JSON values."""

import pytest

from benchmarks.endurance.traffic import ERROR, FORMS, judge
from benchmarks.proxy.load import encode_request
from fcshim.errors import UpstreamError
from fcshim.upstream import Upstream
from tests.scripted import ROLE, text_chunk
from tests.server.proxy import raw_connection, running_proxy
from tests.server.raw_upstream import LAST_CHUNK, SSE_HEAD, fixed_reply, http_chunk, raw_reply, raw_upstream

pytestmark = pytest.mark.security

DENSE = b"[" + b"{}," * 120_000 + b"0]"
WHOLE = b'{"choices":%b}' % DENSE
REPLIES = {
    "an event": SSE_HEAD + http_chunk(ROLE) + http_chunk(b"data: " + WHOLE + b"\n\n") + LAST_CHUNK,
    "an event behind text": SSE_HEAD
    + http_chunk(ROLE)
    + http_chunk(text_chunk("Once"))
    + http_chunk(b"data: " + WHOLE + b"\n\n")
    + LAST_CHUNK,
    "a whole reply": b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(WHOLE)
    + WHOLE,
}


@pytest.mark.parametrize("streamed", [True, False])
@pytest.mark.parametrize("reply", REPLIES)
@pytest.mark.parametrize("api", FORMS)
async def test_the_client_gets_an_error_of_its_api(api, reply, streamed):
    async with (
        raw_upstream(raw_reply(REPLIES[reply])) as upstream,
        running_proxy(upstream.url) as url,
        raw_connection(url) as (reader, writer),
    ):
        request = encode_request("Hi", api, streamed=streamed)
        writer.write(request.replace(b"\r\n\r\n", b"\r\nconnection: close\r\n\r\n", 1))
        found = await reader.read()

    assert ERROR == judge(api, found, streamed=streamed)
    assert b"more than 50000 JSON values" in found


async def test_a_page_of_very_many_values_is_an_error():
    async with raw_upstream(fixed_reply(200, WHOLE)) as server, Upstream(server.url) as upstream:
        with pytest.raises(UpstreamError, match="more than 50000 JSON values"):
            await upstream.list_models()
