"""Replies of very many small JSON values are refused before they are decoded; texts full of marks are not."""

import json

import pytest

from fcshim.codecs.framing import Framing, SSESplitter
from fcshim.codecs.ndjson import NDJSONSplitter
from fcshim.codecs.routes import CODECS
from fcshim.codecs.value_counter import MAX_MARKS
from fcshim.errors import UpstreamError
from fcshim.events import Error
from tests.codecs.helpers import cut

pytestmark = pytest.mark.security

VALUES = {
    "nested arrays": b"[[[[]]]]",
    "empty arrays": b"[]",
    "empty objects": b"{}",
    "objects": b'{"a":0}',
    "numbers": b"0",
    "empty strings": b'""',
    "escaped quotes": b'"\\""',
    "nulls": b"null",
    "keys": b'{"a":{"b":{"c":{}}}}',
    "spaced": b"[ ] ",
}
DENSE = {name: b"[" + b",".join([value] * (MAX_MARKS + 1)) + b"]" for name, value in VALUES.items()}
FORMS = {
    "event": (SSESplitter, b"data: %b\n\n"),
    "event of several lines": (SSESplitter, b"data: 1\ndata: %b\ndata: 2\n\n"),
    "event with CRLF": (SSESplitter, b"data: %b\r\n\r\n"),
    "stream": (Framing, b"event: x\ndata: %b\n\n"),
    "line": (NDJSONSplitter, b"%b\n"),
    "whole reply": (Framing, b'{"choices": %b}'),
}
TEXTS = {"marks": '[{,":' * MAX_MARKS, "quotes": '"' * MAX_MARKS, "backslashes": "\\" * MAX_MARKS}
SIZES = [10**9, 65_536, 4_099]


def split(form, *documents, size):
    """Return the documents that the splitter returns, and its error."""
    make, template = FORMS[form]
    splitter, body = make(), b"".join(template % document for document in documents)
    found = []
    try:
        for part in cut(body, lambda: size):
            found += splitter.feed(part)
        found += splitter.close()
    except UpstreamError as error:
        return found, error.message
    return found, None


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", DENSE)
def test_dense_values_are_refused(name, form, size):
    refusal = "the upstream sent more than 50000 JSON values in one piece of its reply"

    assert ([], refusal) == split(form, DENSE[name], size=size)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("form", [form for form in FORMS if form != "whole reply"])
def test_what_was_complete_before_dense_values_is_returned_first(form, size):
    found, error = split(form, b"{}", b"7", DENSE["numbers"], size=size)

    assert 2 == len(found)
    assert "JSON values" in error


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", TEXTS)
def test_a_long_text_may_hold_any_number_of_marks(name, form, size):
    document = json.dumps({"a": TEXTS[name]}).encode()
    (found,), error = split(form, document, size=size)

    assert error is None
    assert document in found


@pytest.mark.parametrize("api", CODECS)
def test_the_decoder_of_every_api_says_so(api):
    """As an event, and as the form that it expects least."""
    for body in (b"data: %b\n\n", b'{"choices": %b}', b"%b\n"):
        decoder = CODECS[api].decoder()
        events = [event for part in cut(body % DENSE["objects"], lambda: 65_536) for _, event in decoder.feed(part)]
        last = [*events, *(event for _, event in decoder.close())][-1]

        assert isinstance(last, Error)
        assert "more than 50000 JSON values" in last.message
