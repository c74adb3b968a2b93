"""Records of requests: what is in them, what must not be, and that parsing them again gives the same events."""

import asyncio
import json
import stat

import pytest

from fcshim.cli.entry import main
from fcshim.config import Secret
from fcshim.server.replay import read_record, recorded_events, replayed_events, summary
from tests.server.proxy import CALL, CHAT, chat_body, http_client, post_chat, running_proxy
from tests.server.raw_upstream import (
    ROLE,
    end_chunks,
    fixed_reply,
    raw_upstream,
    stream_chunks,
    stream_texts,
    text_chunk,
)

NUMBERS = {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}}
TOOLS = [{"type": "function", "function": {"name": "add", "parameters": NUMBERS}}]
CANARY = "canary-0123456789"


async def recorded(folder, *replies, settings=None, path=CHAT, headers=None, **fields):
    """Serve one request with these replies of the model; return the file of its record."""
    plays = [stream_texts(*reply) if isinstance(reply, tuple) else reply for reply in replies]
    async with (
        raw_upstream(*plays) as upstream,
        running_proxy(upstream.url, record=str(folder), **(settings or {})) as url,
        http_client(url) as client,
    ):
        await client.post(path, json=chat_body() | {"tools": TOOLS} | fields, headers=headers)
    (file,) = folder.glob("*.jsonl")
    return file


REPLIES = {
    "text": [("Just ", "text \U0001f600.")],
    "call": [("Let me see. ", CALL[:20], CALL[20:])],
    "repaired": [(CALL.replace('"b": 2', "b: 2"),)],
    "coerced": [(CALL.replace("1", '"1"'),)],
    "retried": [(CALL.replace("add", "subtract"),), (CALL,)],
    "remaining_defects": [(CALL.replace("add", "subtract"),), ("No.",)],
    "after a refusal": [fixed_reply(400, b'{"error": {"message": "system role not supported"}}'), (CALL,)],
}


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("kind", REPLIES)
async def test_parsing_a_record_again_gives_the_recorded_events(kind, stream, tmp_path):
    file = await recorded(tmp_path, *REPLIES[kind], stream=stream)
    record = read_record(file)

    assert "" == record.why_not_replayed()
    assert summary(recorded_events(record)) == summary(replayed_events(record))
    assert any(line.startswith(("call add", "text")) for line in summary(recorded_events(record)))


async def test_the_command_shows_what_another_dialect_changes(tmp_path, capsys):
    file = await recorded(tmp_path, (CALL,), settings={"rescue": False})

    assert 0 == main(["replay", str(file)])
    assert 1 == main(["replay", str(file), "--dialect", "mistral"])
    shown = capsys.readouterr().out
    assert '-call add {"a": 1, "b": 2}' in shown
    assert "+text " in shown


async def test_a_request_is_sent_again_to_another_server(tmp_path):
    file = await recorded(tmp_path, (CALL,))
    other = CALL.replace("2}}", "7}}")
    async with raw_upstream(stream_texts(CALL), stream_texts(other)) as upstream, running_proxy(upstream.url) as url:
        same, changed = [await asyncio.to_thread(main, ["replay", str(file), "--against", url]) for _ in range(2)]

    assert [0, 1] == [same, changed]


@pytest.mark.security
async def test_a_hostile_record_reaches_only_the_server_that_is_named(tmp_path, capsys):
    """`http://127.0.0.1:1` and `@host/` together name another host."""
    file = await recorded(tmp_path, stream_texts("Hi."))
    async with raw_upstream(stream_texts("Hi.")) as other:
        lines = file.read_text().splitlines()
        first = json.loads(lines[0]) | {"path": "@" + other.url.removeprefix("http://") + "/v1/chat/completions"}
        file.write_text("\n".join([json.dumps(first), *lines[1:]]) + "\n")
        code = await asyncio.to_thread(main, ["replay", str(file), "--against", "http://127.0.0.1:1"])

    assert 1 == code
    assert not other.requests
    assert "names no API and path" in capsys.readouterr().out


async def test_the_command_notices_that_the_events_changed(tmp_path):
    file = await recorded(tmp_path, (CALL,))
    before, _, after = file.read_text().rpartition('\\"b\\": 2')
    file.write_text(before + '\\"b\\": 3' + after)

    assert 1 == main(["replay", str(file)])


@pytest.mark.parametrize("text", ["", "{}", "junk", '{"type": "request"}', "\u00e9\n" * 3])
def test_a_file_that_is_not_a_record_is_named(text, tmp_path, capsys):
    file = tmp_path / "x.jsonl"
    file.write_text(text, encoding="utf-8")

    assert 2 == main(["replay", str(file)])
    assert "x.jsonl" in capsys.readouterr().err


