"""`/api/generate` with a suffix, through the proxy, to a real llama-server."""

from pathlib import Path

import httpx

from tests.engine.llama_server import LlamaServer, running
from tests.engine.proxy import proxying
from tests.engine.random_models import write_random_model
from tests.engine.vocabulary import byte_level_vocabulary

BODY = {
    "model": "m",
    "prompt": "def add(",
    "suffix": "return a",
    "options": {"num_predict": 8, "temperature": 0, "seed": 1},
}


def generate(url: str) -> httpx.Response:
    return httpx.post(f"{url}/api/generate", json={**BODY, "stream": False}, trust_env=False, timeout=60)


def test_the_middle_comes_from_the_server(program: Path, tmp_path: Path) -> None:
    model = tmp_path / "fim.gguf"
    write_random_model(model, byte_level_vocabulary(), infill=True)
    with running(program, model, tmp_path) as server, proxying(server.url, tmp_path) as url:
        fields = {"input_prefix": "def add(", "input_suffix": "return a", "n_predict": 8, "temperature": 0, "seed": 1}
        there = httpx.post(f"{server.url}/infill", json=fields, trust_env=False, timeout=60).json()
        here = generate(url).json()

    assert (there["content"], "length", 8) == (here["response"], here["done_reason"], here["eval_count"])


def test_a_model_without_the_tokens_is_a_clear_error(trained_server: LlamaServer, proxy: str) -> None:
    reply = generate(proxy)

    assert reply.status_code >= 400
    assert "Infill is not supported by this model" in reply.json()["error"]
