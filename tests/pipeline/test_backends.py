"""The table of backends."""

import pytest

from fcshim.errors import ConfigError
from fcshim.pipeline.backends import BACKENDS, GENERIC, backend_of_api, backend_of_owner, get_backend, unconstrained


def test_a_kind_of_server_is_found_by_its_name() -> None:
    assert BACKENDS["vllm"] is get_backend("vllm")


def test_an_unknown_kind_of_server_names_the_known_ones() -> None:
    with pytest.raises(ConfigError, match=r"unknown kind of server 'vlm'. Known are llama-server, .*vllm, .*generic"):
        get_backend("vlm")


def test_a_backend_is_found_by_the_owner_of_its_models() -> None:
    assert BACKENDS["llama-server"] is backend_of_owner("llamacpp")
    assert GENERIC is backend_of_owner("openai")
    assert backend_of_owner("somebody") is None


def test_an_api_names_its_backend_unless_many_backends_share_it() -> None:
    assert BACKENDS["ollama"] is backend_of_api("ollama")
    assert BACKENDS["llama-server"] is backend_of_api("llamacpp")
    assert backend_of_api("openai") is None
    assert backend_of_api("gemini") is None


def test_an_unconstrained_backend_keeps_its_other_fields() -> None:
    server = unconstrained(BACKENDS["sglang"])

    assert (None, False, "continue_final_message") == (server.form, server.rewrites_response_format, server.prefill)
