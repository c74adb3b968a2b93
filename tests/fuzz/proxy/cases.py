"""Make a request and an upstream's replies for the proxy: as they should be, or changed at random.

Rule: a case is its seed's. What is sent stands in it byte for byte, so that a file of it stays the same case when this
module changes. Bytes are texts with one character for each.
"""

import json
import random
from pathlib import Path
from typing import Any, Literal

import msgspec

from fcshim.codecs.base import Codec, ReplyIdentity
from fcshim.codecs.routes import CODECS
from fcshim.codecs.upstreams import UPSTREAMS
from fcshim.events import Event, Stop, Text, ToolCallChunk, ToolCallEnd, ToolCallStart, Usage
from fcshim.messages import (
    AssistantMessage,
    Request,
    SystemMessage,
    TextPart,
    Tool,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from fcshim.reply import fold
from tests.codecs.test_arbitrary_requests import value_paths, with_value_at

End = Literal["keep", "close", "reset", "hang"]


class Play(msgspec.Struct, frozen=True):
    """One reply of the upstream: its bytes in the pieces in which they are sent, and what it does with the connection.

    After `keep` it waits for the next request; after `hang` it sends nothing more.
    """

    pieces: list[str]
    end: End = "keep"


class ProxyCase(msgspec.Struct, frozen=True, kw_only=True):
    """What a client sends to the proxy of `variant`, and what the upstream plays, the last play repeatedly."""

    seed: int
    variant: str
    api: str
    """The client's API."""
    request: list[str]
    plays: list[Play]
    reads: int | None = None
    """Bytes that the client reads before it leaves; None for all."""
    expected: tuple[str, list[tuple[str, dict[str, int]]]] | None = None
    """Text and calls of the reply, where nothing was changed."""


VARIANTS: dict[str, tuple[str, dict[str, object]]] = {
    "prompt": ("openai", {"tools": "prompt"}),
    "native": ("openai", {"tools": "native"}),
    "auto": ("openai", {}),
    "strict": ("openai", {"tools": "prompt", "arguments": "validated", "reasoning": "promote", "max_retries": 2}),
    "observed": ("openai", {"tools": "prompt", "inspect": True, "metrics": True}),
    "small": ("openai", {"tools": "prompt", "max_body": 3_000, "max_reply": 3_000, "max_headers": 1_000}),
    "llamacpp": ("llamacpp", {"tools": "prompt"}),
    "responses": ("responses", {"tools": "native"}),
    "anthropic": ("anthropic", {"tools": "native"}),
    "gemini": ("gemini", {"tools": "native"}),
    "ollama": ("ollama", {"tools": "native"}),
    "anthropic by prompt": ("anthropic", {"tools": "prompt"}),
    "gemini by prompt": ("gemini", {"tools": "prompt"}),
    "responses by prompt": ("responses", {"tools": "prompt"}),
    "ollama by prompt": ("ollama", {"tools": "prompt"}),
}
"""The upstream's API and the settings of each proxy."""
_SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}, "required": ["a"]}
_TOOLS = (Tool("add", "Add two numbers.", _SCHEMA), Tool("sub", "Subtract.", _SCHEMA))
_TABLES: dict[str, list[Any]] = json.loads(Path(__file__).with_name("tables.json").read_text("utf-8"))
_TABLES["headers"].append("x: " + "y" * 3_000)
_TABLES["reply_headers"].append("x: " + "y" * 20_000)
_TABLES["values"].append("x" * 5_000)
_TABLES["errors"].append("[" * 2_000)
_TABLES["garbage"].append("HTTP/1.1 200 OK\r\n" + "a: b\r\n" * 500 + "\r\n")
_REQUEST_CHANGES = (
    *("value", "header", "path", "method", "length", "chunked", "body", "bytes", "bytes of all", "nested", "text"),
)
_REQUEST_WEIGHTS = (6, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1)
_PLAY_CHANGES = ("event", "bytes", "bytes of all", "status", "header", "end", "text", "garbage")
_PLAY_WEIGHTS = (7, 2, 1, 2, 2, 2, 1, 1)
_IDENTITY = ReplyIdentity("reply_1", 1_700_000_000, "m")