async def test_a_relayed_request_is_recorded_and_not_compared(tmp_path, capsys):
    file = await recorded(tmp_path, ("Hi",), tools=[])

    assert 0 == main(["replay", str(file)])
    assert "not compared: its reply was relayed" in capsys.readouterr().out
    assert "Hi" in file.read_text()


async def test_a_record_is_for_its_owner_only_and_the_folder_is_bounded(tmp_path):
    folder = tmp_path / "made" / "here"
    file = await recorded(folder, (CALL,))
    async with (
        raw_upstream(stream_texts(CALL)) as upstream,
        running_proxy(upstream.url, record=str(folder), record_bytes=file.stat().st_size + 10) as url,
    ):
        await post_chat(url, headers={"x-request-id": "../../../evil"})

    assert 0o600 == stat.S_IMODE(file.stat().st_mode)
    assert [file] == list(tmp_path.rglob("*.jsonl"))


@pytest.mark.parametrize(
    "reply",
    [
        (f"It is {CANARY}.",),
        tuple(f"It is {CANARY}."),
        (CALL.replace("2}}", f'"{CANARY}"}}}}'),),
        (json.dumps(CANARY)[1:-1].encode().hex(),),
    ],
    ids=["whole", "in pieces", "in a call", "in hexadecimal"],
)
@pytest.mark.parametrize("tools", [TOOLS, []], ids=["emulated", "relayed"])
async def test_no_credential_is_recorded_even_if_the_model_repeats_it(reply, tools, tmp_path):
    headers = {"Authorization": f"Bearer {CANARY}", "X-Other-Token": "canary-other-1", "Cookie": "s=canary-cookie-1"}
    body = {"api_key": "canary-body-1", "metadata": {"password": "canary-pass-1", "note": f"use {CANARY}"}}
    file = await recorded(
        tmp_path, reply, path=f"{CHAT}?access_token=canary-query-1&key={CANARY}", headers=headers, tools=tools, **body
    )
    text = file.read_text()

    assert "canary" not in text
    assert CANARY.encode().hex() not in text
    assert "canary" not in "".join(text.split('","'))
    assert '"path":"/v1/chat/completions"' in text


COMMENT = CALL.replace('"b"', f'/* {CANARY} */ "b"')
"""A repaired call: its comment is neither in the events nor in the arguments."""


def chunk(choice):
    return b"data: " + json.dumps({"choices": [{"index": 0, "delta": {}} | choice]}).encode() + b"\n\n"


def second_choice(piece):
    first = {"index": 0, "delta": {"content": "no"}}
    return b"data: " + json.dumps({"choices": [first, {"index": 1, "delta": {"content": piece}}]}).encode() + b"\n\n"


def in_pieces(make):
    """Return the handler of a stream that has the credential in a field, letter by letter."""
    return stream_chunks(ROLE, text_chunk("It is "), *map(make, CANARY), end_chunks())


@pytest.mark.parametrize(
    ("reply", "settings"),
    [
        (("Well. ", *COMMENT), {"max_retries": 0}),
        (("so " * 30_000, "\n", *COMMENT), {}),
        (in_pieces(lambda piece: chunk({"delta": {"reasoning_details": [{"index": 0, "text": piece}]}})), {}),
        (in_pieces(lambda piece: chunk({"delta": {"content": "a"}, "logprobs": {"content": [{"token": piece}]}})), {}),
        (in_pieces(second_choice), {}),
        (in_pieces(lambda piece: chunk({"delta": {"content": piece}}).replace(b", ", b",\r\ndata: ")), {}),
    ],
    ids=["without retries", "after much text", "unknown field", "logprobs", "second choice", "lines"],
)
@pytest.mark.parametrize("stream", [True, False])
async def test_no_pieces_of_a_credential_are_recorded_wherever_they_stand(reply, settings, stream, tmp_path):
    headers = {"X-Api-Key": CANARY}
    file = await recorded(tmp_path, reply, settings=settings, headers=headers, stream=stream, n=2)
    request, *attempts, _ = map(json.loads, file.read_text().splitlines())

    assert "the reply may repeat a credential of the request" == request["withheld"]
    assert [] == [attempt["reply"] for attempt in attempts if "reply" in attempt]


async def test_a_reply_without_the_credential_is_recorded(tmp_path):
    file = await recorded(tmp_path, ("Some ", "text.", COMMENT.replace(CANARY, "twice")), headers={"X-Api-Key": CANARY})

    assert "" == read_record(file).why_not_replayed()


async def test_the_keys_of_the_settings_are_not_recorded_where_an_upstream_quotes_them(tmp_path):
    quoted = fixed_reply(400, json.dumps({"error": {"message": f"bad key {CANARY}"}}).encode())
    file = await recorded(tmp_path, quoted, settings={"upstream_key": Secret(CANARY)})

    assert "canary" not in file.read_text()
