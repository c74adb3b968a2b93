"""The upstream's key leaves nowhere, however the upstream spells it."""

import base64
import html
import json
import logging
from urllib.parse import quote

import pytest

from fcshim.config import Secret
from fcshim.config.secret import KeyMask
from tests.scripted import ROLE, end_chunks, text_chunk
from tests.server.proxy import chat_body, http_client, running_proxy
from tests.server.raw_upstream import SSE_HEAD, fixed_reply, http_chunk, raw_reply, raw_upstream, stream_chunks

pytestmark = pytest.mark.security

KEY = "sk-proj/A1+b2_C3=xyz"
SPELLINGS = {
    "plain": KEY,
    "json": "".join(f"\\u{ord(each):04x}" for each in KEY),
    "json upper case": "".join(f"\\u{ord(each):04X}" for each in KEY),
    "json in json": "".join(f"\\\\u{ord(each):04x}" for each in KEY),
    "json, some": KEY.replace("A", "\\u0041").replace("+", "\\u002B"),
    "json slash": KEY.replace("/", "\\/"),
    "python": "".join(f"\\x{ord(each):02x}" for each in KEY),
    "javascript": "".join(f"\\u{{{ord(each):x}}}" for each in KEY),
    "percent": quote(KEY, safe=""),
    "percent, all": "".join(f"%{ord(each):02x}" for each in KEY),
    "percent twice": quote(quote(KEY, safe=""), safe=""),
    "html": "".join(f"&#{ord(each)};" for each in KEY),
    "html hexadecimal": "".join(f"&#x{ord(each):X};" for each in KEY),
    "html signs": html.escape(KEY),
    "html names": KEY.replace("/", "&sol;").replace("+", "&plus;").replace("_", "&lowbar;").replace("=", "&equals;"),
    "html in json": "".join(f"\\u0026#{ord(each)};" for each in KEY),
    "html names in json": KEY.replace("+", "\\u0026plus;").replace("/", "\\u0026amp;sol;"),
    "percent in json": quote(KEY, safe="").replace("%", "\\u0025"),
    "percent in html": quote(KEY, safe="").replace("%", "&#37;"),
    "hexadecimal": KEY.encode().hex(),
    "hexadecimal upper case": KEY.encode().hex().upper(),
    "base64": base64.b64encode(KEY.encode()).decode(),
    "base64 of the header": base64.b64encode(f"Bearer {KEY}".encode()).decode(),
    "base64 of user and key": base64.b64encode(f"user:{KEY}:x".encode()).decode(),
    "base64 for urls": base64.urlsafe_b64encode(f"a{KEY}".encode()).decode(),
    "base64 in a url": quote(base64.b64encode(KEY.encode()).decode(), safe=""),
}


