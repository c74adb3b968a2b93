"""A minimal server without the SDK that misbehaves as its argument says: `raw.py MANNER`.

Rule: it speaks the protocol of 2025 over stdio and starts in a few milliseconds; every misbehaviour has a name.
"""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

MANNER = sys.argv[1] if len(sys.argv) > 1 else "good"
TOKEN = os.environ.get("TOKEN")
TOOL = {
    "name": "work",
    "description": f"Uses {TOKEN}." if MANNER == "tells-tool" else "Work.",
    "inputSchema": {"type": "object", "properties": {}},
}


def write(**message) -> None:
    """Write one message."""
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def text(said: str) -> dict:
    """Return a result with this text."""
    return {"content": [{"type": "text", "text": said}]}


def children() -> None:
    """Start a process that outlives this one, and write down its number."""
    if MANNER == "orphan" and os.fork():
        return
    program = "import time; time.sleep(600)"
    env = {} if MANNER in ("hidden", "orphan") else None
    child = subprocess.Popen([sys.executable, "-S", "-c", program], start_new_session=MANNER != "child", env=env)
    with Path(sys.argv[2]).open("a") as file:
        file.write(f"{child.pid}\n")
    if MANNER == "orphan":
        os._exit(0)


def tools(request: dict) -> dict:
    """Return the result of `tools/list`."""
    cursor = (request.get("params") or {}).get("cursor")
    if MANNER == "endless-pages":
        at = int(cursor or 0)
        return {"tools": [TOOL | {"name": f"t{at}"}], "nextCursor": str(at + 1)}
    if MANNER == "pages" and cursor is None:
        return {"tools": [TOOL], "nextCursor": "2"}
    if MANNER == "pages":
        return {"tools": [TOOL | {"name": "more"}, TOOL]}
    if MANNER == "odd-tools":
        bare, nameless = {"name": "bare", "inputSchema": {"$schema": "x"}}, {"inputSchema": {}}
        task = TOOL | {"name": "only_tasks", "execution": {"taskSupport": "required"}}
        return {"tools": [bare, nameless, 5, {"name": "none"}, task, TOOL | {"outputSchema": {"type": "array"}}]}
    if MANNER == "described":
        return {"tools": [TOOL | {"description": Path(sys.argv[2]).read_text()}]}
    if MANNER == "deep-tools":
        schema = {"type": "object"}
        for _ in range(300):
            schema = {"type": "object", "properties": {"a": schema}}
        return {"tools": [TOOL | {"inputSchema": schema}]}
    if MANNER == "no-tools":
        return {"tools": []}
    if MANNER == "no-list":
        return {"tools": "none"}
    return {"tools": [TOOL]}


def call(request: dict) -> None:
    """Answer a call, or do not."""
    number, said = request["id"], text(str(os.getpid()))
    if MANNER in SPEECHES:
        SPEECHES[MANNER](number)
    if MANNER in ("never", "long-line", "too-long-line", "too-long-tail", "deep-line", "many-values", "many-blocks"):
        return
    answers = {
        "not-a-result": {"result": {"content": 5}},
        "error": {"error": {"code": -32603, "message": "it broke"}},
        "tells-error": {"error": {"code": -1, "message": f"refused: {os.environ.get('TOKEN')}"}},
        "tells-text": {"result": text(f"refused: {os.environ.get('TOKEN')}")},
        "tells-value": {"result": {"content": [], "structuredContent": {"token": os.environ.get("TOKEN")}}},
        "no-words": {"result": {"content": [], "isError": True}},
        "strange-content": {"result": {"content": [{"type": "hologram", "data": 1}]}},
    }
    write(id=number, **answers.get(MANNER, {"result": said}))


def say(words: str) -> None:
    """Write text that is not a message."""
    sys.stdout.write(words)
    sys.stdout.flush()


