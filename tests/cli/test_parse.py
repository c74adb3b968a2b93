"""`fcshim parse`."""

import json
import os
import subprocess

import pytest

import fcshim as library
from tests.cli.command import COMMAND, fcshim

CALL = '<function_call>\n{"name": "add", "arguments": {"a": 1, "b": "ü"}}\n</function_call>'
TEXT = f"Let me add. {CALL}"
TOOLS = [{"name": "add", "parameters": {"type": "object"}}]


def events_in(out):
    return [json.loads(line) for line in out.removesuffix("\n").split("\n")]


def types_in(out):
    return [event["type"] for event in events_in(out)]


def joined(events):
    """Join the chunks of texts and arguments, so that the result does not depend on how the text was split."""
    result = []
    for event in events:
        if event["type"] in ("text", "tool_call_chunk") and result and result[-1]["type"] == event["type"]:
            key = "text" if event["type"] == "text" else "tool_call_arguments_chunk"
            result[-1][key] += event[key]
        elif event.get("tool_call_id"):
            result.append({**event, "tool_call_id": "id"})
        else:
            result.append(dict(event))
    return result


def test_every_line_is_an_event_with_its_documented_fields():
    events = [library.event_to_dict(event) for event in library.parse(TEXT)]
    outcome = fcshim("parse", stdin=TEXT.encode())

    assert (0, "") == (outcome.code, outcome.err)
    assert joined(events) == joined(events_in(outcome.out))


def test_the_text_can_be_read_from_a_file(tmp_path):
    path = tmp_path / "reply.txt"
    path.write_bytes(TEXT.encode())

    assert joined(events_in(fcshim("parse", stdin=TEXT.encode()).out)) == joined(events_in(fcshim("parse", path).out))


@pytest.mark.parametrize("size", [1, 2, 7, 1_000])
def test_the_chunk_size_changes_only_how_the_events_are_split(size):
    expected = joined(events_in(fcshim("parse", stdin=TEXT.encode()).out))

    assert expected == joined(events_in(fcshim("parse", "--chunk", size, stdin=TEXT.encode()).out))


def test_small_chunks_give_small_text_events():
    texts = [event["text"] for event in events_in(fcshim("parse", "--chunk", 1, stdin=b". abc").out)[:-1]]

    assert [".", " ", "a", "b", "c"] == texts


@pytest.mark.parametrize("size", ["0", "-1", "x", "1.5"])
def test_the_chunk_size_is_at_least_one_character(size):
    outcome = fcshim("parse", "--chunk", size)

    assert 2 == outcome.code
    assert "expected a whole number above 0" in outcome.err


def test_only_offered_tools_are_called(tmp_path):
    path = tmp_path / "tools.json"
    path.write_text(json.dumps(TOOLS), "utf-8")
    other = TEXT.replace("add", "sub")

    assert "tool_call_end" in types_in(fcshim("parse", "--tools", path, stdin=TEXT.encode()).out)
    assert [{"type": "text", "text": other}, {"type": "stop", "stop_reason": "complete"}] == joined(
        events_in(fcshim("parse", "--tools", path, stdin=other.encode()).out)
    )


def test_a_call_that_max_tokens_cut_off_is_truncated():
    *_, end, stop = events_in(fcshim("parse", "--stop-reason", "max_tokens", stdin=TEXT[:-30].encode()).out)

    assert "truncated" == end["error"]["kind"]
    assert {"type": "stop", "stop_reason": "max_tokens"} == stop


def test_calls_inside_reasoning_are_accepted_only_with_promote():
    text = f"<think>{CALL}</think>Done.".encode()

    assert "tool_call_end" not in types_in(fcshim("parse", stdin=text).out)
    assert "tool_call_end" in types_in(fcshim("parse", "--reasoning", "promote", stdin=text).out)


def test_validated_arguments_are_one_chunk():
    out = fcshim("parse", "--arguments", "validated", "--chunk", 1, stdin=TEXT.encode()).out

    assert 1 == types_in(out).count("tool_call_chunk")


def test_text_without_calls_is_unchanged():
    text = "Zürich 北京 🙂\r\n\x00 <function> \u2028"

    assert text == "".join(event.get("text", "") for event in events_in(fcshim("parse", stdin=text.encode()).out))


def test_bytes_that_are_not_utf8_become_replacement_characters():
    assert "a\ufffdb" == events_in(fcshim("parse", stdin=b"a\xffb").out)[0]["text"]


def test_an_empty_input_gives_only_a_stop_event():
    assert [{"type": "stop", "stop_reason": "complete"}] == events_in(fcshim("parse").out)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--dialect", "functions_call"), "did you mean 'function_call'?"),
        (("--tools", "missing.json"), "missing.json: No such file"),
        (("missing.txt",), "missing.txt: No such file"),
    ],
)
def test_a_mistake_is_named(arguments, message):
    outcome = fcshim("parse", *arguments)

    assert (2, "") == (outcome.code, outcome.out)
    assert message in outcome.err
    assert 1 == outcome.err.count("\n")


def test_events_are_written_while_the_text_is_still_arriving():
    with subprocess.Popen([*COMMAND, "parse"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        process.stdin.write("Zü".encode()[:-1])
        process.stdin.flush()

        assert {"type": "text", "text": "Z"} == json.loads(process.stdout.readline())
        process.stdin.write("ürich".encode()[1:])
        process.stdin.close()

        assert {"type": "text", "text": "ürich"} == json.loads(process.stdout.readline())


def test_a_reader_that_closes_the_pipe_is_no_failure():
    with subprocess.Popen(
        [*COMMAND, "parse", "--chunk", "1"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        process.stdout.close()
        _, err = process.communicate(b"x" * 200_000)

    assert (0, b"") == (process.returncode, err)


def test_reading_ends_when_the_model_starts_to_invent_a_result():
    text = f'{CALL}\n<function_result name="add">\n4'.encode()
    with subprocess.Popen([*COMMAND, "parse"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        process.stdin.write(text)
        process.stdin.flush()
        out = process.stdout.read()  # returns although stdin stays open
        process.stdin.close()

    assert "tool_use" == events_in(out.decode())[-1]["stop_reason"]
    assert os.EX_OK == process.returncode
