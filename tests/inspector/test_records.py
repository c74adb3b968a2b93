"""Records in the inspector: what a record shows is what the request showed while it was captured."""

import contextlib
import json
import signal
import subprocess

import msgspec
import pytest

from fcshim.config import Config
from fcshim.errors import ConfigError
from fcshim.server.inspector.capture import CaptureRing
from fcshim.server.inspector.records import load_records
from fcshim.server.inspector.summary import summary_of
from fcshim.server.inspector.views import detail_of
from tests.cli.command import COMMAND, fcshim
from tests.server.proxy import CALL, CHAT, chat_body, http_client, running_proxy
from tests.server.raw_upstream import fixed_reply, raw_upstream, stream_texts

WRONG = CALL.replace("add", "subtract")
INVENTED = "<function_result>\n3\n</function_result>"
CASES = {
    "text": ([("Just ", "text.")], {}),
    "a call": ([("Let me see. ", *CALL)], {}),
    "a retry": ([(WRONG,), tuple(CALL)], {}),
    "an invented result": ([(INVENTED,), (INVENTED,)], {}),
    "not streamed": ([("Just ", "text.")], {"stream": False}),
    "relayed": ([("Just ", "text.")], {"tools": None}),
}
SAME = (
    *("words", "api", "path", "model", "upstream", "dialect", "dialect_reason", "tool_calling"),
    *("status", "outcome", "calls", "error", "input_tokens", "output_tokens", "streamed"),
)


async def recorded(folder, replies, **fields) -> dict:
    """Serve one request with these replies, and record it; return what the inspector shows of it."""
    async with (
        raw_upstream(*(each if callable(each) else stream_texts(*each) for each in replies)) as upstream,
        running_proxy(upstream.url, inspect=True, record=str(folder)) as url,
        http_client(url) as client,
    ):
        await client.post(CHAT, json=chat_body() | fields)
        return (await client.get("/fcshim/api/requests/1")).json()


def ring(**settings: object) -> CaptureRing:
    return CaptureRing(Config(upstream="http://127.0.0.1:9", inspect=True, **settings))


def shown(captures: CaptureRing, number: str = "1") -> dict:
    """Return what the inspector shows of a record, as JSON."""
    return json.loads(msgspec.json.encode(detail_of(captures.find(number))))


@pytest.mark.parametrize("case", CASES)
async def test_a_record_shows_what_the_inspector_showed(case, tmp_path):
    replies, fields = CASES[case]
    live = await recorded(tmp_path, replies, **fields)
    captures = ring()
    count = load_records([tmp_path], captures)
    record = shown(captures)
    for view in (live, record):
        view["texts"] = ["".join(text for _, _, text in each["segments"]) for each in view["attempts"]]

    assert 1 == count
    assert {name: live["summary"][name] for name in SAME} == {name: record["summary"][name] for name in SAME}
    assert live["texts"] == record["texts"]
    assert [each["diff"] for each in live["attempts"]] == [each["diff"] for each in record["attempts"]]
    assert [each["prompt"] for each in live["attempts"]] == [each["prompt"] for each in record["attempts"]]
    assert live["request"]["body"] == record["request"]["body"]
    assert live["tools"] == record["tools"]
    assert live["why_no_call"] == record["why_no_call"]
    assert [text(each) for each in live["response"]["messages"]] == [
        text(each) for each in record["response"]["messages"]
    ]
    assert {None} == {event["at"] for each in record["attempts"] for event in each["events"]}


def text(message: dict) -> tuple:
    calls = [(call["name"], call["arguments"]["text"]) for call in message["calls"]]
    return message["text"]["text"].strip(), calls, message["stop"]


async def test_an_error_and_a_withheld_request_are_shown_as_such(tmp_path):
    failed = fixed_reply(400, b'{"error": {"message": "no"}}')
    await recorded(tmp_path / "a", [failed])
    await recorded(tmp_path / "b", [("my-secret-key-1",)], metadata={"api_key": "my-secret-key-1"})
    captures = ring()
    load_records([tmp_path / "a", tmp_path / "b"], captures)
    error, withheld = (summary_of(captures.find(number)) for number in ("1", "2"))

    assert (["error"], 400) == (error.outcome, error.status)
    assert "withheld" in withheld.outcome
    assert "" == withheld.words


async def test_the_newest_records_that_fit_are_kept_in_their_order(tmp_path):
    for at in range(5):
        await recorded(tmp_path, [("x" * 4_000,)], model=f"m{at}")
    size = max(file.stat().st_size for file in tmp_path.iterdir())
    captures = ring(inspect_bytes=max(3 * size, 2**16))
    count = load_records([tmp_path], captures)
    names = [each.model for each in captures.newest_first()]

    assert names == [f"m{at}" for at in range(4, 4 - len(names), -1)]
    assert 1 <= len(names) <= count


@pytest.mark.parametrize("content", [b"", b"{}\n", b"not JSON", b'{"type":"end","status":200}\n'])
def test_a_file_that_is_no_record_is_refused_where_it_is_named_and_left_out_in_a_folder(content, tmp_path, caplog):
    (tmp_path / "x.jsonl").write_bytes(content)

    with pytest.raises(ConfigError, match=r"x\.jsonl"):
        load_records([tmp_path / "x.jsonl"], ring())
    with pytest.raises(ConfigError, match="expected records"):
        load_records([tmp_path], ring())
    assert "left out" in caplog.text


@pytest.mark.parametrize("name", ["missing", "missing.jsonl"])
def test_a_path_that_does_not_exist_is_named(name, tmp_path):
    found = fcshim("inspect", tmp_path / name)

    assert 2 == found.code
    assert name in found.err
    assert "No such file" in found.err


async def test_the_command_serves_the_page_alone_and_sends_a_record_again_to_an_upstream(tmp_path):
    await recorded(tmp_path / "records", [("No.",)])
    async with raw_upstream(stream_texts(CALL)) as upstream:
        with running(tmp_path / "records", "--upstream", upstream.url) as url:
            async with http_client(url) as client:
                listed = (await client.get("/fcshim/api/requests")).json()["requests"]
                page = await client.get("/fcshim/")
                elsewhere = await client.post(CHAT, json=chat_body())
                sent = await client.post("/fcshim/api/requests/1/resend", json={"dialect": "hermes"})
        with running(tmp_path / "records") as url:
            async with http_client(url) as client:
                refused = await client.post("/fcshim/api/requests/1/resend", json={})

    assert ["1"] == [each["id"] for each in listed]
    assert (200, 404, 200, 409) == (page.status_code, elsewhere.status_code, sent.status_code, refused.status_code)
    assert "2" == sent.json()["id"]
    assert "--upstream" in refused.json()["error"]["message"]


@contextlib.contextmanager
def running(*arguments: object):
    """Run `fcshim inspect` in a process of its own; yield its URL."""
    command = [*COMMAND, "inspect", *map(str, arguments), "--inspect-port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            line = process.stderr.readline()
            yield line.partition("shown at ")[2].strip().removesuffix("/fcshim/")
        finally:
            process.send_signal(signal.SIGTERM)
            code = process.wait(30)

    assert 0 == code
