"""What the model said in one try, within bounds."""

from fcshim.retry.transcript import MAX_CHARACTERS, Transcript


def test_it_keeps_what_fits():
    record = Transcript()
    for piece in ("a", "b", "c" * (MAX_CHARACTERS - 2)):
        record.append(piece)

    assert record.is_complete
    assert "ab" + "c" * (MAX_CHARACTERS - 2) == record.text


def test_it_stops_keeping_what_does_not():
    record = Transcript()
    for _ in range(3):
        record.append("x" * MAX_CHARACTERS)

    assert not record.is_complete
    assert len(record.text) == MAX_CHARACTERS
