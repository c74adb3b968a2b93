"""The delay of a stream's chunks while hostile requests arrive, one each second, through a real proxy process.

Rule: a request has 1 MB, or 30 MB and then comes once; another process sends it. The scripted upstream answers a
hostile one with the call that its kind needs. The longest wait of a chunk beside the request is compared with that in a
control, a stream alone, just before it through the same proxy; the bar is for the median difference of three runs.
"""

import asyncio
import contextlib
import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.proxy.load import LoadResult, send_request
from benchmarks.proxy.processes import Process, _running, free_port, proxy
from benchmarks.proxy.upstream import FILLER, encode_event, http_chunk
from benchmarks.report import Report, arguments
from fcshim.codecs.base import Codec
from fcshim.codecs.openai_chat import OPENAI_CHAT
from fcshim.codecs.routes import CODECS
from fcshim.dispatch import run_off_loop
from fcshim.errors import RequestError
from fcshim.server.request_body import split_body

MAX_WAIT_MS = 50
"""How much longer a chunk may wait beside requests of 1 MB than in the control."""
MAX_WAIT_LARGE_MS = 250
"""The same beside one request of 30 MB."""
_REPEATS = 3
_PAUSE = 0.005
"""Seconds between the chunks of the measured stream."""
_READ_BYTES = 2**18
"""What uvloop reads at once."""
_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


def _lists(items: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {"v": {"type": "array"} | items}}


def _doubled(keyword: str) -> dict[str, Any]:
    links = {str(i): {keyword: [{"$ref": f"#/$defs/{i + 1}"}] * 2} for i in range(60)}
    return {"type": "object", "$defs": links | {"60": {"type": "string"}}, "properties": {"v": {"$ref": "#/$defs/0"}}}


_OBJECTS = [{"type": "object", "properties": {f"k{i}": {"type": "string"}}, "required": [f"k{i}"]} for i in range(200)]
_PATTERN = "^(?:[a-z]{1,9}[0-9]{2,7}|[A-F]+x?){1,5}$"
# A kind is the schema of a tool, the arguments that the model calls it with, and the text of the user.
SCHEMAS: dict[str, tuple[Any, Any]] = {
    "oneOf of 500 constants": (_lists({"items": {"oneOf": [{"const": f"c{i}"} for i in range(500)]}}), ["x"] * 40_000),
    "uniqueItems": (_lists({"uniqueItems": True}), [{"a": i} for i in range(40_000)]),
    "anyOf of 200 objects": (_lists({"items": {"anyOf": _OBJECTS}}), [{"q": i} for i in range(40_000)]),
    "strings for 250 integers": (
        _lists({"items": {"anyOf": [{"type": "integer", "minimum": i} for i in range(250)]}}),
        ["x"] * 60_000,
    ),
    "strings for integers": (_lists({"items": {"type": "integer"}}), ["5"] * 60_000),
    "an enumeration of 25,000": (_lists({"items": {"enum": [f"E{i}" for i in range(25_000)]}}), ["e7"] * 9_000),
    "doubled allOf": (_doubled("allOf"), 5),
    "doubled anyOf": (_doubled("anyOf"), 5),
    "a chain of references": (
        {"$defs": {str(i): {"$ref": f"#/$defs/{i + 1}"} for i in range(7_000)}, "$ref": "#/$defs/0"},
        5,
    ),
    "many definitions": ({"$defs": {f"d{i}": {"type": "object"} for i in range(8_000)}, "type": "object"}, 5),
    "patternProperties": ({"patternProperties": {"(a+)+$": {}}, "additionalProperties": False}, "x"),
    "patterns": (
        {"properties": {f"p{i}": {"type": "string", "pattern": f"{_PATTERN}{i}"} for i in range(2_800)}},
        5,
    ),
    "a wide object": ({"type": "object", "properties": {f"p{i}": {"type": "integer"} for i in range(7_500)}}, "5"),
}  # fmt: skip
TEXTS: dict[str, str] = {
    "a megabyte of <": "<" * 990_000,
    "a megabyte of <a": "<a" * 495_000,
    "a megabyte of &lt;": "&lt;" * 247_000,
    "a megabyte of tags": "<tool_call>" * 90_000,
    "a megabyte of different tags": "".join(f"<t{i}>" for i in range(110_000)),
    "a megabyte of lines": "\n" * 490_000,
    "a megabyte of prose": "What is this about, then? " * 38_000,
}


# Values by which a body is dense: a value, and how often it fits in a megabyte.
_DENSE: dict[str, tuple[bytes, int]] = {
    "nested arrays": (b"[[[[]]]]", 110_000),
    "empty arrays": (b"[]", 330_000),
    "empty objects": (b"{}", 330_000),
    "objects": (b'{"a":0}', 120_000),
    "numbers": (b"0", 490_000),
    "empty strings": (b'""', 330_000),
    "backslashes": (b'"' + b"\\\\" * 20_000 + b'"', 24),
}
_EMPTY_MESSAGE = b'{"role":"user","content":""}'


