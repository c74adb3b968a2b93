"""The tokens of replies that are relayed: of every API, streamed and in one piece, long and short."""

import pytest

from fcshim.codecs.base import ReplyIdentity
from fcshim.codecs.routes import CODECS
from fcshim.events import Stop, Text, Usage
from fcshim.messages import Request, TextPart, UserMessage
from fcshim.pipeline.response import response_for
from fcshim.server.relayed_reply import RelayedUsage

USAGE = Usage(input_tokens=11, output_tokens=7)


def encoded(codec, words: int, *, stream: bool) -> bytes:
    """Return a reply of so many words as a client of this API gets it."""
    identity = ReplyIdentity(id="reply_1", created=1, model="m")
    request = Request(model="m", messages=(UserMessage((TextPart("Hi"),)),), stream=stream, include_usage=True)
    response = response_for(request, identity, codec, max_reply=10_000_000)
    data = b"".join(response.feed([(0, Text(f"word{at} "))]) for at in range(words))
    return data + response.feed([(0, USAGE), (0, Stop(stop_reason="complete"))]) + response.close()


@pytest.mark.parametrize("size", [50, 1_000, 100_000])
@pytest.mark.parametrize("words", [3, 1_000])
@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("name", [name for name in CODECS if name != "openai_completions"])
def test_the_usage_is_read_from_the_ends_of_a_reply(name, stream, words, size):
    codec = CODECS[name]
    data = encoded(codec, words, stream=stream)
    kept = RelayedUsage()
    for at in range(0, len(data), size):
        kept.add([data[at : at + size]])
    found = kept.read(codec.decoder())

    assert found is not None
    assert (11, 7) == (found.input_tokens, found.output_tokens)


@pytest.mark.parametrize("data", [b"", b"junk", b"data: [DONE]\n\n", b'{"error": {"message": "x"}}', b"\xff" * 300_000])
def test_a_body_that_is_not_a_reply_has_no_usage(data):
    kept = RelayedUsage()
    kept.add([data[at : at + 1_000] for at in range(0, len(data), 1_000)])

    assert all(kept.read(codec.decoder()) is None for codec in CODECS.values())
