from pathlib import Path

import httpx
import pytest

from fcshim.demo.serving import serve_model
from fcshim.errors import ConfigError
from tests.engine.llama_server import LlamaServer
from tests.engine.program import find_llama_server


async def says_hello(url: str) -> bool:
    body = {"messages": [{"role": "user", "content": "say hello"}], "max_tokens": 20}
    async with httpx.AsyncClient(trust_env=False, timeout=20) as client:
        reply = await client.post(f"{url}/v1/chat/completions", json=body)
    return bool(reply.json()["choices"][0]["message"]["content"] == "hello")


def program(folder: Path, text: str) -> None:
    path = folder / "llama-server"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


async def test_the_embedded_runtime_serves_until_its_context_ends() -> None:
    async with serve_model("numpy") as served:
        assert served.engine == "the embedded numpy runtime"
        assert await says_hello(served.url)

    with pytest.raises(httpx.ConnectError):
        await says_hello(served.url)


async def test_without_a_llama_server_auto_uses_the_embedded_runtime(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    async with serve_model() as served:
        assert served.engine == "the embedded numpy runtime"


@pytest.mark.engine
async def test_a_llama_server_on_path_serves_the_same_file(
    llama_server: LlamaServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert llama_server.url  # skips the test if there is no program
    program(tmp_path, f'exec "{find_llama_server(patient=False)}" "$@"')
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    async with serve_model() as served:
        assert served.engine.startswith("llama-server (")
        assert await says_hello(served.url)

    with pytest.raises(httpx.ConnectError):
        await says_hello(served.url)


async def test_a_missing_llama_server_is_a_config_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(ConfigError, match="no llama-server on PATH"):
        async with serve_model("llama-server"):
            pass


async def test_a_llama_server_that_exits_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(tmp_path, "exit 3")
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(ConfigError, match="ended with status 3"):
        async with serve_model():
            pass
