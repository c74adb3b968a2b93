import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fcshim.codecs.framing import SSESplitter, write_comment, write_data
from fcshim.errors import UpstreamError
from tests.codecs.helpers import cut, cut_variants

CASES = {
    "one event": (b"data: a\n\n", [b"a"]),
    "two events": (b"data: a\n\ndata: b\n\n", [b"a", b"b"]),
    "no space": (b"data:a\n\n", [b"a"]),
    "only one space is dropped": (b"data:  a \n\n", [b" a "]),
    "CRLF": (b"data: a\r\n\r\ndata: b\r\n\r\n", [b"a", b"b"]),
    "CR": (b"data: a\r\rdata: b\r\r", [b"a", b"b"]),
    "mixed line ends": (b"data: a\r\n\ndata: b\n\r\ndata: c\r\r\n", [b"a", b"b", b"c"]),
    "several lines": (b"data: a\ndata:\ndata: b\n\n", [b"a\n\nb"]),
    "comments and pings": (b":\n\n: hi\ndata: a\n: there\n\n" + write_comment(), [b"a"]),
    "other fields": (b"event: x\nid: 1\nretry: 5\ndatas: no\ndat: no\ndata: a\n\n", [b"a"]),
    "a field without colon": (b"data\n\nevent\n\n", []),
    "empty data": (b"data: \n\ndata:\n\ndata: a\n\n", [b"a"]),
    "byte order mark": (b"\xef\xbb\xbfdata: a\n\n", [b"a"]),
    "byte order mark in the middle": (b"data: a\n\n\xef\xbb\xbfdata: b\n\n", [b"a"]),
    "no final blank line": (b"data: a\n\ndata: b\n", [b"a", b"b"]),
    "no final line end": (b"data: a\n\ndata: b", [b"a", b"b"]),
    "Unicode line ends are text": (
        "data: a\u2028b\u2029c\x85d\x0be\x0cf\x1cg\n\n".encode(),
        ["a\u2028b\u2029c\x85d\x0be\x0cf\x1cg".encode()],
    ),
    "NUL and invalid UTF-8": (b"data: \x00\xff\xfe\n\n", [b"\x00\xff\xfe"]),
    "blank lines alone": (b"\n\n\r\n\n", []),
    "nothing": (b"", []),
    "half a byte order mark": (b"\xef\xbb", []),
}


def split(parts, **options):
    splitter = SSESplitter(**options)
    return [payload for part in parts for payload in splitter.feed(part)] + splitter.close()


@pytest.mark.parametrize("name", CASES)
def test_a_stream_gives_the_same_data_however_it_is_cut(name):
    body, expected = CASES[name]

    for parts in cut_variants(body):
        assert expected == split(parts)
        assert [b"x", *expected] == split([b"data: x\n\n", *parts]) or body.startswith(b"\xef")


@given(
    st.lists(st.sampled_from([b"data: ", b"data", b":", b"\r", b"\n", b"\r\n", b" ", b"a", b"\xef\xbb\xbf"])),
    st.randoms(),
)
def test_any_split_gives_the_same_data(tokens, random_):
    body = b"".join(tokens)

    assert split([body]) == split(cut(body, lambda: random_.randint(1, 4)))


@given(st.lists(st.binary(min_size=1).filter(lambda data: not set(data) & set(b"\r\n")), max_size=5))
def test_written_data_is_read_again(payloads):
    assert payloads == split([b"".join(write_data(payload) for payload in payloads)])


@pytest.mark.parametrize("form", [b"data: %s\n\n", b"data: %s\r\n\r\n", b"data: %s", b"%s", b"data: %s\ndata: %s\n\n"])
def test_an_event_beyond_the_limit_is_an_error(form):
    body = form.replace(b"%s", b"x" * 600 if form.count(b"%s") == 2 else b"x" * 1200)

    for parts in cut_variants(body):
        with pytest.raises(UpstreamError, match="more than 1000 bytes"):
            split(parts, line_bytes=1000)


def test_events_complete_before_the_limit_are_returned_first():
    splitter = SSESplitter(line_bytes=100)

    assert [b"a"] == splitter.feed(b"data: a\n\n" + b"x" * 200)
    with pytest.raises(UpstreamError):
        splitter.feed(b"data: b\n\n")


def test_an_endless_line_is_not_buffered_beyond_the_limit():
    splitter = SSESplitter(line_bytes=1000)
    for _ in range(100):
        with pytest.raises(UpstreamError):
            splitter.feed(b"x" * 2000)

    assert not splitter._line


def test_a_long_line_that_comes_in_small_reads_is_whole():
    """A splitter that copies the line at each read takes minutes here."""
    splitter = SSESplitter()
    splitter.feed(b"data: ")
    for _ in range(100_000):
        splitter.feed(b"x" * 64)
    (event,) = splitter.feed(b"\n\n")

    assert b"x" * 6_400_000 == event


def test_random_bytes_raise_nothing():
    random_ = random.Random(1)
    for _ in range(200):
        split([random_.randbytes(random_.randint(0, 50)) for _ in range(10)], line_bytes=10_000)
