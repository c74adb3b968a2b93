"""`fcshim demo`: runs a model, a proxy in front of it, and the official OpenAI client, which calls a tool.

Rule: everything shown is recorded from real requests on loopback; only the question is fixed. The
layout adds only ASCII and line feeds, so that the output is also readable in a pipe.
"""

import asyncio
import os
import shutil
import signal
import sys
import textwrap
from collections.abc import Iterable, Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, suppress
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import httpx
import msgspec

from fcshim.codecs.framing import SSESplitter
from fcshim.demo.asgi import Message, Receive, Send, read_body, send_chunk, send_end, send_start
from fcshim.demo.gguf_file import require_packages
from fcshim.demo.tool_client import COMMAND, QUESTION, TOOL, ToolCallingClient
from fcshim.errors import UpstreamError
from fcshim.events import ToolCallChunk, ToolCallEnd, ToolCallStart
from fcshim.parse.stream import StreamParser

if TYPE_CHECKING:
    from fcshim.demo.serving import EngineName, ServedModel


class _Script(NamedTuple):
    """What the demonstration says about a model and asks of it."""

    introduction: str
    question: str
    hint: str


_TINY = _Script(
    """\
A language model without tool calling calls a tool, through fcshim.

The model is tiny (1.4 million parameters, 1.5 MB) and only copies: it finds names and values in a
command and writes them as a call. It understands nothing. Everything else is real: the prompt, the
parser, the proxy, the official OpenAI client.
""",
    COMMAND,
    'The model understands commands such as "call NAME with KEY=VALUE, KEY=VALUE" or "say WORDS".',
)
_REAL = _Script(
    """\
A language model calls a tool, through fcshim.

The model gets no native tools: a prompt describes the tool, and the model writes text. fcshim reads the
call out of that text, and the official OpenAI client gets it as a native one.
""",
    QUESTION,
    "Any OpenAI client can use it.",
)

_INVITATION = """\
Still serving. {hint}

  curl {url}/v1/chat/completions -H 'Content-Type: application/json' -d '{body}'

  from openai import OpenAI
  client = OpenAI(base_url="{url}/v1", api_key="none")

Ctrl-C stops it.
"""
_REPLY_TIMEOUT = 600.0
"""Seconds without a byte of a reply: a large model needs long for a prompt."""
_MIN_WIDTH, _MAX_WIDTH = 76, 132


def run_demo(
    *,
    serve: bool = False,
    host: str = "127.0.0.1",
    port: int = 0,
    engine: "EngineName" = "auto",
    model: Path | None = None,
    program: str = "llama-server",
) -> int:
    """Run the demo and return the exit code: 0 if the tool was called and its result repeated, else 1.

    With `model`, a GGUF file, the llama-server `program` serves that file in place of the tiny model. With `serve` the
    proxy runs until it is interrupted. Raises `ConfigError` if a package, the program or the file is missing,
    and `UpstreamError` if the model does not reply.
    """
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # matrices this small are slower on several threads
    require_packages("openai", *(() if model else ("numpy", "gguf")))
    import openai  # noqa: PLC0415 - an optional package

    from fcshim.demo.serving import serve_model, serve_real_model  # noqa: PLC0415 - needs optional packages

    served = serve_real_model(model, program) if model else serve_model(engine, program)
    try:
        return asyncio.run(_demo(served, _REAL if model else _TINY, serve=serve, host=host, port=port))
    except openai.OpenAIError as error:
        raise UpstreamError(f"the demo's client failed: {error}") from error
    except (KeyboardInterrupt, asyncio.CancelledError):
        return 0


async def _demo(
    served: "AbstractAsyncContextManager[ServedModel]", script: _Script, *, serve: bool, host: str, port: int
) -> int:
    from openai import AsyncOpenAI, DefaultAsyncHttpxClient  # noqa: PLC0415 - an optional package

    from fcshim.demo.serving import serve_app, serve_proxy  # noqa: PLC0415 - needs optional packages

    # SIGTERM cancels the demo, so that it ends the llama-server that it has started.
    task = asyncio.current_task()
    assert task is not None
    with suppress(NotImplementedError):  # Windows
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    _print(script.introduction)
    async with AsyncExitStack() as stack:
        model = await stack.enter_async_context(served)
        relay_client = await stack.enter_async_context(httpx.AsyncClient(trust_env=False, timeout=_REPLY_TIMEOUT))
        relay = RecordingRelay(relay_client, model.url)
        proxy = await stack.enter_async_context(
            serve_proxy(await stack.enter_async_context(serve_app(relay)), host, port)
        )
        client = await stack.enter_async_context(
            AsyncOpenAI(base_url=f"{proxy}/v1", api_key="none", http_client=DefaultAsyncHttpxClient(trust_env=False))
        )
        name = (await client.models.list()).data[0].id
        _print(f"  model   {model.url}  {name}, {model.engine}, text only\n  proxy   {proxy}/v1  fcshim\n")
        code = await _show(ToolCallingClient(client, name, script.question), relay)
        if serve:
            body = {"model": name, "messages": [{"role": "user", "content": script.question}], "tools": [TOOL]}
            _print(_INVITATION.format(hint=script.hint, url=proxy, body=msgspec.json.encode(body).decode()))
            await _wait_for_signal()
    return code


