"""The table of servers."""

import pytest

from fcshim.errors import ConfigError
from fcshim.servers import GENERIC, SERVERS, get_server, server_that_says, server_that_speaks, unconstrained


def test_a_kind_of_server_is_found_by_its_name() -> None:
    assert SERVERS["vllm"] is get_server("vllm")


def test_an_unknown_kind_of_server_names_the_known_ones() -> None:
    with pytest.raises(ConfigError, match=r"unknown kind of server 'vlm'. Known are llama-server, .*vllm, generic"):
        get_server("vlm")


def test_a_server_is_known_by_what_it_says_of_its_models() -> None:
    assert SERVERS["llama-server"] is server_that_says("llamacpp")
    assert GENERIC is server_that_says("openai")
    assert server_that_says("somebody") is None


def test_an_api_of_its_own_tells_a_server_and_one_that_many_speak_does_not() -> None:
    assert SERVERS["ollama"] is server_that_speaks("ollama")
    assert SERVERS["llama-server"] is server_that_speaks("llamacpp")
    assert server_that_speaks("openai") is None
    assert server_that_speaks("gemini") is None


def test_without_a_constraint_a_server_is_otherwise_the_same() -> None:
    server = unconstrained(SERVERS["sglang"])

    assert (None, False, "continue_final_message") == (server.form, server.formats, server.prefill)