def make_case(seed: int) -> ProxyCase:
    """Create the case of a seed."""
    source = random.Random(seed)
    variant = source.choice([*VARIANTS])
    client, upstream = CODECS[source.choice([*CODECS])], UPSTREAMS[VARIANTS[variant][0]].codec
    streamed, with_tools = source.random() < 0.7, source.random() < 0.8
    text, calls = _text(source), _calls(source) if with_tools else []
    by_prompt = VARIANTS[variant][1].get("tools", "prompt") == "prompt"
    request = _request(source, client, streamed=streamed, with_tools=with_tools)
    # A request without tools, with the client's stream setting, may be relayed as it is.
    reply_streamed = streamed or with_tools or client is not upstream
    plays = [_reply(source, upstream, _events(source, text, calls, by_prompt=by_prompt), streamed=reply_streamed)]
    kind = source.choices(["as it should be", "request", "reply", "both"], [2, 4, 5, 1])[0]
    if kind in {"request", "both"}:
        request = _changed_request(source, request)
    if kind in {"reply", "both"}:
        plays = [_changed_play(source, plays[0]) for _ in range(source.choice([1, 1, 2, 3]))]
    leaves = kind != "as it should be" and source.random() < 0.08
    is_plain = kind == "as it should be" and variant != "small"
    return ProxyCase(
        seed=seed,
        variant=variant,
        api=client.name,
        request=_cut(source, request),
        plays=plays,
        reads=source.choice([0, 1, 50, 300]) if leaves else None,
        expected=(text, calls) if is_plain else None,
    )


def _text(source: random.Random) -> str:
    return "Well, " + " ".join(source.choice(_TABLES["words"]) for _ in range(source.choice([0, 1, 5, 40]))) + "."


def _calls(source: random.Random) -> list[tuple[str, dict[str, int]]]:
    return [
        (source.choice(["add", "sub"]), {"a": at, "b": source.randint(-9, 10**9)})
        for at in range(source.choice([0, 1, 1, 2, 5]))
    ]


def _events(
    source: random.Random, text: str, calls: list[tuple[str, dict[str, int]]], *, by_prompt: bool
) -> list[Event]:
    """Return the reply's events: calls as a model without native tools writes them, or as an upstream sends them."""
    events: list[Event] = [Text(piece) for piece in _cut(source, text)]
    reason = "complete"
    if calls and by_prompt:
        bodies = [json.dumps({"name": name, "arguments": given}) for name, given in calls]
        written = "\n".join(f"<function_call>\n{body}\n</function_call>" for body in bodies)
        events += [Text(piece) for piece in _cut(source, "\n" + written)]
    elif calls:
        reason = "tool_use"
        for index, (name, given) in enumerate(calls):
            pieces = _cut(source, json.dumps(given))
            events.append(ToolCallStart(f"call_{index}", name, index))
            events += [ToolCallChunk(f"call_{index}", piece, index) for piece in pieces]
            events.append(ToolCallEnd(f"call_{index}", name, "".join(pieces), index))
    return [*events, Usage(7, 5), Stop(reason)]


def _request(source: random.Random, codec: Codec, *, streamed: bool, with_tools: bool) -> str:
    history = (
        (AssistantMessage((), (ToolCall("call_1", "add", '{"a":5}'),)), ToolMessage("call_1", (TextPart("5"),), "add"))
        if with_tools and source.random() < 0.5
        else ()
    )
    request = Request(
        model="m",
        messages=(SystemMessage((TextPart("Be brief."),)), UserMessage((TextPart("Hi"),)), *history),
        tools=_TOOLS if with_tools else (),
        max_tokens=source.choice([None, 100]),
        temperature=source.choice([None, 0.5]),
    )
    outgoing = codec.encode_request(request)
    path = outgoing.path[1:] if outgoing.path.startswith("//") else _version(codec) + outgoing.path
    document = json.loads(outgoing.body)
    if streamed and codec.name != "gemini":
        document["stream"] = True
    elif not streamed:
        path = path.replace(":streamGenerateContent?alt=sse", ":generateContent")
        if codec.name != "gemini":
            document["stream"] = False
            document.pop("stream_options", None)
    headers = [f"{name.decode()}: {value.decode()}" for name, value in outgoing.headers]
    return _write_request("POST", path, headers, json.dumps(document))


def _version(codec: Codec) -> str:
    return next(kind.version for kind in UPSTREAMS.values() if kind.codec is codec)


