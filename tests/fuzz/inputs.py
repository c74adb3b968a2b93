"""The inputs of the coverage-guided fuzzer: files whose first line selects how the remainder is parsed.

The line is a dialect's name (or `auto`) and two numbers: a seed for the options, and one for the splits. A line that a
mutation has damaged is still valid.

Rule: any bytes are an input; the meaning of a file does not change when the dialect table grows.
"""

import json
import random
import zlib
from pathlib import Path
from typing import Any

from fcshim.parse.dialects import AUTO, DIALECTS
from fcshim.prompt.render import render_calls
from tests.fuzz.documents import Document

CORPUS = Path(__file__).parent / "corpus"
NAMES = ("f", "get_weather", "write_file")
PROPERTIES = {"city": {"type": "string"}, "n": {"type": "integer"}, "on": {"type": "boolean"}, "x": {"type": "array"}}
TOOLS: list[Any] = [
    {"type": "function", "function": {"name": name, "parameters": {"type": "object", "properties": PROPERTIES}}}
    for name in NAMES
]
CALLS: list[tuple[str, dict[str, Any]]] = [
    ("get_weather", {"city": "Paris", "n": 2, "on": True}),
    ("f", {"x": [{"a": None}, 1.5]}),
]


def read_document(data: bytes) -> Document:
    """Return the document of an input."""
    line, _, text = data.decode("utf-8", "replace").partition("\n")
    name, how, where = [*line.split(" ", 2), "", "", ""][:3]
    names = (*DIALECTS, AUTO)
    source = random.Random(zlib.crc32(how.encode()))
    options = {
        "dialect": name if name in names else names[zlib.crc32(name.encode()) % len(names)],
        "rescue": source.random() < 0.3,
        "reasoning": source.choice(("ignore", "ignore", "recover", "promote")),
        "arguments": source.choice(("stream", "stream", "validated")),
    }
    stop = source.choice(("complete", "complete", "max_tokens", "error"))
    return Document(zlib.crc32(where.encode()), text, None, TOOLS, options, stop)  # type: ignore[arg-type] # see above


def seed_inputs() -> dict[str, bytes]:
    """Return one input per dialect, rendered by its own templates."""
    calls = [(name, json.dumps(arguments)) for name, arguments in CALLS]
    return {name: f"{name} 0 0\nWell.\n{render_calls(row, calls)}\n".encode() for name, row in DIALECTS.items()}