SPEECHES = {
    "garbage": lambda _: say('loading...\n\n\x00{"jsonrpc": \n[1,2]\n{"jsonrpc":"2.0","id":999,"result":{}}\n'),
    "long-line": lambda number: write(id=number, result=text("x" * 10_000_000)),
    "too-long-line": lambda number: write(id=number, result=text("x" * 20_000_000)),
    "too-long-tail": lambda number: say(
        json.dumps({"result": text("x" * 20_000_000), "jsonrpc": "2.0", "id": number}) + "\n"
    ),
    "deep-line": lambda number: say(
        f'{{"id": 1, "level": "info"}}\n{{"jsonrpc": "2.0", "id": {number}, "result": {"[" * 20_000}{"]" * 20_000}}}\n'
    ),
    "many-values": lambda number: write(id=number, result={"content": [], "structuredContent": {"v": [1] * 450_000}}),
    "many-blocks": lambda number: write(id=number, result={"content": [{"type": "text", "text": ""}] * 2_001}),
    "flood": lambda _: say('{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info"}}\n' * 5_000),
    "endless-line": lambda _: say("x" * 40_000_000),
    "noisy": lambda _: sys.stderr.write("noise\n" * 200_000),
}


OFFERS = {
    "resources/list": {"resources": [{"uri": "a://b", "name": "b", "description": f"of {TOKEN}"}]},
    "resources/templates/list": {"resourceTemplates": []},
    "resources/read": {"contents": [{"uri": "a://b", "text": f"{TOKEN}: fine"}]},
    "prompts/list": {"prompts": [{"name": "p", "description": TOKEN}]},
    "prompts/get": {"messages": [{"role": "user", "content": {"type": "text", "text": f"use {TOKEN}"}}]},
}


def answer(request: dict) -> None:
    """Answer a request; notifications get no answer."""
    if "id" not in request:
        return
    if MANNER == "tells-resource" and request["method"] in OFFERS:
        write(id=request["id"], result=OFFERS[request["method"]])
        return
    match request["method"]:
        case "initialize" | "server/discover" if MANNER == "tells-end":
            sys.exit(f"no such account: {os.environ.get('TOKEN')}")
        case "initialize":
            version, info = request["params"]["protocolVersion"], {"name": "raw", "version": "1"}
            kinds = {"silent-resources": ["resources"], "tells-resource": ["resources", "prompts"]}.get(MANNER, [])
            able = {kind: {} for kind in ["tools", *kinds]}
            result = {"protocolVersion": version, "capabilities": able, "serverInfo": info}
            write(id=request["id"], result=result)
        case "tools/list":
            write(id=request["id"], result=tools(request))
        case "tools/call":
            call(request)
        case "ping" if MANNER != "deaf":
            write(id=request["id"], result={})
        case "server/discover" if MANNER == "crashes-at-discover":
            sys.exit("ValidationError: server/discover")
        case "server/discover":
            write(id=request["id"], error={"code": -32601, "message": "Method not found"})


def wait_for_others(folder: Path, count: int) -> None:
    """Wait until so many servers have begun."""
    (folder / str(os.getpid())).touch()
    while len(list(folder.iterdir())) < count:
        time.sleep(0.01)


def main() -> None:
    """Answer until the input ends."""
    if MANNER == "late":
        time.sleep(0.5)
    if MANNER == "together":
        wait_for_others(Path(sys.argv[2]), int(sys.argv[3]))
    if MANNER == "dead":
        sys.exit("no key was given")
    if MANNER == "crashes-at-discover":
        with Path(sys.argv[2]).open("a") as file:
            file.write("start\n")
    if MANNER == "silent-stubborn":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if MANNER in ("silent", "silent-stubborn"):
        time.sleep(600)
    if MANNER in ("child", "daemon", "hidden", "orphan"):
        children()
    for line in sys.stdin:
        answer(json.loads(line))
    if MANNER == "stubborn":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        time.sleep(600)


if __name__ == "__main__":
    main()