def _write_request(method: str, path: str, headers: list[str], body: str, *, length: int | None = None) -> str:
    own = [
        "Host: 127.0.0.1",
        "Content-Type: application/json",
        f"Content-Length: {len(body) if length is None else length}",
    ]
    return "\r\n".join([f"{method} {path} HTTP/1.1", *own, *headers, "", body])


def _reply(source: random.Random, codec: Codec, events: list[Event], *, streamed: bool) -> Play:
    request = Request(model="m", messages=(UserMessage(()),), stream=streamed, include_usage=True, tools=_TOOLS)
    if streamed:
        encoder = codec.encoder(request, _IDENTITY)
        kind, body = encoder.content_type, encoder.encode(0, events) + encoder.close()
    else:
        kind, body = "application/json", codec.encode_reply(request, _IDENTITY, [fold(events)])
    return Play(_cut(source, _write_reply(source, 200, [f"Content-Type: {kind}"], body.decode("latin-1"))))


def _write_reply(source: random.Random, status: int, headers: list[str], body: str) -> str:
    if source.random() < 0.5:
        headers = [*headers, f"Content-Length: {len(body)}"]
    else:
        headers = [*headers, "Transfer-Encoding: chunked"]
        body = "".join(f"{len(piece):x}\r\n{piece}\r\n" for piece in _cut(source, body)) + "0\r\n\r\n"
    return "\r\n".join([f"HTTP/1.1 {status} -", *headers, "", body])


def _cut(source: random.Random, text: str) -> list[str]:
    """Cut a text into pieces: into one, or into some at random places."""
    if source.random() < 0.3 or len(text) < 2:
        return [text] if text else []
    places = sorted(source.sample(range(1, len(text)), min(len(text) - 1, source.choice([1, 2, 5, 20]))))
    return [text[start:end] for start, end in zip([0, *places], [*places, len(text)], strict=True)]


def _split(message: str) -> tuple[str, list[str], str]:
    """Return the first line of a message, its headers and its body."""
    head, _, body = message.partition("\r\n\r\n")
    first, *headers = head.split("\r\n")
    return first, headers, body


def _changed_request(source: random.Random, request: str) -> str:
    """Change a request in one to three ways."""
    for _ in range(source.choice([1, 1, 2, 3])):
        change = source.choices(_REQUEST_CHANGES, _REQUEST_WEIGHTS)[0]
        first, headers, body = _split(request)
        method, _, path = first.removesuffix(" HTTP/1.1").partition(" ")
        own = [each for each in headers if not each.startswith(("Host: 127", "Content-Type: app", "Content-Length: "))]
        match change:
            case "header":
                headers.insert(source.randint(0, len(headers)), source.choice(_TABLES["headers"]))
                request = "\r\n".join([first, *headers, "", body])
            case "path":
                method = source.choice([method, method, "GET"])
                new = source.choice([*_TABLES["paths"], path]) + source.choice(_TABLES["queries"])
                request = _write_request(method, new, own, body if method == "POST" else "")
            case "method":
                request = _write_request(source.choice(_TABLES["methods"]), path, own, body)
            case "length":
                length = max(0, len(body) + source.choice([-5, -1, 1, 20]))
                request = _write_request(method, path, own, body, length=length)
            case "chunked":
                pieces = "".join(f"{len(piece):x}\r\n{piece}\r\n" for piece in _cut(source, body))
                end = source.choice(["0\r\n\r\n", "0\r\nx: y\r\n\r\n", "zz\r\n", "", "0\r\n"])
                fields = ["Host: 127.0.0.1", "Content-Type: application/json", "Transfer-Encoding: chunked", *own]
                request = "\r\n".join([first, *fields, "", pieces + end])
            case "bytes of all":
                request = _changed_bytes(source, request)
            case _:
                request = _write_request(method, path, own, _changed_body(source, change, body))
    return request


def _changed_body(source: random.Random, change: str, body: str) -> str:
    match change:
        case "value":
            return _changed_document(source, body)
        case "body":
            return str(source.choice(_TABLES["bodies"]))
        case "bytes":
            return _changed_bytes(source, body)
        case "nested":
            depth = source.choice([50, 150, 3_000])
            return '{"model": "m", "messages": ' + "[" * depth + "]" * depth + "}"
        case _:
            return body.replace('"Hi"', json.dumps(_marked_text(source, source.choice([1, 10, 200]))))


