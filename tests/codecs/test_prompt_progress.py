"""Reports of how far a server has read a prompt."""

import json

import pytest

from fcshim.codecs.llama_completion import LlamaCompletion
from fcshim.codecs.openai_chat import OPENAI_CHAT
from fcshim.codecs.prompt_progress import PromptProgress, read_progress
from fcshim.events import Text

REPORT = {"total": 12_000, "cache": 1_000, "processed": 4_000, "time_ms": 3_000}


@pytest.mark.parametrize(
    ("report", "text"),
    [
        (REPORT, "4,000 of 12,000 tokens of the prompt read, 3 s, about 8 s left"),
        (REPORT | {"processed": 12_000}, "12,000 of 12,000 tokens of the prompt read, 3 s, about 0 s left"),
        (REPORT | {"processed": 1_000, "time_ms": 0}, "1,000 of 12,000 tokens of the prompt read, 0 s"),
        (REPORT | {"processed": 0, "cache": 0}, "0 of 12,000 tokens of the prompt read, 3 s"),
        (REPORT | {"processed": 99_999}, "12,000 of 12,000 tokens of the prompt read, 3 s, about 0 s left"),
        (REPORT | {"cache": "x", "time_ms": None}, "4,000 of 12,000 tokens of the prompt read, 0 s, about 0 s left"),
        (REPORT | {"time_ms": -1}, "4,000 of 12,000 tokens of the prompt read, 0 s, about 0 s left"),
        ({"total": 12_000}, "0 of 12,000 tokens of the prompt read, 0 s"),
    ],
)
def test_a_report_says_how_much_was_read_and_how_long_the_rest_takes(report, text):
    assert text == str(read_progress(report))


@pytest.mark.parametrize("report", [None, 3, "x", [], {}, {"total": 0}, {"total": -1}, {"total": "9"}, {"total": None}])
def test_what_is_no_report_is_none(report):
    assert read_progress(report) is None


CHAT_CHUNK = {"choices": [{"index": 0, "delta": {"role": "assistant", "content": None}}]}
COMPLETION_CHUNK = {"index": 0, "content": "", "tokens": [0], "stop": False}


@pytest.mark.parametrize(("codec", "chunk"), [(OPENAI_CHAT, CHAT_CHUNK), (LlamaCompletion(), COMPLETION_CHUNK)])
def test_reports_in_a_stream_are_no_events(codec, chunk):
    decoder = codec.decoder()
    before = decoder.progress
    reports = [{**chunk, "prompt_progress": report} for report in (REPORT, {"odd": 1}, REPORT | {"processed": 9_000})]
    found = []
    for each in reports:
        assert [] == decoder.feed(b"data: " + json.dumps(each).encode() + b"\n\n")
        found.append(decoder.progress)

    assert before is None
    assert [PromptProgress(12_000, 1_000, 4_000, 3.0), None, PromptProgress(12_000, 1_000, 9_000, 3.0)] == found


def test_text_follows_a_report():
    decoder = OPENAI_CHAT.decoder()
    chunk = {"choices": [{"index": 0, "delta": {"content": "a"}}], "prompt_progress": REPORT}
    events = decoder.feed(b"data: " + json.dumps(chunk).encode() + b"\n\n")

    assert [(0, Text("a"))] == events
