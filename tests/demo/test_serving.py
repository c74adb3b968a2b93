from pathlib import Path

import httpx
import pytest

from fcshim.demo.gguf_file import TINY_MODEL
from fcshim.demo.serving import serve_model, serve_real_model
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


async def test_a_llama_server_that_exits_is_reported_with_the_end_of_its_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(tmp_path, "printf '%01000d\\n' 0; echo 'bad model' >&2; exit 3")
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")

    with pytest.raises(ConfigError, match=r"ended with status 3 instead of serving \S+tiny.gguf\n  bad model$"):
        async with serve_model():
            pass


async def test_a_llama_server_can_be_named(tmp_path: Path) -> None:
    program(tmp_path, "exit 3")

    with pytest.raises(ConfigError, match="ended with status 3"):
        async with serve_model(program=str(tmp_path / "llama-server")):
            pass


async def test_a_named_llama_server_must_exist(tmp_path: Path) -> None:
    missing = str(tmp_path / "llama-server")

    for serving in (serve_model(program=missing), serve_real_model(TINY_MODEL, missing)):
        with pytest.raises(ConfigError, match=f"no llama-server at {missing}. Install llama.cpp .*apt install"):
            async with serving:
                pass


@pytest.mark.parametrize(
    ("content", "problem"), [(None, "No such file"), (b"PK", "not a GGUF file: it begins with b'PK'")]
)
async def test_a_model_must_be_a_gguf_file(tmp_path: Path, content: bytes | None, problem: str) -> None:
    path = tmp_path / "model.gguf"
    if content is not None:
        path.write_bytes(content)

    with pytest.raises(ConfigError, match=f"{path}: {problem}"):
        async with serve_real_model(path):
            pass
