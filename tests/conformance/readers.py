"""The readers to compare: fcshim, and the usual code around the libraries that one would use instead.

Rule: a peer is used as its documentation says; one that is not installed is left out.
"""

import importlib
import importlib.util
import json
import re
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from fcshim import StreamParser
from fcshim.reply import fold
from fcshim.testing.conformance import Call, ConformanceCase, Reader, ReaderResult

NODE_MODULES = Path(__file__).parents[2] / ".cache" / "conformance"
"""Where `npm install --prefix .cache/conformance @ai-sdk-tool/parser` puts the peer."""
PYTHON_PEERS = {"partial-json-parser": "partial_json_parser", "json-repair": "json_repair"}
"""JSON parsers for the output of models: package and module. `make bench` installs them."""
_BLOCK = re.compile(r"<tool_call>(.*?)(?:</tool_call>|\Z)", re.DOTALL)


def fcshim(cases: Sequence[ConformanceCase]) -> list[ReaderResult]:
    """Read with the default of the proxy: the prompt asks for the dialect hermes, and other formats are rescued."""
    return [_fcshim(case) for case in cases]


def _fcshim(case: ConformanceCase) -> ReaderResult:
    parser = StreamParser("hermes", tools=case.tools, rescue=True)
    events = [event for piece in case.pieces() for event in parser.feed(piece)]
    events += parser.close(case.stop_reason)  # type: ignore[arg-type] # one of its values
    reply = fold(events)
    calls = [
        {"name": call.tool_call_name, "arguments": json.loads(call.tool_call_arguments_complete)}
        for call in reply.tool_calls
        if call.error is None
    ]
    return ReaderResult(calls, reply.text)


def tag_search_reader(parse: Callable[[str], Any]) -> Reader:
    """Return a reader that searches for the tags and parses the text between them, the usual use of a JSON parser."""

    def read(cases: Sequence[ConformanceCase]) -> list[ReaderResult]:
        return [ReaderResult(_calls(case.input, parse), _BLOCK.sub("", case.input)) for case in cases]

    return read


def _calls(text: str, parse: Callable[[str], Any]) -> list[Call]:
    calls: list[Call] = []
    for block in _BLOCK.findall(text):
        try:
            body = parse(block.strip())
        except Exception:  # noqa: BLE001  whatever a peer raises, the call is lost
            continue
        if isinstance(body, dict) and "name" in body:
            calls.append({"name": body["name"], "arguments": body.get("arguments", {})})
    return calls


def ai_sdk(cases: Sequence[ConformanceCase]) -> list[ReaderResult]:
    """Read with the streaming Hermes protocol of `@ai-sdk-tool/parser`, through `ai_sdk.mjs`."""
    node = shutil.which("node")
    assert node is not None
    script = Path(__file__).with_name("ai_sdk.mjs")
    given = json.dumps([{"tools": case.tools, "pieces": case.pieces()} for case in cases])
    found = subprocess.run(
        [node, script, NODE_MODULES], input=given, capture_output=True, text=True, check=True, timeout=120
    )
    return [ReaderResult(**result) for result in json.loads(found.stdout)]


def installed() -> dict[str, Reader]:
    """Return the readers that are installed, fcshim first."""
    readers: dict[str, Reader] = {"fcshim": fcshim}
    for name, module in PYTHON_PEERS.items():
        if importlib.util.find_spec(module) is not None:
            readers[f"tags + {name}"] = tag_search_reader(importlib.import_module(module).loads)
    if shutil.which("node") and (NODE_MODULES / "node_modules" / "@ai-sdk-tool" / "parser").is_dir():
        readers["@ai-sdk-tool/parser"] = ai_sdk
    return readers
