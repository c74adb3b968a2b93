"""What an upstream of Anthropic's, Google's or Ollama's API sends to fill the memory, or to have a wrong call run."""

import json
import tracemalloc

import pytest

from fcshim.codecs.upstreams import UPSTREAMS
from fcshim.events import Error, Event, Stop, ToolCallEnd
from tests.codecs.test_arbitrary_replies import check_laws

pytestmark = pytest.mark.security

HUGE = 10**400
LONG = "x" * 60_000
MANY = 2_000


def sse(document: dict) -> bytes:
    event = f"event: {document['type']}\n" if "type" in document else ""
    return f"{event}data: {json.dumps(document)}\n\n".encode()


def line(document: dict) -> bytes:
    return json.dumps(document).encode() + b"\n"


def block(index: int, **fields) -> bytes:
    return sse(
        {"type": "content_block_start", "index": index, "content_block": {"type": "tool_use", "input": {}, **fields}}
    )


def delta(index: int, **fields) -> bytes:
    return sse({"type": "content_block_delta", "index": index, "delta": fields})


def end(index: int) -> bytes:
    return sse({"type": "content_block_stop", "index": index})


def parts(*given: dict, **fields) -> bytes:
    return sse({"candidates": [{"content": {"parts": list(given)}, **fields}]})


def partial(path: str, **fields) -> bytes:
    return parts({"functionCall": {"name": "f", "willContinue": True, "partialArgs": [{"jsonPath": path, **fields}]}})


def message(**fields) -> bytes:
    return line({"message": {"role": "assistant", "content": "", **fields}, "done": True})


def called(arguments: object, **fields) -> bytes:
    return message(tool_calls=[{"function": {"name": "f", "arguments": arguments}, **fields}])


OPEN = sse({"type": "message_start", "message": {"id": "m", "role": "assistant", "content": [], "usage": {}}})
PIECE = {"type": "input_json_delta", "partial_json": LONG}
CASES = {
    "anthropic": {
        "calls that never end": [OPEN, *(block(at, id=f"t{at}", name="f") for at in range(MANY))],
        "calls of one block": [OPEN, *(block(0, id=f"t{at}", name="f") for at in range(MANY))],
        "calls of one id": [OPEN, *(each for at in range(50) for each in (block(at, id="t", name="f"), end(at)))],
        "a number of a block": [OPEN, block(10**18, id="t", name="f"), delta(10**18, **PIECE), end(10**18)],
        "a negative number": [OPEN, block(-1, id="t", name="f"), end(-1)],
        "arguments without end": [OPEN, block(0, id="t", name="f"), *[delta(0, **PIECE)] * MANY],
        "a signature without end": [OPEN, *[delta(0, type="signature_delta", signature=LONG)] * 500],
        "a long name": [OPEN, block(0, id=LONG, name=LONG), end(0)],
        "a huge number of tokens": [
            OPEN,
            sse({"type": "message_delta", "delta": {}, "usage": {"output_tokens": HUGE}}),
        ],
        "an error like a book": [sse({"type": "error", "error": {"type": "x", "message": LONG * 20}})],
        "unknown events": [sse({"type": "news", "a": [1] * 100})] * MANY,
        "a piece of no call": [OPEN, delta(3, **PIECE), end(3)],
    },
    "gemini": {
        "a text without end": [partial("$.a", stringValue=LONG, willContinue=True)] * MANY,
        "keys without end": [partial(f"$.a{at}{LONG}", numberValue=1) for at in range(MANY)],
        "a list with a gap": [partial("$.a[999999]", numberValue=1)],
        "a deep path": [partial("$" + ".a" * 60, numberValue=1)] * MANY,
        "a very deep path": [partial("$" + ".a" * 20_000, numberValue=1)],
        "calls of one id": [parts(*[{"functionCall": {"id": "c", "name": "f", "args": {}}}] * 50)],
        "candidates": [
            sse({"candidates": [{"index": at, "content": {"parts": [{"text": "a"}]}} for at in range(MANY)]})
        ],
        "not a number": [
            b'data: {"candidates":[{"content":{"parts":[{"functionCall":{"name":"f","args":{"a":NaN}}}]}}]}\n\n'
        ],
        "a huge number of tokens": [
            parts({"text": "a"}, finishReason="STOP"),
            sse({"usageMetadata": {"promptTokenCount": HUGE}}),
        ],
        "a signature without end": [parts({"text": "", "thought": True, "thoughtSignature": LONG})] * 500,
        "a reason like a book": [sse({"promptFeedback": {"blockReason": LONG * 20}})],
        "an unfinished call": [
            partial("$.a", stringValue="rm", willContinue=True),
            parts({"text": "b"}, finishReason="STOP"),
        ],
    },
    "ollama": {
        "a line without end": [b'{"message":{"content":"' + LONG.encode()] + [LONG.encode()] * MANY,
        "arguments as a text": [called("[[[[")],
        "arguments as a list": [called([1])],
        "arguments as nothing": [called(None)],
        "deep arguments": [
            b'{"message":{"tool_calls":[{"function":{"name":"f","arguments":'
            + b'{"a":' * 5_000
            + b"1"
            + b"}" * 5_000
            + b'}}]},"done":true}\n'
        ],
        "calls of one id": [message(tool_calls=[{"id": "c", "function": {"name": "f", "arguments": {}}}] * 50)],
        "two names": [
            b'{"message":{"tool_calls":[{"function":{"name":"f","name":"g","arguments":{"a":1,"a":2}}}]},"done":true}\n'
        ],
        "a long name": [called({}, id=LONG)],
        "a huge number of tokens": [
            line({"message": {"content": "a"}, "done": True, "eval_count": HUGE, "prompt_eval_count": -3})
        ],
        "an error like a book": [line({"error": LONG * 20})],
        "lines after the end": [called({})] * MANY,
        "other values": [b"null\n", b"[]\n", b"5\n", b'"x"\n'],
    },
}


def decode(api: str, body: list[bytes]) -> list[Event]:
    decoder = UPSTREAMS[api].codec.decoder()
    return [event for _, event in [*(item for piece in body for item in decoder.feed(piece)), *decoder.close()]]


@pytest.mark.parametrize(("api", "case"), [(api, case) for api, cases in CASES.items() for case in cases])
def test_a_hostile_reply_keeps_the_laws_in_little_memory(api, case):
    body = CASES[api][case]
    tracemalloc.start()
    events = decode(api, body)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    check_laws(events)
    assert peak < 64 * 2**20
    assert all(len(event.message) < 2_000 for event in events if isinstance(event, Error))


@pytest.mark.parametrize(
    ("api", "case"),
    [
        ("anthropic", "calls that never end"),
        ("anthropic", "arguments without end"),
        ("gemini", "a text without end"),
        ("gemini", "keys without end"),
        ("gemini", "an unfinished call"),
        ("ollama", "arguments as a text"),
        ("ollama", "arguments as a list"),
        ("ollama", "deep arguments"),
    ],
)
def test_what_is_not_complete_does_not_run(api, case):
    events = decode(api, CASES[api][case])

    assert not any(isinstance(event, ToolCallEnd) and event.error is None for event in events)
    assert isinstance(events[-1], Stop | Error)
