"""The upstream's reply: documented streams, and malformed ones."""

import json
from pathlib import Path

import pytest

from fcshim.codecs.gemini import GEMINI, Gemini
from fcshim.codecs.json_text import DecoderLimits
from fcshim.events import Error, Text
from tests.codecs.helpers import cut_variants, decode_body, to_vector

CASES = json.loads((Path(__file__).parent / "vectors" / "documented.json").read_text(encoding="utf-8"))["cases"]


def body_of(case: dict) -> bytes:
    if "body" in case:
        return case["body"].encode()
    return b"".join(f"data: {json.dumps(chunk)}\r\n\r\n".encode() for chunk in case["chunks"])


def short(events: list) -> list:
    """Drop default values, zero counts included: vectors may have them or not."""
    return [
        {name: value for name, value in each.items() if value not in (None, [], 0) or name == "index"}
        for each in events
    ]


@pytest.mark.parametrize("case", CASES, ids=[case["about"] for case in CASES])
def test_events_do_not_depend_on_how_the_body_is_split(case):
    expected = short(case["events"])

    for pieces in cut_variants(body_of(case)):
        assert expected == short([each for _, each in to_vector(decode_body(pieces, Gemini))])


def test_events_are_emitted_as_soon_as_their_bytes_arrive():
    assert [(0, Text("a"))] == GEMINI.decoder().feed(b'data: {"candidates":[{"content":{"parts":[{"text":"a"}]}}]}\n\n')


@pytest.mark.parametrize("start", [b"data: ", b"{", b"[", b"<html>"])
def test_an_endless_body_ends_with_one_error(start):
    decoder = Gemini(decoder_limits=DecoderLimits(line_bytes=1000)).decoder()
    found = decoder.feed(start)
    for _ in range(50):
        found += decoder.feed(b"x" * 100)

    assert [Error] == [type(each) for _, each in found]
