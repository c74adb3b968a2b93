"""What the model said in one try, within bounds."""

from fcshim.retry.record import MOST_CHARACTERS, Record


def test_it_keeps_what_fits():
    record = Record()
    for piece in ("a", "b", "c" * (MOST_CHARACTERS - 2)):
        record.hear(piece)

    assert record.fits
    assert "ab" + "c" * (MOST_CHARACTERS - 2) == record.text


def test_it_stops_keeping_what_does_not():
    record = Record()
    for _ in range(3):
        record.hear("x" * MOST_CHARACTERS)

    assert not record.fits
    assert len(record.text) == MOST_CHARACTERS
