"""The cost from a client's request to the upstream's, the delay of other streams meanwhile, and the cost of stores.

Rule: CPU is compared with one JSON decoding and encoding of the same body, in turns in one run. The conversation is
that of a coding agent: 30 tools, 40 turns, and results that are source code, markup, JSON and logs. A store is
compared with a hop to a thread and back.
"""

import asyncio
import contextlib
import gc
import itertools
import json
import shutil
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
import uvloop
from anyio import CapacityLimiter, to_thread

from benchmarks.hostile_requests import _attack, _percentile, _upstream
from benchmarks.proxy.load import CHAT, LoadResult, encode_request, send_request
from benchmarks.proxy.processes import Process, proxy, scripted_upstream
from benchmarks.proxy.upstream import TEXT
from benchmarks.report import Report, arguments
from fcshim.codecs.routes import CODECS
from fcshim.config import Config
from fcshim.dispatch import make_shim
from fcshim.messages import Tool
from fcshim.server.store import StoredDocument, owner_of
from fcshim.server.store.open import open_store

_TOOLS, _TURNS, _BYTES = 30, 40, 190_000
_NEW_LIMIT, _NEXT_LIMIT = 8, 4
"""CPU of a request, in JSON decodings and encodings of its body: all of it new, and only the last message new."""
_SMALL_LIMIT_MS = 1.2
_WAIT_LIMIT_MS = 10
_SQLITE_LIMIT = 8
"""Time to keep a reply in a file, in hops to a thread and back."""
_REPLY = b"a reply " * 512
_LARGE = 1_000_000
_PROMPT = ("--tools", "prompt")
_MODEL = Config().for_model("m")


def main() -> int:
    """Measure, report and return the exit status."""
    options = arguments(__doc__.partition("\n")[0]).parse_args()
    report = Report("request path")
    rounds = 15 if options.quick else 60
    _report_ratios(report, rounds)
    _report_small(report, 400 if options.quick else 2_000)
    _report_waiting(report, 4 if options.quick else 20)
    uvloop.run(_report_stores(report, 300 if options.quick else 2_000))
    return report.finish(options.json)


# The conversation of a coding agent. Each has a number, and no text of one occurs in another.


def _source(number: int) -> str:
    """Return some 3 KB of a standard module, with a line that only this text has."""
    modules = sorted(Path(json.__file__).parent.parent.glob("[a-h]*.py"))
    text = modules[number % len(modules)].read_text(encoding="utf-8")
    start = number * 977 % max(1, len(text) - 3_000)
    return f"# {number}\n" + "".join(
        f"{at:5}→{line}" for at, line in enumerate(text[start:][:2_800].splitlines(keepends=True))
    )


def _markup(number: int) -> str:
    rows = "".join(f'<tr class="r{number + at}"><td>{at}</td><td>a &amp; b</td></tr>\n' for at in range(50))
    return f"<!doctype html>\n<table>\n{rows}</table>"


def _records(number: int) -> str:
    return json.dumps([{"path": f"src/m{number + at}.ts", "size": at * 31, "tags": ["a", "b"]} for at in range(55)])


def _log(number: int) -> str:
    return "".join(f"[{number + at:>8}] INFO build: step {at} > done in {at % 7}.{at % 10} s\n" for at in range(60))


_RESULTS = (_source, _source, _records, _log, _source, _markup)


def _tool(number: int) -> dict[str, Any]:
    names = [f"{word}_{number}" for word in ("path", "pattern", "limit", "options")]
    members = {name: {"type": "string", "description": f"The {name} to use. " * 5} for name in names}
    schema = {"type": "object", "properties": members, "required": names[:2], "additionalProperties": False}
    description = "Reads, searches or edits files of the workspace; returns the lines that changed. " * 8
    return {
        "type": "function",
        "function": {"name": f"tool_{number}", "description": description, "parameters": schema},
    }


def _turn(number: int) -> list[dict[str, Any]]:
    call = {
        "name": f"tool_{number % _TOOLS}",
        "arguments": json.dumps({"path": f"src/{number}.py", "code": "x < y\n" * 40}),
    }
    text = _RESULTS[number % len(_RESULTS)](number)
    return [
        {
            "role": "assistant",
            "content": f"Step {number}: I look at the next file, and then at its tests.",
            "tool_calls": [{"id": f"call_{number}", "type": "function", "function": call}],
        },
        {"role": "tool", "tool_call_id": f"call_{number}", "content": text},
    ]


