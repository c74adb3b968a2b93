"""Calls as a real engine streams them: random weights under a grammar, hundreds of seeds, two kinds of vocabulary."""

import json

import pytest

from fcshim.codecs.openai_chat import OPENAI_CHAT
from fcshim.events import Event, Stop, Text, Usage
from fcshim.parse.stream import StreamParser, parse
from tests.engine.grammars import CLOSE, OPEN, read
from tests.engine.llama_server import LlamaServer
from tests.engine.recordings import Recording, record
from tests.parse.laws import check_reply, normalise

SEEDS = 25
"""For each of the grammars and vocabularies: 300 replies, a few seconds."""


@pytest.fixture(scope="module")
def recordings(random_server: LlamaServer) -> list[Recording]:
    return record(random_server.url, SEEDS)


def through_fcshim(recording: Recording) -> list[Event]:
    """Parse the bytes in the pieces in which they arrived: codec, then parser."""
    decoder, parser = OPENAI_CHAT.decoder(), StreamParser()
    decoded = [item for piece in recording.pieces for item in decoder.feed(piece)]
    events: list[Event] = []
    for choice, event in [*decoded, *decoder.close()]:
        assert choice == 0
        match event:
            case Text():
                events += parser.feed(event.text)
            case Stop():
                events += parser.close(event.stop_reason)
            case Usage():
                pass
            case _:
                raise AssertionError(event)
    return events


def test_a_stream_parses_like_its_whole_text(recordings: list[Recording]) -> None:
    for recording in recordings:
        text = "".join(recording.deltas())

        assert normalise(parse(text)) == check_reply(text, "complete", through_fcshim(recording)), recording[:2]


def test_calls_equal_those_of_a_plain_json_parser(recordings: list[Recording]) -> None:
    for recording in recordings:
        text, calls = read("".join(recording.deltas()))
        pieces = normalise(through_fcshim(recording))
        ended = [(piece["call"], json.loads(piece["arguments"]), piece["error"]) for piece in pieces if "call" in piece]

        assert [(*call, None) for call in calls] == ended, recording[:2]
        assert text == "".join(piece.get("text", "") for piece in pieces), recording[:2]


def test_strict_arguments_are_forwarded_byte_for_byte(recordings: list[Recording]) -> None:
    for recording in recordings:
        text = "".join(recording.deltas())
        for piece in normalise(through_fcshim(recording)):
            assert piece.get("arguments", "") in text, recording[:2]


def test_the_recordings_cover_the_cases(recordings: list[Recording]) -> None:
    """Many splits, text around calls, and tags inside strings; without them the tests above would prove nothing."""
    texts = ["".join(recording.deltas()) for recording in recordings]
    replies = [read(text) for text in texts]

    assert len({split for recording in recordings for split in recording.tag_splits()}) >= 20
    assert any(len(calls) > 1 and text.strip() for text, calls in replies)
    for tag in (OPEN, CLOSE, '"}}' + CLOSE):
        assert any(tag in str(call.arguments.get("text", "")) for _, calls in replies for call in calls)
    for odd in ("北", "😀", "\\", '"'):
        assert any(odd in str(call.arguments.get("text", "")) for _, calls in replies for call in calls)
