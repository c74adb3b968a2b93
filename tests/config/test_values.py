"""Secrets: hidden in output, and masked in data."""

import pytest

from fcshim.config import Secret


def test_a_secret_is_hidden_unless_revealed():
    secret = Secret("sk-1234567")

    assert not [shown for shown in (repr(secret), str(secret), f"{secret}") if "1234567" in shown]
    assert "sk-1234567" == secret.reveal()


@pytest.mark.parametrize(
    ("key", "data", "expected"),
    [
        ("sk-12345", b"key sk-12345 and sk-123456", b"key ******** and ********6"),
        ("sk-12345", b"sk-1234", b"sk-1234"),
        ("none", b"none was found", b"none was found"),
        ("", b"abc", b"abc"),
    ],
)
def test_a_key_is_masked_unless_it_is_as_short_as_a_word(key, data, expected):
    assert expected == Secret(key).mask(data)
