"""What Python bodies and Gemma bodies have in common."""

import gc

import pytest

from fcshim.parse.body import BodyStatus
from fcshim.parse.dialects import DIALECTS
from fcshim.parse.limits import DEFAULT_LIMITS
from fcshim.parse.literals.body import LiteralBody
from fcshim.parse.literals.values import LiteralValues
from fcshim.parse.sink import CallSink

BODIES = [("pythonic", "[f(a=['x', 'y"), ("gemma4", 'call:f{a:[<|"|>x<|"|>,<|"|>y')]


def new_body(name: str) -> LiteralBody:
    dialect = DIALECTS[name]
    body = dialect.body.reader(dialect, dialect.call.open, CallSink(None, "stream", str, 100), DEFAULT_LIMITS)
    assert isinstance(body, LiteralBody)
    return body


@pytest.mark.parametrize(("name", "text"), BODIES)
def test_a_body_reports_the_start_first_and_then_reads_on(name: str, text: str) -> None:
    body = new_body(name)
    end = body.feed(text, 0)

    assert BodyStatus.STARTED is body.status

    assert len(text) == body.feed(text, end)
    assert BodyStatus.READING is body.status
    assert body.in_content


@pytest.mark.parametrize(("name", "text"), BODIES)
def test_a_refused_body_sends_no_more_content(name: str, text: str) -> None:
    body = new_body(name)
    body.feed(text, body.feed(text, 0))
    body.refuse()

    assert not body.in_content


@pytest.mark.parametrize(("name", "text"), BODIES)
def test_a_disposed_body_is_freed_without_the_garbage_collector(name: str, text: str) -> None:
    gc.collect()
    body = new_body(name)
    body.feed(text, body.feed(text, 0))
    body.dispose()
    del body

    assert not [item for item in gc.get_objects() if isinstance(item, LiteralBody | LiteralValues)]
