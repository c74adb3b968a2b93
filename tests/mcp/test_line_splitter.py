"""Bytes split into lines."""

from hypothesis import given
from hypothesis import strategies as st

from fcshim.mcp.line_splitter import BoundedLineSplitter, OversizedLine


def cut(pieces, limit):
    splitter = BoundedLineSplitter(limit)
    return [line for piece in pieces for line in splitter.feed(piece)]


def lines_of(data):
    return [line for line in data.split(b"\n")[:-1] if line]


@given(st.lists(st.binary(max_size=20)))
def test_chunk_boundaries_do_not_change_the_lines(pieces):
    whole = b"".join(pieces)

    assert lines_of(whole) == cut(pieces, 10_000)
    assert lines_of(whole) == cut([bytes([byte]) for byte in whole], 10_000)


@given(st.lists(st.binary(max_size=20)), st.integers(1, 30))
def test_an_oversized_line_is_discarded_and_the_next_one_is_kept(pieces, limit):
    whole = lines_of(b"".join(pieces))
    lines = cut(pieces, limit)

    assert [line if len(line) <= limit else None for line in whole] == [
        line if isinstance(line, bytes) else None for line in lines
    ]


def test_an_oversized_line_keeps_its_ends():
    (line,) = cut([b"head", b"x" * 1000, b"tail\n"], 100)

    assert isinstance(line, OversizedLine)
    assert line.head.startswith(b"head")
    assert line.tail.endswith(b"tail")


def test_discarded_bytes_use_no_memory():
    splitter = BoundedLineSplitter(100)
    for _ in range(1000):
        splitter.feed(b"x" * 1000)

    assert 0 == len(splitter._parts)
