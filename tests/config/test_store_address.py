"""The setting `store`: every form of address, and what is refused."""

import pytest

from fcshim.config import StoreAddress, load_config, parse_store_address
from fcshim.errors import ConfigError


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("memory", StoreAddress("memory")),
        ("sqlite:state.db", StoreAddress("sqlite", path="state.db")),
        ("sqlite:/var/lib/a:b @#?.db", StoreAddress("sqlite", path="/var/lib/a:b @#?.db")),
        ("redis://h", StoreAddress("redis", host="h")),
        ("redis://h/", StoreAddress("redis", host="h")),
        ("valkey://h:7/3", StoreAddress("redis", host="h", port=7, database=3)),
        ("rediss://me@h", StoreAddress("redis", host="h", user="me", tls=True)),
        ("valkeys://[::1]:6380", StoreAddress("redis", host="::1", port=6380, tls=True)),
        ("redis://a%40b@h", StoreAddress("redis", host="h", user="a@b")),
    ],
)
def test_an_address_is_parsed(text, address):
    assert address == parse_store_address(text)


@pytest.mark.parametrize(
    "text",
    [
        *("", "Memory", "memory:", "sqlite", "sqlite:", "sqlite:a\0b", "redis", "redis:h", "redis://", "redis:///1"),
        *("redis://h:0", "redis://h:x", "redis://h:65536", "redis://h/x", "redis://h/-1", "redis://h/1?a=b"),
        *("redis://h#1", "redis://[::1", "http://h", "postgres://h", "/var/lib/state.db", "redis+cluster://h"),
    ],
)
def test_others_are_refused_with_what_was_expected(text):
    with pytest.raises(ConfigError, match=r"^store: expected memory, sqlite:PATH, or a server such as redis://"):
        parse_store_address(text)


@pytest.mark.parametrize("text", ["redis://:hidden@h", "redis://me:hidden@h/1", "postgres://me:hidden@h"])
def test_a_password_belongs_to_its_own_setting_and_is_not_shown(text):
    with pytest.raises(ConfigError) as caught:
        load_config({"store": text})

    assert "hidden" not in caught.value.message


def test_it_is_a_flag_a_variable_and_a_key_of_the_file(tmp_path):
    file = tmp_path / "fcshim.toml"
    file.write_text('store = "sqlite:a"\nstore_key = "from-file"\nmemory_lifetime = 5\n')
    stored = load_config({}, env={"FCSHIM_STORE": "redis://b"}, file=file)

    assert "memory" == load_config().store
    assert ("redis://b", "from-file", 5) == (stored.store, stored.store_key.reveal(), stored.memory_lifetime)
    assert "sqlite:c" == load_config({"store": "sqlite:c"}, env={"FCSHIM_STORE": "redis://b"}, file=file).store
