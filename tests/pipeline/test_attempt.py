"""The bounded text of one attempt."""

from fcshim.pipeline.attempt import MAX_CHARACTERS, Transcript


def test_a_transcript_keeps_text_up_to_its_limit():
    record = Transcript()
    for piece in ("a", "b", "c" * (MAX_CHARACTERS - 2)):
        record.append(piece)

    assert record.is_complete
    assert "ab" + "c" * (MAX_CHARACTERS - 2) == record.text


def test_a_transcript_drops_text_beyond_its_limit():
    record = Transcript()
    for _ in range(3):
        record.append("x" * MAX_CHARACTERS)

    assert not record.is_complete
    assert len(record.text) == MAX_CHARACTERS
