"""Untrusted text cannot control the terminal."""

from hypothesis import given
from hypothesis import strategies as st

from fcshim.chat.sanitize import sanitize


def test_printable_text_is_unchanged():
    text = "Grüße, 世界 🙂\n\tand so on"

    assert text == sanitize(text)


def test_control_characters_are_made_visible():
    assert "␛[31m␇␈␡" == sanitize("\x1b[31m\x07\x08\x7f")
    assert "a\nb" == sanitize("a\r\nb")
    assert "\ufffd31m\ufffd" == sanitize("\x9b31m\u202e")


@given(st.text())
def test_no_control_character_passes(text):
    passed = sanitize(text)

    assert not [char for char in passed if (ord(char) < 0x20 and char not in "\n\t") or 0x7F <= ord(char) < 0xA0]


@given(st.text(), st.integers(0, 20))
def test_chunk_boundaries_do_not_matter(text, at):
    assert sanitize(text) == sanitize(text[:at]) + sanitize(text[at:])