def _marked_text(source: random.Random, count: int) -> str:
    return " ".join(source.choice([*_TABLES["words"], *_TABLES["marks"]]) for _ in range(count))


def _changed_document(source: random.Random, body: str) -> str:
    """Change a value of a JSON document: another one, or none; or add a field."""
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        return _changed_bytes(source, body)
    value = source.choice(_TABLES["values"])
    paths = [path for path in value_paths(document) if path]
    if not paths:
        return json.dumps(value)
    if source.random() < 0.1 and isinstance(document, dict):
        return json.dumps({**document, source.choice(_TABLES["fields"]): value})
    return json.dumps(with_value_at(document, source.choice(paths), ... if source.random() < 0.25 else value))


def _changed_bytes(source: random.Random, text: str) -> str:
    """Change, insert, delete or repeat some characters, or cut the text off."""
    for _ in range(source.choice([1, 2, 8])):
        at = source.randint(0, len(text))
        new = chr(source.choice([0, 10, 13, 34, 44, 58, 91, 92, 123, 125, 127, 128, 255, source.randint(0, 255)]))
        match source.choice(["change", "insert", "delete", "repeat", "cut"]):
            case "change":
                text = text[:at] + new + text[at + 1 :]
            case "insert":
                text = text[:at] + new * source.choice([1, 1, 50]) + text[at:]
            case "delete":
                text = text[:at] + text[at + source.choice([1, 4, 40]) :]
            case "repeat":
                text = text[: at + 30] + text[at:]
            case _ if source.random() < 0.3:
                text = text[:at]
    return text


def _changed_play(source: random.Random, play: Play) -> Play:
    """Change a reply in one to three ways."""
    text, end = "".join(play.pieces), play.end
    for _ in range(source.choice([1, 1, 2, 3])):
        first, headers, body = _split(text)
        bare = [each for each in headers if not each.lower().startswith(("content-length: ", "transfer-encoding: "))]
        plain = without_chunks(body) if "Transfer-Encoding: chunked" in headers else body
        status = int(first[9:12]) if first.startswith("HTTP/1.1 ") and first[9:12].isdigit() else 200
        match source.choices(_PLAY_CHANGES, _PLAY_WEIGHTS)[0]:
            case "event":
                text = _write_reply(source, status, bare, _changed_events(source, plain))
            case "bytes":
                text = _write_reply(source, status, bare, _changed_bytes(source, plain))
            case "bytes of all":
                text = _changed_bytes(source, text)
            case "status":
                error = source.choice([*_TABLES["errors"], plain])
                text = _write_reply(source, source.choice(_TABLES["statuses"]), bare, error)
            case "header":
                headers.insert(source.randint(0, len(headers)), source.choice(_TABLES["reply_headers"]))
                text = "\r\n".join([first, *headers, "", body])
            case "end":
                end = source.choices(["close", "reset", "hang"], [8, 6, 1])[0]
                text = text[: source.randint(0, len(text))]
            case "text":
                marks = json.dumps(_marked_text(source, 30))[1:-1]
                text = _write_reply(source, status, bare, plain.replace("Well, ", marks))
            case _:
                text, end = source.choice(_TABLES["garbage"]), source.choice(["close", "reset"])
    return Play(_cut(source, text), end)


def without_chunks(body: str) -> str:
    """Return a chunked body's content, as far as it is one."""
    found = []
    while body:
        size, _, rest = body.partition("\r\n")
        try:
            length = int(size, 16)
        except ValueError:
            break
        found.append(rest[:length])
        body = rest[length + 2 :]
    return "".join(found)


def _changed_events(source: random.Random, body: str) -> str:
    """Change a value of a document in a stream or a whole reply, or drop, repeat or move one of its lines."""
    lines = body.split("\n")
    at = source.randrange(len(lines))
    match source.choice(["value", "value", "value", "drop", "repeat", "move"]):
        case "value":
            places = [index for index, line in enumerate(lines) if "{" in line]
            if not places:
                return _changed_bytes(source, body)
            at = source.choice(places)
            prefix, brace, document = lines[at].partition("{")
            lines[at] = prefix + _changed_document(source, brace + document)
        case "drop":
            del lines[at]
        case "repeat":
            lines.insert(at, lines[at])
        case _:
            lines.insert(source.randrange(len(lines)), lines.pop(at))
    return "\n".join(lines)