@dataclass(frozen=True, slots=True)
class RecordedExchange:
    """One request to the model: the messages as (role, text), and the chunks of text of its reply."""

    messages: list[tuple[str, str]]
    pieces: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        """The text of the reply."""
        return "".join(self.pieces)


class RecordingRelay:
    """A relay between the proxy and the model at `upstream`: an ASGI application that records prompts and replies.

    Bytes are relayed unchanged; only what the demo shows is parsed.
    """

    def __init__(self, client: httpx.AsyncClient, upstream: str) -> None:
        self._client = client
        self._upstream = upstream
        self.records: list[RecordedExchange] = []

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Relay one HTTP request."""
        if scope["type"] != "http":
            return
        body = await read_body(receive)
        recorded = scope["path"].endswith("/chat/completions")
        if recorded:
            request = msgspec.json.decode(body)
            self.records.append(RecordedExchange([(m["role"], m["content"]) for m in request["messages"]]))
        url = self._upstream + scope["path"]
        headers = {"content-type": "application/json"}
        async with self._client.stream(scope["method"], url, content=body, headers=headers) as response:
            await send_start(send, response.status_code, response.headers.get("content-type", "application/json"))
            events = SSESplitter()
            async for data in response.aiter_raw():
                for event in events.feed(data) if recorded else ():
                    self._record(event)
                await send_chunk(send, data)
            await send_end(send)

    def _record(self, event: bytes) -> None:
        if event.startswith(b"{"):  # the last event is `[DONE]`
            for choice in msgspec.json.decode(event).get("choices", ()):
                if piece := choice["delta"].get("content"):
                    self.records[-1].pieces.append(piece)


async def _show(client: ToolCallingClient, relay: RecordingRelay) -> int:
    width = terminal_width()
    question = client.messages[0]["content"]
    function = TOOL["function"]
    names = ", ".join(f"{name}: {schema['type']}" for name, schema in function["parameters"]["properties"].items())
    request = (f"user: {question}", f"tools: {function['name']}({names})")
    message = await client.ask()
    _print(heading("1. The client asks, the model writes text", width))
    written = ["THE MODEL WROTE", relay.records[-1].text]
    _print(side_by_side(["THE CLIENT SENT", *request], written, width) + "\n")
    _print(heading("2. fcshim parses the text into events while it streams", width))
    _print("\n".join(truncate(line, width) for line in _event_lines(relay.records[-1])) + "\n")
    runs = client.run_tools(message)
    if not runs:
        _print("The model made no call. A larger one does, or the settings that `fcshim doctor` finds for it help.\n")
        return 1
    _print(heading("3. The client gets a tool call and runs the function", width))
    for run in runs:
        arguments = ", ".join(f"{name}={value!r}" for name, value in run.arguments.items())
        _print(f"{run.name}({arguments}) returned {run.result}")
    _print("")
    answer = await client.ask()
    prompt = relay.records[-1].messages[-1][1]
    _print(heading("4. The result goes back, the model answers", width))
    left = [
        "THE CLIENT SENT",
        *(f"tool: {run.result}" for run in runs),
        "",
        "THE CLIENT GOT",
        f"assistant: {answer.content or '(another call)'}",
    ]
    right = ["THE MODEL WAS SHOWN", prompt, "", "THE MODEL WROTE", relay.records[-1].text]
    _print(side_by_side(left, right, width) + "\n")
    return 0 if runs[-1].result in (answer.content or "") else 1


def _event_lines(record: RecordedExchange) -> Iterator[str]:
    """Parse the recorded text again, with the parser of the proxy; only the ids differ from those of the client."""
    parser = StreamParser("auto", tools=[TOOL])
    for event in [event for piece in record.pieces for event in parser.feed(piece)] + parser.close():
        match event:
            case ToolCallStart():
                about = event.tool_call_name
            case ToolCallChunk():
                about = event.tool_call_arguments_chunk
            case ToolCallEnd():
                about = f"{event.tool_call_name} {event.error or event.tool_call_arguments_complete}"
            case _:
                about = " ".join(str(value) for value in msgspec.structs.astuple(event))
        yield f"{event.__struct_config__.tag:<16} {about}"


def _print(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


async def _wait_for_signal() -> None:
    """Wait for SIGINT or SIGTERM, so that the servers are stopped in order."""
    signalled = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, signalled.set)
    await signalled.wait()


def terminal_width() -> int:
    """Return the columns of the terminal minus one, within limits."""
    return max(_MIN_WIDTH, min(_MAX_WIDTH, shutil.get_terminal_size((100, 24)).columns - 1))


def heading(text: str, width: int) -> str:
    """Return a heading that dashes fill up to the width."""
    return f"--- {text} ".ljust(width, "-")


def side_by_side(left: Iterable[str], right: Iterable[str], width: int) -> str:
    """Return two columns of the same width, with long lines wrapped."""
    column = (width - 3) // 2
    rows = zip_longest(_wrap(left, column), _wrap(right, column), fillvalue="")
    return "\n".join(f"{one:<{column}} | {other}".rstrip() for one, other in rows)


def truncate(text: str, width: int) -> str:
    """Shorten a line that is longer than the width."""
    return text if len(text) <= width else text[: width - 3] + "..."


def _wrap(lines: Iterable[str], width: int) -> list[str]:
    rows: list[str] = []
    for line in lines:
        for text in line.split("\n"):
            rows += textwrap.wrap(text, width, drop_whitespace=False, replace_whitespace=False) or [""]
    return rows
