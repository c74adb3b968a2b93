"""Which addresses are valid, and which are refused before anything is sent."""

import pytest

from fcshim import Client
from fcshim.config.address import check_address
from fcshim.errors import ConfigError


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
        Client("127.0.0.1:8080")
