"""Secrets, hidden in output and masked in data; addresses, refused before anything is sent."""

import pytest

from fcshim import Client
from fcshim.config import Secret
from fcshim.config.values import check_address
from fcshim.errors import ConfigError


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


@pytest.mark.parametrize("given", ["http://127.0.0.1:8080", "https://gpu.example/v1", "http://[::1]:80/", "http://h"])
def test_an_address_is_a_host_with_or_without_port_and_path(given):
    check_address(given, "upstream")


@pytest.mark.parametrize(
    "given", ["", "nonsense", "127.0.0.1:8080", "localhost:8080", "http://", "http:///v1", "ftp://h", "http://h:99999"]
)
def test_an_invalid_address_is_refused_with_an_example(given):
    with pytest.raises(ConfigError, match="url: expected a URL such as"):
        check_address(given, "url")


@pytest.mark.parametrize("given", ["http://user:word@h", "http://h?key=word", "http://h#word"])
def test_an_address_that_may_contain_a_key_is_refused_and_not_shown(given):
    with pytest.raises(ConfigError, match="without user, query and fragment") as caught:
        check_address(given, "upstream")

    assert "word" not in str(caught.value)


def test_a_client_refuses_an_invalid_address():
    with pytest.raises(ConfigError, match="url: expected a URL"):
        Client("http://127.0.0.1:0")
