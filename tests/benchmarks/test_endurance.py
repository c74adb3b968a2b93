"""How the endurance benchmark judges the ends of replies."""

import pytest

from benchmarks.endurance.traffic import ANSWERED, CUT, ERROR, FORMS, KINDS, LEFT, WRONG, Outcomes, judge
from fcshim.codecs.base import ReplyIdentity
from fcshim.codecs.routes import CODECS
from fcshim.errors import RequestError, UpstreamError
from fcshim.events import Error, Stop, Text
from fcshim.messages import Request, TextPart, UserMessage
from fcshim.pipeline.response import response_for

ASKED = UserMessage((TextPart("Hi"),))
HEAD = b"HTTP/1.1 %d -\r\ncontent-length: %d\r\n\r\n"
STREAM_HEAD = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
LAST_CHUNK = b"0\r\n\r\n"
ENDS = {ANSWERED: Stop("complete"), ERROR: Error("upstream_error", "the line is cut")}


def body_parts(api, *events, stream=True):
    request = Request(model="m", messages=(ASKED,), stream=stream)
    response = response_for(request, ReplyIdentity("reply_1", 1, "m"), CODECS[api])
    parts = [response.feed([(0, event)]) for event in events] + [response.close()]
    return [part for part in parts if part]


def chunks(parts):
    return STREAM_HEAD + b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts)


@pytest.mark.parametrize("api", FORMS)
@pytest.mark.parametrize("end", ENDS)
def test_a_stream_has_ended_only_with_the_last_event_of_its_api(api, end):
    parts = body_parts(api, Text("Once"), ENDS[end])

    assert end == judge(api, chunks(parts) + LAST_CHUNK, streamed=True)
    assert judge(api, chunks(parts[:1]) + LAST_CHUNK, streamed=True).startswith("no end: ")
    assert judge(api, chunks([*parts, parts[0]]) + LAST_CHUNK, streamed=True).startswith("no end: ")
    assert "it broke off" == judge(api, chunks(parts), streamed=True)


@pytest.mark.parametrize("api", FORMS)
def test_a_whole_reply_or_an_error_is_in_the_form_of_its_api(api):
    (body,) = body_parts(api, Text("Once"), Stop("complete"), stream=False)
    error = CODECS[api].encode_error(UpstreamError("the line is cut"))
    refusal = CODECS[api].encode_error(RequestError("no"))

    assert ANSWERED == judge(api, HEAD % (200, len(body)) + body, streamed=False)
    assert [ERROR, ERROR] == [judge(api, HEAD % (502, len(each)) + each, streamed=True) for each in (error, refusal)]
    assert "it broke off" == judge(api, HEAD % (200, len(body)) + body[:-1], streamed=False)
    assert "it broke off" == judge(api, b"", streamed=False)
    for status, wrong in ((200, error), (502, body), (502, b'{"error":{}}'), (502, b"{}")):
        reply = HEAD % (status, len(wrong)) + wrong
        assert judge(api, reply, streamed=False).startswith("not in the form of its API: ")
    assert judge(api, HEAD % (502, 4) + b"<h1>", streamed=False).startswith("no JSON: ")


def test_an_error_is_right_only_where_the_upstream_fails():
    outcomes = Outcomes()
    for kind in KINDS:
        for end in (ANSWERED, ERROR, LEFT, CUT, "it broke off"):
            outcomes.add(kind, "openai_chat", end)

    healthy = sum(not kind.upstream_fails for kind in KINDS)

    assert len(KINDS) + healthy == outcomes.wrong
    assert [2, 1] == [outcomes.ends[KINDS[0].name, WRONG], outcomes.ends[KINDS[-1].name, WRONG]]
