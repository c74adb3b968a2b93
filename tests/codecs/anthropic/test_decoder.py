"""The upstream's reply: documented streams, and malformed ones."""

import json
from pathlib import Path

import pytest

from fcshim.codecs.anthropic import ANTHROPIC, Anthropic
from fcshim.codecs.json_text import DecoderLimits
from fcshim.events import Error, Text
from tests.codecs.helpers import cut_variants, decode_body, to_vector

CASES = json.loads((Path(__file__).parent / "vectors" / "documented.json").read_text(encoding="utf-8"))["cases"]


def body_of(case: dict) -> bytes:
    if "body" in case:
        return case["body"].encode()
    return b"".join(event(kind, **fields) for kind, fields in case["pieces"])


def event(kind: str, **fields: object) -> bytes:
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **fields})}\n\n".encode()


def short(events: list) -> list:
    """Drop default values, zero counts included: vectors may have them or not."""
    return [
        [0, {name: value for name, value in each.items() if value not in (None, [], 0) or name == "index"}]
        for each in events
    ]


@pytest.mark.parametrize("case", CASES, ids=[case["about"] for case in CASES])
def test_events_do_not_depend_on_how_the_body_is_split(case):
    expected = short(case["events"])

    for pieces in cut_variants(body_of(case)):
        assert expected == short([each for _, each in to_vector(decode_body(pieces, Anthropic))])


def test_events_are_emitted_as_soon_as_their_bytes_arrive():
    decoder = ANTHROPIC.decoder()
    decoder.feed(event("message_start", message={"usage": {}}))

    assert [(0, Text("a"))] == decoder.feed(
        event("content_block_start", index=0, content_block={"type": "text", "text": "a"})
    )


def test_bytes_after_the_end_are_ignored():
    decoder = ANTHROPIC.decoder()
    decoder.feed(event("message_delta", delta={"stop_reason": "end_turn"}) + event("message_stop"))

    assert [] == decoder.feed(event("error", error={"message": "late"}))
    assert [] == decoder.close()


@pytest.mark.parametrize("start", [b"data: ", b"{", b"<html>"])
def test_an_endless_body_ends_with_one_error(start):
    decoder = Anthropic(decoder_limits=DecoderLimits(line_bytes=1000)).decoder()
    found = decoder.feed(start)
    for _ in range(50):
        found += decoder.feed(b"x" * 100)

    assert [Error] == [type(each) for _, each in found]
    assert "longer than 1000" in found[0][1].message or "more than 1000" in found[0][1].message


def test_invalid_utf8_and_lone_surrogates_become_replacement_characters():
    start = b'data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":"a\xff\\ud800"}}\n\n'

    assert (0, Text("a�\ufffd")) == decode_body([start], Anthropic)[0]


def test_lone_surrogates_in_an_error_of_another_form_become_replacement_characters():
    (error,) = decode_body([b'data: {"object":"error","index":null,"message":"bad \\ud83d"}\n\n'], Anthropic)

    assert "the upstream failed: bad \ufffd" == error[1].message