def _array(value: bytes, count: int) -> bytes:
    return b"[" + b",".join([value] * count) + b"]"


def dense_bodies(megabytes: int) -> dict[str, Callable[[], bytes]]:
    """Return functions that make bodies with very many values: in an unknown field, in the known ones, as fields."""
    plain = _body({"type": "object"}, "Hello.", "none")
    arrays, items = _DENSE["nested arrays"]
    start = b'"messages": ['

    def unknown(value: bytes, count: int) -> bytes:
        return _with_field(plain, b"metadata", _array(value, count * megabytes))

    def keys() -> bytes:
        return b",".join([b'"%x":0' % at for at in range(95_000 * megabytes)])

    def nested() -> bytes:
        return _array(arrays, items * megabytes)

    past_call = (
        b'{"role":"assistant","content":"","tool_calls":[{"id":"1","type":"function","function":'
        b'{"name":"f","arguments":"{\\"a\\":%b}"}}]},'
    )
    return {
        **{f"{name} in an unknown field": partial(unknown, *dense) for name, dense in _DENSE.items()},
        "keys in an unknown field": lambda: _with_field(plain, b"metadata", b"{" + keys() + b"}"),
        "fields": lambda: plain[:-1] + b"," + keys() + b"}",
        "values in messages": lambda: plain.replace(start, start + b"{}," * (330_000 * megabytes)),
        "values in a message": lambda: plain.replace(b'"Hello. ', nested() + b',"x": "'),
        "values in a schema": lambda: plain.replace(b'{"type": "object"}', b'{"a":' + nested() + b"}"),
        "values in the arguments of a past call": lambda: plain.replace(start, start + past_call % nested()),
        "messages": lambda: plain.replace(start, start + (_EMPTY_MESSAGE + b",") * (33_000 * megabytes)),
        "a text with very many commas": lambda: plain.replace(b"Hello. ", b"[{," * (320_000 * megabytes)),
    }


def _with_field(body: bytes, name: bytes, value: bytes) -> bytes:
    return b'{"%b":%b,' % (name, value) + body[1:]


def _body(schema: Any, text: str, name: str) -> bytes:
    function = {"name": "f", "parameters": schema, "strict": True}
    return json.dumps(
        {
            "model": "m",
            "stream": True,
            "tools": [{"type": "function", "function": function}],
            "messages": [{"role": "user", "content": f"{text} KIND:{name};"}],
        }
    ).encode()


def _request(body: bytes, extra: bytes = b"") -> bytes:
    head = b"POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n" + extra
    return head + b"content-length: %d\r\n\r\n" % len(body) + body


LARGE = "30 MB: "


def hostile_requests() -> dict[str, Callable[[], bytes]]:
    """Return functions that make the hostile requests, by their kind; those of 30 MB begin with `LARGE`."""
    plain = _body({"type": "object"}, "Hello.", "none")
    headers = b"".join(b"x%d: 1\r\n" % i for i in range(6_000))
    return {
        **{name: lambda n=name, s=schema: _request(_body(s, "Call f.", n)) for name, (schema, _) in SCHEMAS.items()},
        **{name: lambda n=name, t=text: _request(_body({"type": "object"}, t, n)) for name, text in TEXTS.items()},
        "6,000 headers": lambda: _request(plain, headers),
        "nested arrays": lambda: _request(
            _body({"a": 0}, "x", "none").replace(b'{"a": 0}', b"[" * 450_000 + b"]" * 450_000)
        ),
        **{f"1 MB: {name}": lambda m=make: _request(m()) for name, make in dense_bodies(1).items()},
        **{LARGE + name: lambda m=make: _request(m()) for name, make in dense_bodies(30).items()},
    }


# The upstream, a process of its own.


