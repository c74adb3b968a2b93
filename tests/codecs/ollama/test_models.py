import json
from datetime import UTC, datetime

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fcshim.codecs.base import RequestTarget
from fcshim.codecs.model_info import ModelInfo, read_models
from fcshim.codecs.ollama import OLLAMA
from fcshim.codecs.ollama.models import VERSION, timestamp
from fcshim.errors import RequestError

LLAMA_SERVER = json.dumps(
    {
        "models": [{"name": "tiny", "model": "tiny", "capabilities": ["completion", "multimodal"]}],
        "object": "list",
        "data": [
            {
                "id": "tiny",
                "object": "model",
                "created": 1700000000,
                "owned_by": "llamacpp",
                "meta": {"n_ctx": 4096, "n_ctx_train": 8192, "n_params": 596_000_000, "size": 12345},
            }
        ],
    }
).encode()
TAGS = json.dumps({"models": [{"name": "a:latest", "model": "a:latest", "size": 5}, {"name": "b:8b"}, 7]}).encode()


def described(path, listed, body=b""):
    return json.loads(OLLAMA.describe(RequestTarget(path), body, read_models(listed)))


def test_the_list_of_llama_server_has_more_than_names():
    model = ModelInfo(
        name="tiny", created=1700000000, size=12345, parameter_count=596_000_000, context_length=4096, vision=True
    )

    assert (model,) == read_models(LLAMA_SERVER)


def test_other_forms_of_lists_are_read():
    assert ["a:latest", "b:8b"] == OLLAMA.decode_models(TAGS)
    assert (ModelInfo(name="m", context_length=512),) == read_models(
        b'{"data":[{"id":"m","max_model_len":512,"created":null}]}'
    )


@pytest.mark.parametrize("body", [b"", b"[]", b"[" * 100_000, b'{"data":7}', b'{"data":[{}, 3, {"id": 4}]}', b"<html>"])
def test_anything_else_has_no_models(body):
    assert () == read_models(body)


def test_tags_lists_the_models():
    (model,) = described("/api/tags", LLAMA_SERVER)["models"]

    assert ("tiny", "tiny", 12345, "2023-11-14T22:13:20Z", 64) == (
        model["name"],
        model["model"],
        model["size"],
        model["modified_at"],
        len(model["digest"]),
    )
    assert "596M" == model["details"]["parameter_size"]


def test_ps_lists_every_model_of_the_upstream():
    (model,) = described("/api/ps", LLAMA_SERVER)["models"]

    assert ("tiny", 4096) == (model["model"], model["context_length"])


@pytest.mark.parametrize("name", ["a", "a:latest"])
def test_a_name_without_a_tag_means_latest(name):
    assert "tools" in described("/api/show", TAGS, json.dumps({"model": name}).encode())["capabilities"]


def test_show_reports_tools_context_and_size():
    shown = described("/api/show", LLAMA_SERVER, b'{"name":"tiny"}')

    assert ["completion", "tools", "vision"] == shown["capabilities"]
    assert 4096 == shown["model_info"][shown["model_info"]["general.architecture"] + ".context_length"]
    assert 596_000_000 == shown["model_info"]["general.parameter_count"]


@pytest.mark.parametrize(
    ("body", "status"), [(b'{"model":"nope"}', 404), (b"{}", 400), (b"", 400), (b'{"model":7}', 400)]
)
def test_an_unknown_model_is_not_found(body, status):
    with pytest.raises(RequestError) as caught:
        described("/api/show", TAGS, body)

    assert status == caught.value.status


def test_the_version_is_written():
    assert {"version": VERSION} == json.loads(OLLAMA.respond("GET", RequestTarget("/api/version"), b""))


@given(st.integers(0, 253_402_300_799))
@example(0)
@example(951_782_399)  # the end of 28 February 2000
@example(951_868_800)  # the first of March
@example(4_107_542_399)  # 2100 is no leap year
def test_a_timestamp_equals_that_of_the_standard_library(seconds):
    assert datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ").rjust(20, "0") == timestamp(seconds)
