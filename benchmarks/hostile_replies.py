"""The delay of a stream's chunks while an upstream or an MCP server answers others with dense JSON, through a proxy.

Rule: what `hostile_requests` does for requests. A reply is one event, or one message of a server, of up to 1 MB, and
comes once a second. Half of them are just below the limit of what is parsed at all: those cost the most.
"""

import asyncio
import contextlib
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.hostile_requests import _HEAD, MAX_WAIT_MS, _array, _body, _measure_kind, _play, _request
from benchmarks.proxy.processes import Process, _running, free_port
from benchmarks.proxy.upstream import encode_event, http_chunk
from benchmarks.report import Report, arguments
from fcshim.codecs.value_counter import MAX_MARKS

_SIZE = 10**6
_BELOW = MAX_MARKS - 5_000
# Values by which JSON is dense, and the marks that each costs, its comma included.
_VALUES = {
    "numbers": (b"0", 1),
    "strings": (b'""', 3),
    "arrays": (b"[]", 5),
    "objects": (b"{}", 5),
    "objects with a key": (b'{"a":0}', 8),
    "nested arrays": (b"[[[[]]]]", 17),
}
SERVER = "MCP: "
_CALL = '<function_call>\n{"name": "mcp__dense__%s", "arguments": {}}\n</function_call>'