async def _serve_upstream(port: int) -> None:
    server = await asyncio.start_server(_answer, "127.0.0.1", port, limit=4_000_000)
    await server.serve_forever()


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError, asyncio.IncompleteReadError):
        while head := (await reader.readuntil(b"\r\n\r\n")).lower():
            length = int(head.partition(b"content-length:")[2].partition(b"\r\n")[0] or 0)
            body = await reader.readexactly(length)
            if b"KIND:" not in body:
                writer.write(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n")
                continue
            kind = body.rpartition(b"KIND:")[2].partition(b";")[0].decode()
            writer.write(_HEAD)
            await (_play(writer, float(kind[6:])) if kind.startswith("PACED") else _call(writer, kind))
            writer.write(encode_event(None, "stop") + http_chunk(b"data: [DONE]\n\n") + b"0\r\n\r\n")
            await writer.drain()
    writer.close()


async def _play(writer: asyncio.StreamWriter, seconds: float) -> None:
    due = time.monotonic()
    for _ in range(int(seconds / _PAUSE)):
        if writer.is_closing():
            return
        due += _PAUSE
        await asyncio.sleep(max(0.0, due - time.monotonic()))
        writer.write(encode_event(f"@{time.monotonic():.6f} {FILLER}"))


async def _call(writer: asyncio.StreamWriter, kind: str) -> None:
    """Write the call of a kind in pieces of 256 characters, ten times as fast as a fast model."""
    value = SCHEMAS.get(kind, ({}, "x"))[1]
    text = json.dumps({"name": "f", "arguments": {"v": value, "a" * 40 + "!": 1}})
    text = f"<function_call>\n{text}\n</function_call>"
    for start in range(0, min(len(text), 100_000), 256):
        if writer.is_closing():
            return
        writer.write(encode_event(text[start : start + 256]))
        await asyncio.sleep(0.01)


# The measurement.


async def _measure(port: int, request: bytes | None, seconds: float, times: int) -> LoadResult:
    """Measure one stream while the request arrives so many times, a second after one another."""
    result = LoadResult()
    body = _body({"type": "object"}, "Go on.", f"PACED:{seconds}")
    stream = asyncio.create_task(send_request(port, _request(body), result))
    attackers = [await _start_attack(port, request, times)] if request is not None else []
    await stream
    for process in attackers:
        process.kill()
        await process.wait()
    return result


async def _start_attack(port: int, request: bytes, times: int) -> asyncio.subprocess.Process:
    """Start a process that sends the request; it gets it before, so that this process copies nothing meanwhile."""
    command = [sys.executable, "-m", "benchmarks.hostile_requests", "--attack", str(port), str(times)]
    process = await asyncio.create_subprocess_exec(*command, stdin=asyncio.subprocess.PIPE)
    assert process.stdin is not None
    process.stdin.write(request)
    await process.stdin.drain()
    process.stdin.close()
    return process


async def _send_repeatedly(port: int, times: int) -> None:
    request = sys.stdin.buffer.read()
    await asyncio.gather(*(_attack(port, request, 0.3 + at) for at in range(times)))


async def _attack(port: int, request: bytes, delay: float) -> None:
    await asyncio.sleep(delay)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    with contextlib.suppress(OSError), contextlib.closing(writer):
        writer.write(request)
        while await reader.read(65536):
            pass


def _percentile(ages: list[float], share: float) -> float:
    ordered = sorted(ages)
    return 1_000 * ordered[min(len(ordered) - 1, int(share * len(ordered)))]


@contextlib.contextmanager
def _upstream() -> Iterator[Process]:
    port = free_port()
    with _running([sys.executable, "-m", "benchmarks.hostile_requests", "--upstream", str(port)], port) as process:
        yield process


def main() -> int:
    """Measure every kind, or those whose name contains `--kind`."""
    parser = arguments(__doc__ or "")
    parser.add_argument("--kind", default="", help="only the kinds whose name contains this")
    parser.add_argument("--decoding", action="store_true", help="only the decoding of dense bodies, in CPU time")
    options = parser.parse_args()
    chosen = {name: make for name, make in hostile_requests().items() if options.kind in name}
    report = Report("hostile requests")
    _measure_decoding(report, options.kind)
    _measure_replies(report, options.kind)
    if options.decoding:
        return report.finish(options.json)
    seconds = 2 if options.quick else 5
    with TemporaryDirectory() as folder, _upstream() as upstream:
        rows = [_measure_kind(upstream, Path(folder), name, make(), seconds) for name, make in chosen.items()]
    columns = ("hostile request", "p99", "longest", "longest in the control", "difference", "spread of controls")
    report.table("waiting of a stream's chunks, ms (medians of three runs)", columns, rows)
    for name, *_, difference, _ in rows:
        limit = MAX_WAIT_LARGE_MS if name.startswith(LARGE) else MAX_WAIT_MS
        report.bar(f"longer wait than in the control: {name}", difference, limit, "ms")
    return report.finish(options.json)


# Decoding alone, in CPU time of this process, which other work on the machine does not change.


def _measure_decoding(report: Report, kind: str) -> None:
    """Measure for how long decoding a dense body keeps an event loop that has something to do from running."""
    rows: list[tuple[str, float, float, str]] = []
    for megabytes in (1, 30):
        for name, make in dense_bodies(megabytes).items():
            if kind in f"{megabytes} MB: {name}":
                rows.append((f"{megabytes} MB: {name}", *asyncio.run(_longest_gap(make()))))
    report.table("decoding, CPU ms", ("body", "longest hold of the event loop", "all", "outcome"), rows)
    for name, gap, _, _ in rows:
        limit = MAX_WAIT_LARGE_MS if name.startswith(LARGE) else MAX_WAIT_MS
        report.bar(f"the event loop is held: {name}", gap, limit, "ms")


def dense_replies(megabytes: int) -> dict[str, bytes]:
    """Return replies with very many values, as an event, a line and a whole body, and an event with a text of marks."""
    value = _array(b"[[[[]]]]", 110_000 * megabytes)
    document = b'{"choices":[{"index":0,"delta":{"content":%b}}],"message":%b}' % (value, value[:9] + b"]")
    text = b'{"choices":[{"index":0,"delta":{"content":"%b"}}]}'
    return {
        "an event": b"data: " + document + b"\n\n",
        "a line": document + b"\n",
        "a whole reply": document,
        "a text of commas": b"data: " + text % (b"[{," * (330_000 * megabytes)) + b"\n\n",
        "a text of escaped quotes": b"data: " + text % (rb"\"" * (495_000 * megabytes)) + b"\n\n",
    }


def _measure_replies(report: Report, kind: str) -> None:
    """Measure the longest time that a decoder takes for one read of a dense reply: others wait until its end."""
    rows: list[tuple[str, float, str]] = []
    for megabytes in (1, 15):  # an event has 16 MB at most
        for name, body in dense_replies(megabytes).items():
            label = f"{megabytes} MB: {name} of an upstream"
            if kind in label:
                rows.append((label, *max((_longest_read(codec, body), api) for api, codec in CODECS.items())))
    report.table("decoding replies, CPU ms", ("reply", "longest hold of the event loop", "API"), rows)
    for label, hold, _ in rows:
        limit = MAX_WAIT_MS if label.startswith("1 MB") else MAX_WAIT_LARGE_MS
        report.bar(f"the event loop is held: {label}", hold, limit, "ms")


def _longest_read(codec: Codec, body: bytes) -> float:
    decoder = codec.decoder()
    longest = 0.0
    for start in range(0, len(body), _READ_BYTES):
        started = time.process_time()
        decoder.feed(body[start : start + _READ_BYTES])
        longest = max(longest, time.process_time() - started)
        if decoder.ended:
            break
    return 1_000 * longest


async def _longest_gap(body: bytes) -> tuple[float, float, str]:
    """Decode a body as the server does; return the longest gap between two turns of the loop, the sum, the outcome."""
    sys.setswitchinterval(0.001)  # as the server
    longest, started = 0.0, time.process_time()
    task = asyncio.create_task(_decode(body))
    last = started
    while not task.done():
        await asyncio.sleep(0.001)
        now = time.process_time()
        longest, last = max(longest, now - last), now
    return 1_000 * longest, 1_000 * (last - started), task.result()


async def _decode(body: bytes) -> str:
    try:
        fields = await split_body(body, OPENAI_CHAT.field_rules)
        await run_off_loop(len(body), partial(OPENAI_CHAT.decode_request, fields))
    except RequestError as error:
        return error.message[:50]
    return "decoded"


def _measure_kind(
    upstream: Process, folder: Path, name: str, request: bytes, seconds: float, *options: str
) -> tuple[str, float, float, float, float, float]:
    """Measure one kind through one proxy, control and attack in turn."""
    times = 1 if name.startswith(LARGE) else int(seconds)
    runs: list[tuple[list[float], list[float]]] = []
    with proxy("fcshim", upstream, folder, "--tools", "prompt", *options) as server:
        for _ in range(_REPEATS):
            control = asyncio.run(_measure(server.port, None, seconds, 0)).ages
            runs.append((control, asyncio.run(_measure(server.port, request, seconds, times)).ages))
    controls = [1_000 * max(control) for control, _ in runs]
    longest = [1_000 * max(attacked) for _, attacked in runs]
    row = (
        name,
        statistics.median(_percentile(attacked, 0.99) for _, attacked in runs),
        statistics.median(longest),
        statistics.median(controls),
        statistics.median(wait - alone for wait, alone in zip(longest, controls, strict=True)),
        max(controls) - min(controls),
    )
    print(name, *(f"{value:.1f}" for value in row[1:]), flush=True)
    return row


if __name__ == "__main__":
    if sys.argv[1:2] == ["--upstream"]:
        asyncio.run(_serve_upstream(int(sys.argv[2])))
    elif sys.argv[1:2] == ["--attack"]:
        asyncio.run(_send_repeatedly(int(sys.argv[2]), int(sys.argv[3])))
    else:
        sys.exit(main())