def _conversation(number: int, turns: int = _TURNS, script: str = "") -> list[dict[str, Any]]:
    system = f"You are a coding agent, {number}. " + "Work step by step, and keep to the style of the code. " * 60
    start = [{"role": "system", "content": system}, {"role": "user", "content": f"Mend issue {number}."}]
    steps = [message for at in range(turns) for message in _turn(number + at)]
    return [*start, *steps, *([{"role": "user", "content": script}] if script else [])]


def _body(messages: list[dict[str, Any]], number: int) -> bytes:
    tools = [_tool(number + at) for at in range(_TOOLS)]
    return json.dumps({"model": "m", "stream": True, "tools": tools, "messages": messages}, ensure_ascii=False).encode()


def _new_bodies() -> Iterator[bytes]:
    for number in itertools.count(1, 1_000):
        yield _body(_conversation(number), number)


def _next_bodies() -> Iterator[bytes]:
    """Yield the requests of one conversation, in each of which only the last turn is new."""
    messages = _conversation(7)
    for number in itertools.count(50_000):
        messages = [*messages[:-2], *_turn(number)]
        yield _body(messages, 7)


# The measurement in this process.


def _prepare(body: bytes) -> None:
    """Do what the proxy does with a request, without its I/O."""
    codec = CODECS[CHAT]
    request = codec.decode_request(body)
    codec.encode_request(make_shim(request, _MODEL).prepared)


def _transcode(body: bytes) -> None:
    msgspec.json.encode(msgspec.json.decode(body))


def _cpu_ms(work: Callable[[bytes], None], body: bytes) -> float:
    began = time.process_time_ns()
    work(body)
    return (time.process_time_ns() - began) / 1e6


def _ratio(bodies: Iterator[bytes], rounds: int) -> tuple[float, float, float, int]:
    """Return the median CPU of the request path and of JSON in ms, the ratio of both, and the body's bytes."""
    _prepare(next(bodies))  # templates are compiled
    gc.collect()
    found = [
        (_cpu_ms(_transcode, body), _cpu_ms(_prepare, body), len(body)) for body in itertools.islice(bodies, rounds)
    ]
    plain, path = (statistics.median(row[at] for row in found) for at in (0, 1))
    return path, plain, path / plain, found[-1][2]


def _report_ratios(report: Report, rounds: int) -> None:
    kinds = {"a new conversation": (_new_bodies(), _NEW_LIMIT), "the next turn": (_next_bodies(), _NEXT_LIMIT)}
    found = {name: _ratio(bodies, rounds) for name, (bodies, _) in kinds.items()}
    columns = ("request", "ms of CPU", "ms for JSON", "x JSON", "bytes")
    report.table(f"the request path, median of {rounds}", columns, [(name, *row) for name, row in found.items()])
    for name, (_, limit) in kinds.items():
        report.bar(f"CPU for {name}, beside JSON", found[name][2], limit, "x")


# The measurement through the proxy.


def _report_small(report: Report, count: int) -> None:
    schema = {"type": "object", "properties": {"city": {"type": "string", "description": "The city."}}}
    tools = [Tool(f"get_{word}", "Look up something about a city.", schema) for word in ("weather", "time")]
    request = encode_request(f"{TEXT}:1:0", tools=tools)
    with scripted_upstream() as upstream, TemporaryDirectory() as folder:
        rows = [
            ("relay", *_small(upstream, Path(folder), "relay", request, count)),
            ("fcshim", *_small(upstream, Path(folder), "fcshim", request, count, *_PROMPT)),
        ]
    report.table("requests with three tools, one after the other", ("proxy", "ms of CPU", "requests a second"), rows)
    report.bar("CPU of a request with three tools", rows[-1][1], _SMALL_LIMIT_MS, "ms")


def _small(
    upstream: Process, folder: Path, name: str, request: bytes, count: int, *options: str
) -> tuple[float, float]:
    with proxy(name, upstream, folder, *options) as process:
        uvloop.run(_send_all(process.port, request, 100))
        before, began = process.cpu(), time.monotonic()
        uvloop.run(_send_all(process.port, request, count))
        return (process.cpu() - before) / count * 1e3, count / (time.monotonic() - began)


async def _send_all(port: int, request: bytes, count: int) -> None:
    for _ in range(count):
        await send_request(port, request, LoadResult())


