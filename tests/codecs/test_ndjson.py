import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fcshim.codecs.ndjson import NDJSONSplitter, write_line
from fcshim.errors import UpstreamError
from tests.codecs.helpers import cut


def split(parts, **limits):
    splitter = NDJSONSplitter(**limits)
    return [line for part in parts for line in splitter.feed(part)] + splitter.close()


def test_lines_end_at_lf_and_blank_lines_are_skipped():
    assert [b'{"a":1}', b"{}", b"[1]"] == split([b'{"a":1}\n\n  \r\n{}\r\n [1]'])


def test_a_line_is_returned_as_soon_as_its_end_comes():
    splitter = NDJSONSplitter()

    assert [] == splitter.feed(b'{"a"')
    assert [b'{"a":1}'] == splitter.feed(b':1}\n{"b"')


@given(st.lists(st.sampled_from([b"{", b"}", b"\n", b"\r\n", b" ", "\u2028".encode(), b"\xff"])), st.randoms())
def test_any_split_gives_the_same_lines(tokens, random_):
    body = b"".join(tokens)

    assert split([body]) == split(cut(body, lambda: random_.randint(1, 4)))


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_a_written_document_is_one_line_for_every_reader(text):
    line = write_line(json.dumps(text, ensure_ascii=False).encode())

    assert 1 == len(line.decode().splitlines())
    assert text == json.loads(line)


def test_an_endless_line_is_an_error_and_is_not_buffered():
    splitter = NDJSONSplitter(line_bytes=100)
    for _ in range(10):
        splitter.feed(b"x" * 10)
    with pytest.raises(UpstreamError, match="100 bytes"):
        splitter.feed(b"x")

    assert [b"{}"] == NDJSONSplitter(line_bytes=100).feed(b"{}\n" + b"x" * 1000)
    with pytest.raises(UpstreamError):
        splitter.feed(b"\n{}\n")