def _dense(value: bytes, marks: int, *, refused: bool = False) -> bytes:
    """Return an array of values: of 1 MB, or of as many as are still parsed."""
    return _array(value, _SIZE // (len(value) + 1) if refused else min(_BELOW // marks, _SIZE // (len(value) + 1)))


def upstream_replies() -> dict[str, bytes]:
    """Return the events of upstreams by kind."""
    objects = _dense(*_VALUES["objects with a key"])
    choice = b'{"choices":[{"index":0,"delta":{"content":"a"},"finish_reason":null,"logprobs":%b}]}'
    document = b'{"choices":[{"index":0,"delta":%b}]}'
    call = b'{"tool_calls":[{"index":0,"id":"1","type":"function","function":{"name":"f","arguments":%b}}]}'
    arguments_text = b'{"v": %b}' % _dense(b"1", 1)
    written = "<function_call>\n" + json.dumps({"name": "f", "arguments": {"v": [1] * 330_000}}) + "\n</function_call>"
    replies = {
        **{f"{name} in an unknown field": b'{"choices":[],"x":%b}' % _dense(*each) for name, each in _VALUES.items()},
        **{f"{name} of 1 MB": b'{"choices":[],"x":%b}' % _dense(*each, refused=True) for name, each in _VALUES.items()},
        "objects as the text": document % (b'{"content":%b}' % objects),
        "objects as calls": document % (b'{"tool_calls":%b}' % objects),
        "objects as choices": b'{"choices":%b}' % objects,
        "objects as log probabilities": choice % (b'{"content":%b}' % objects),
        "a text of 1 MB": document % (b'{"content":"%b"}' % (b"x" * _SIZE)),
        "a text of marks": document % (b'{"content":"%b"}' % (b"[{," * (_SIZE // 3))),
        "a text of markers": document % (b'{"content":"%b"}' % (b"<tool_call>" * (_SIZE // 11))),
        "a call with dense arguments in the text": document % (b'{"content":%b}' % json.dumps(written).encode()),
        "a native call with dense arguments": document % (call % json.dumps(arguments_text.decode()).encode()),
    }
    return {name: b"data: " + reply + b"\n\n" for name, reply in replies.items()}


def server_results() -> dict[str, bytes]:
    """Return the results of an MCP server's tools by their names."""
    text = b'{"content":[{"type":"text","text":%b}]}'
    structured = b'{"content":[],"structuredContent":{"v":%b}}'
    objects = _VALUES["objects with a key"]
    return {
        "text": text % json.dumps("x" * _SIZE).encode(),
        "json_text": text % json.dumps(_dense(*objects, refused=True).decode()).encode(),
        "structured": structured % _dense(*objects),
        "structured_of_1_MB": structured % _dense(*objects, refused=True),
        "content": b'{"content":%b}' % _array(b'{"type":"text","text":"a"}', _BELOW // 14),
        "numbers": structured % _dense(*_VALUES["numbers"]),
    }


def _kinds() -> dict[str, str]:
    """Return the text of the model's reply by kind, empty where the reply is an event of `upstream_replies`."""
    return dict.fromkeys(upstream_replies(), "") | {SERVER + name: _CALL % name for name in server_results()}


# The upstream and the MCP server, each a process of its own.


async def _serve_upstream(port: int) -> None:
    events, calls = upstream_replies(), _kinds()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            while head := (await reader.readuntil(b"\r\n\r\n")).lower():
                body = await reader.readexactly(int(head.partition(b"content-length:")[2].partition(b"\r\n")[0] or 0))
                if b"KIND:" not in body:
                    writer.write(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n")
                    continue
                _, _, rest = body.partition(b"KIND:")
                kind, _, after = rest.partition(b";")
                writer.write(_HEAD)
                if kind.startswith(b"PACED"):
                    await _play(writer, float(kind[6:]))
                elif call := calls[kind.decode()]:
                    is_answered = b"mcp__dense__" in after  # the call, and what came of it
                    writer.write(encode_event("Done." if is_answered else call))
                else:
                    writer.write(http_chunk(events[kind.decode()]))
                writer.write(encode_event(None, "stop") + http_chunk(b"data: [DONE]\n\n") + b"0\r\n\r\n")
                await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", port, limit=4_000_000)
    await server.serve_forever()


def _serve_tools() -> None:
    """Speak MCP over standard input and output."""
    results = server_results()
    tools = [{"name": name, "inputSchema": {"type": "object", "properties": {}}} for name in results]
    for line in sys.stdin.buffer:
        request = json.loads(line)
        match request.get("method"):
            case "initialize":
                version = request["params"]["protocolVersion"]
                result = {"protocolVersion": version, "capabilities": {"tools": {}}}
                found = json.dumps(result | {"serverInfo": {"name": "dense", "version": "1"}}).encode()
            case "tools/list":
                found = json.dumps({"tools": tools}).encode()
            case "tools/call":
                found = results[request["params"]["name"]]
            case _:
                found = b"{}"
        if "id" in request:
            sys.stdout.buffer.write(b'{"jsonrpc":"2.0","id":%d,"result":%b}\n' % (request["id"], found))
            sys.stdout.buffer.flush()


@contextlib.contextmanager
def _upstream() -> Iterator[Process]:
    port = free_port()
    with _running([sys.executable, "-m", "benchmarks.hostile_replies", "--upstream", str(port)], port) as process:
        yield process


def _requests() -> dict[str, Callable[[], bytes]]:
    return {kind: lambda k=kind: _request(_body({"type": "object"}, "Go on.", k)) for kind in _kinds()}


def main() -> int:
    """Measure every kind, or those whose name contains `--kind`."""
    parser = arguments(__doc__ or "")
    parser.add_argument("--kind", default="", help="only the kinds whose name contains this")
    options = parser.parse_args()
    report = Report("hostile replies")
    seconds = 2 if options.quick else 5
    with TemporaryDirectory() as folder, _upstream() as upstream:
        servers = Path(folder) / "servers.json"
        command = {"command": sys.executable, "args": ["-m", "benchmarks.hostile_replies", "--tools"]}
        servers.write_text(json.dumps({"mcpServers": {"dense": command}}))
        options_of = ("--mcp", str(servers), "--allow", "*")
        rows = [
            _measure_kind(
                upstream, Path(folder), kind, make(), seconds, *(options_of if kind.startswith(SERVER) else ())
            )
            for kind, make in _requests().items()
            if options.kind in kind
        ]
    columns = ("hostile reply", "p99", "longest", "longest in the control", "difference", "spread of controls")
    report.table("waiting of a stream's chunks, ms (medians of three runs)", columns, rows)
    for name, *_, difference, _ in rows:
        report.bar(f"longer wait than in the control: {name}", difference, MAX_WAIT_MS, "ms")
    return report.finish(options.json)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--upstream"]:
        asyncio.run(_serve_upstream(int(sys.argv[2])))
    elif sys.argv[1:2] == ["--tools"]:
        _serve_tools()
    else:
        sys.exit(main())