async def _report_stores(report: Report, count: int) -> None:
    """Measure what a follow-up adds: finding the earlier reply, and keeping its own."""
    limiter = CapacityLimiter(1)
    hop, hop_cpu = await _operation(lambda _: to_thread.run_sync(int, limiter=limiter), count)
    rows: list[tuple[str, float, float, float, float]] = []
    with TemporaryDirectory() as folder, _redis(Path(folder)) as server:
        for kind, address in (("memory", "memory"), ("sqlite", f"sqlite:{folder}/state"), ("redis", server)):
            if address:
                rows.append((kind, *await _store_times(address, count)))
    title = f"a reply of {len(_REPLY):,} bytes in a store, us; a hop to a thread: {hop:.0f}, CPU {hop_cpu:.0f}"
    report.table(title, ("store", "keep", "its CPU", "find", "its CPU"), rows)
    by_kind = {kind: times for kind, *times in rows}
    report.bar("keep in memory", by_kind["memory"][0], 0.5 * hop, "us")
    report.bar("keep in SQLite", by_kind["sqlite"][0], _SQLITE_LIMIT * hop, "us")
    report.bar("find in SQLite", by_kind["sqlite"][2], _SQLITE_LIMIT / 2 * hop, "us")


async def _store_times(address: str, count: int) -> tuple[float, float, float, float]:
    """Return the time and the CPU of this process to keep and to find a reply."""
    store = open_store(Config(store=address))
    owner = owner_of(b"key")
    kept = await _operation(lambda at: store.keep(owner, StoredDocument(f"resp_{at}", _REPLY, (f"msg_{at}",))), count)
    found = await _operation(lambda at: store.find(owner, (f"resp_{at}",)), count)
    await store.aclose()
    return (*kept, *found)


async def _operation(operate: Callable[[int], Awaitable[object]], count: int) -> tuple[float, float]:
    """Return the median time of an operation, and its CPU on average, in microseconds."""
    times: list[float] = []
    before = time.process_time()
    for at in range(count):
        began = time.perf_counter()
        await operate(at)
        times.append(time.perf_counter() - began)
    return statistics.median(times) * 1e6, (time.process_time() - before) / count * 1e6


@contextlib.contextmanager
def _redis(folder: Path) -> Iterator[str]:
    """Run a Redis server; without one on this machine, its row is left out."""
    program = shutil.which("redis-server") or shutil.which("valkey-server")
    if program is None:
        yield ""
        return
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    options = ("--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", str(folder))
    with subprocess.Popen([program, *options], stdout=subprocess.DEVNULL) as process:
        time.sleep(1)
        yield f"redis://127.0.0.1:{port}"
        process.kill()


def _report_waiting(report: Report, seconds: int) -> None:
    with _upstream() as upstream, TemporaryDirectory() as folder:
        rows = []
        for name, interval in (("no other request", 0), ("a request of 1 MB, four times a second", 4)):
            with proxy("fcshim", upstream, Path(folder), *_PROMPT) as process:
                ages = uvloop.run(_waiting(process.port, seconds, interval))
            rows.append((name, _percentile(ages, 0.5), _percentile(ages, 0.99), _percentile(ages, 1)))
    report.table("waiting of a stream's chunks, ms", ("meanwhile", "p50", "p99", "max"), rows)
    report.bar("p99 of a chunk's wait while 1 MB requests arrive", rows[-1][2], _WAIT_LIMIT_MS, "ms")


async def _waiting(port: int, seconds: int, rate: int) -> list[float]:
    """Measure one stream while new conversations of 1 MB arrive `rate` times a second."""
    result = LoadResult()
    paced = _http(
        json.dumps(
            {"model": "m", "stream": True, "messages": _script(f"PACED:{seconds}"), "tools": [_tool(0)]}
        ).encode()
    )
    large = [_http(_large_body(at)) for at in range(seconds * rate)]
    stream = asyncio.create_task(send_request(port, paced, result))
    others = [asyncio.create_task(_attack(port, body, 0.3 + at / rate)) for at, body in enumerate(large)]
    await stream
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
    return result.ages


def _script(text: str) -> list[dict[str, Any]]:
    return [{"role": "user", "content": f"KIND:{text};"}]


def _large_body(number: int) -> bytes:
    turns = _LARGE * _TURNS // _BYTES
    return _body(_conversation(number * 1_000, turns, "KIND:none;"), number)


def _http(body: bytes) -> bytes:
    head = b"POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n"
    return head + b"content-length: %d\r\n\r\n" % len(body) + body


if __name__ == "__main__":
    sys.exit(main())
