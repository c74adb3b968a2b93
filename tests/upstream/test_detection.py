"""Backends are detected by their pages, as their documentation shows them."""

import json

import pytest

from fcshim.codecs.upstreams import UPSTREAMS
from fcshim.errors import UpstreamError
from fcshim.upstream import Upstream, detection
from fcshim.upstream.detection import detect, lookup
from tests.scripted import CUT, HANG, MISSING, Script, scripted_upstream

ELSEWHERE = Script((b'{"error":"Unexpected endpoint or method. (GET /props)"}',))
"""LM Studio's response to an unknown path, with status 200."""


def page(document) -> Script:
    return Script((json.dumps(document).encode(),))


def owned(owner: str, **more) -> Script:
    return page({"object": "list", "data": [{"id": "m", "object": "model", "created": 1, "owned_by": owner, **more}]})


LM_STUDIO = page(
    {
        "object": "list",
        "data": [
            {
                "id": "qwen2-vl-7b-instruct",
                "object": "model",
                "type": "vlm",
                "publisher": "mlx-community",
                "arch": "qwen2_vl",
                "compatibility_type": "mlx",
                "quantization": "4bit",
                "state": "not-loaded",
                "max_context_length": 32768,
            }
        ],
    }
)
LM_STUDIO_NEW = page({"models": [{"type": "llm", "key": "m", "loaded_instances": [], "max_context_length": 4096}]})


LOCALAI = page({"backends": ["llama-cpp", "whisper"], "loaded_models": []})
MLX_LM = page(
    {"object": "list", "data": [{"id": "mlx-community/Qwen3-4B-4bit", "object": "model", "created": 1795000000}]}
)


async def found(pages) -> tuple[str, list[str]]:
    async with scripted_upstream(pages=pages) as upstream, Upstream(upstream.url) as endpoint:
        result = await detect(endpoint)

    assert result.evidence

    return result.backend.name, upstream.page_paths


@pytest.mark.parametrize(
    ("owner", "expected"),
    [
        ("llamacpp", "llama-server"),
        ("me", "llama-cpp-python"),
        ("library", "ollama"),
        ("organization_owner", "lmstudio"),
        ("vllm", "vllm"),
        ("sglang", "sglang"),
        ("llama-swap", "llama-swap"),
        ("koboldcpp", "koboldcpp"),
        ("tabbyAPI", "tabbyapi"),
        ("openai", "generic"),
    ],
)
async def test_a_known_owner_of_the_models_identifies_the_backend_in_one_request(owner, expected):
    assert (expected, ["/v1/models"]) == await found({"/v1/models": owned(owner)})


@pytest.mark.parametrize(
    ("pages", "expected"),
    [
        ({"/props": page({"default_generation_settings": {"n_ctx": 1}, "build_info": "b1-abc"})}, "llama-server"),
        ({"/v1/models": owned("alice"), "/api/version": page({"version": "0.12.6"})}, "ollama"),
        ({"/props": ELSEWHERE, "/api/version": ELSEWHERE, "/api/v0/models": LM_STUDIO}, "lmstudio"),
        ({"/api/version": ELSEWHERE, "/version": ELSEWHERE, "/api/v1/models": LM_STUDIO_NEW}, "lmstudio"),
        ({"/version": page({"version": "0.11.0"})}, "vllm"),
        ({"/server_info": page({"tokenizer_path": "m"}), "/version": page({"version": "1"})}, "sglang"),
        ({"/get_server_info": page({"tokenizer_path": "m"})}, "sglang"),
        ({"/v1/models": page({"data": [{"id": "m", "object": "model"}]}), "/system": LOCALAI}, "localai"),
        ({"/version": page({"version": "v2.26.0 (a1b2c3d4)"}), "/api/version": page({"version": "1"})}, "localai"),
        ({"/v1/models": MLX_LM}, "mlx-lm"),
        ({"/v1/models": page({"data": []})}, "generic"),
        ({"/props": page([]), "/version": page({"version": None})}, "generic"),
    ],
)
async def test_a_page_identifies_the_backend_if_the_owner_does_not(pages, expected):
    name, seen = await found(pages)

    assert expected == name
    assert len(seen) == len(set(seen)) <= 9


@pytest.mark.parametrize(
    "answer",
    [MISSING, Script((b"<html>hello</html>",)), Script((b"[" * 100_000,)), Script((b"1", CUT)), Script((b" ",))],
)
async def test_a_page_that_is_not_the_expected_json_matches_nothing(answer):
    paths = "/props", "/api/version", "/version", "/server_info"

    assert "generic" == (await found(dict.fromkeys(paths, answer)))[0]


async def test_a_page_that_hangs_times_out(monkeypatch):
    monkeypatch.setattr(detection, "PAGE_TIMEOUT", 0.2)
    pages = dict.fromkeys(["/v1/models", "/props", "/version"], Script((HANG,)))

    assert "ollama" == (await found({**pages, "/api/version": page({"version": "1"})}))[0]


async def test_an_unreachable_endpoint_is_an_error():
    async with Upstream("http://127.0.0.1:9", kind=UPSTREAMS["openai"]) as upstream:
        with pytest.raises(UpstreamError, match="cannot connect"):
            await detect(upstream)


@pytest.mark.parametrize(
    ("way", "expected"),
    [("a.0.b", 1), ("a.1", None), ("a.b", None), ("b", None), ("a.0.b.c", None), ("a", [{"b": 1}])],
)
def test_lookup_follows_a_path_or_returns_none(way, expected):
    assert expected == lookup({"a": [{"b": 1}]}, way)