def leaks(text: str) -> bool:
    """Return whether the middle of the key can be read in a text, in any spelling of the table."""
    cores = {each[len(each) // 3 : len(each) // 3 * 2] for each in SPELLINGS.values()}
    return any(core in text for core in cores)


@pytest.mark.parametrize("spelling", SPELLINGS.values(), ids=SPELLINGS)
def test_every_spelling_is_masked_in_place(spelling):
    data = f'before "{spelling}", after'.encode()
    masked = Secret(KEY).mask(data)

    assert len(data) == len(masked)
    assert masked.startswith(b'before "')
    assert masked.endswith(b'", after')
    assert not leaks(masked.decode())


@pytest.mark.parametrize("spelling", SPELLINGS.values(), ids=SPELLINGS)
@pytest.mark.parametrize("size", [1, 2, 3, 7])
def test_it_is_masked_wherever_the_reads_are_split(spelling, size):
    data = f"sk-pr {spelling} sk-p &#115 %73 {spelling}".encode()
    mask = KeyMask([Secret(KEY)]).stream_mask()
    masked = b"".join(mask.feed(data[start : start + size]) for start in range(0, len(data), size)) + mask.close()

    assert len(data) == len(masked)
    assert not leaks(masked.decode())


@pytest.mark.parametrize(
    "text",
    [
        "sk-proj is a prefix",
        "100% of s\\u0073 &amp; &#115;k-",
        "",
        "\\" * 500,
        "%25" * 500,
        "&amp;" * 500 + "&",
        '{"a": "\\n\\ts"}\n',
        "s" * 1000,
        "c2stcHJvai",
    ],
)
@pytest.mark.parametrize("size", [1, 5, 1000])
def test_other_text_passes_unchanged(text, size):
    data = text.encode()
    mask = KeyMask([Secret(KEY)]).stream_mask()

    assert data == b"".join(mask.feed(data[at : at + size]) for at in range(0, len(data), size)) + mask.close()
    assert data == Secret(KEY).mask(data)


def test_a_placeholder_is_not_masked_as_a_key():
    assert b"none of it" == Secret("none").mask(b"none of it")
    assert KeyMask([Secret("none")]).stream_mask() is None


def error_event(text: str) -> bytes:
    return b'data: {"error":{"message":"refused for ' + text.encode() + b'"}}\n\n'


def replies(text: str) -> dict:
    """The places of a reply in which an upstream may repeat what it was sent."""
    message = f'{{"error":{{"message":"refused for {text}"}}}}'.encode()
    return {
        "error in a 200": fixed_reply(200, message),
        "error status": fixed_reply(500, message),
        "error as text": fixed_reply(400, f"{text} is wrong".encode(), kind="text/plain"),
        "web page": fixed_reply(502, f"<html><title>{text}</title></html>".encode(), kind="text/html"),
        "web page in a 200": fixed_reply(200, f"<html><title>{text}</title>{text}</html>".encode(), kind="text/html"),
        "header": fixed_reply(400, b"{}", f"X-Echo: Bearer {text}", f"Retry-After: {text}", f"{text[:6]}: 1"),
        "event": stream_chunks(ROLE, text_chunk("Hi"), error_event(text)),
        "first event": stream_chunks(error_event(text)),
        "text": stream_chunks(ROLE, text_chunk(text.replace("\\", "")), end_chunks()),
        "split event": raw_reply(
            SSE_HEAD + b"".join(http_chunk(bytes([byte])) for byte in ROLE + error_event(text)) + b"0\r\n\r\n"
        ),
        "malformed event": stream_chunks(ROLE, f"data: {{ {text} \n\n".encode()),
        "no http": raw_reply(f"NONSENSE {text}\r\n\r\n".encode()),
        "bad header": raw_reply(f"HTTP/1.1 200 OK\r\n{text} {text}\r\n\r\n".encode()),
        "redirect": fixed_reply(302, b"", f"Location: http://evil.example/?key={text}"),
        "broken off": raw_reply(SSE_HEAD + http_chunk(ROLE) + f"zz {text}\r\n".encode()),
    }


@pytest.mark.parametrize("place", replies(""))
@pytest.mark.parametrize("spelling", ["plain", "json", "percent", "html", "base64 of the header"])
@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
async def test_it_reaches_neither_clients_nor_logs(place, spelling, stream, caplog):
    caplog.set_level(logging.DEBUG)
    play = replies(SPELLINGS[spelling])[place]
    paths = {
        "/v1/chat/completions": chat_body(stream=stream),
        "/v1/chat/completions?relayed": chat_body(stream=stream, tools=False),
        "/v1/responses": {"model": "m", "input": "Hi", "stream": stream},
        "/v1/messages": {
            "model": "m",
            "max_tokens": 9,
            "messages": [{"role": "user", "content": "Hi"}],
            "stream": stream,
        },
        "/v1/embeddings": {},
    }
    async with (
        raw_upstream(play) as upstream,
        running_proxy(upstream.url, upstream_key=Secret(KEY)) as url,
        http_client(url) as client,
    ):
        seen = []
        for path, body in paths.items():
            try:
                answer = await client.post(path, json=body)
                seen += [answer.text, str(answer.headers.raw)]
            except Exception as error:  # noqa: BLE001 - a reply that breaks off
                seen.append(str(error))
        seen.append((await client.get("/v1/models")).text)
        seen.append((await client.get("/v1/models", headers={"anthropic-version": "1"})).text)

    assert upstream.requests
    assert KEY.encode() in upstream.requests[0].head
    logged = "\n".join(record.getMessage() for record in caplog.records if record.name.startswith("fcshim"))
    assert not [each for each in [*seen, logged] if leaks(each)]


async def test_a_relayed_body_keeps_its_length_and_the_rest_of_its_bytes():
    body = json.dumps({"data": [f"x{KEY}y"] * 3, "rest": "sk-"}).encode()
    async with (
        raw_upstream(fixed_reply(200, body)) as upstream,
        running_proxy(upstream.url, upstream_key=Secret(KEY)) as url,
        http_client(url) as client,
    ):
        answer = await client.post("/v1/embeddings", json={})

    assert body.replace(KEY.encode(), b"*" * len(KEY)) == answer.content


async def test_text_that_only_begins_like_the_key_is_streamed_completely():
    texts = ["sk", "-pro", "j is", " a %", "7", "3 \\u00", "&#"]
    async with (
        raw_upstream(stream_chunks(ROLE, *map(text_chunk, texts), end_chunks())) as upstream,
        running_proxy(upstream.url, upstream_key=Secret(KEY)) as url,
        http_client(url) as client,
    ):
        answer = await client.post("/v1/chat/completions", json=chat_body(stream=False))

    assert "".join(texts) == answer.json()["choices"][0]["message"]["content"]
