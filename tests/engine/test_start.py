"""`fcshim serve` without any argument, with a real llama-server on this machine."""

import asyncio
import sys
from urllib.parse import urlsplit

import pytest

from fcshim.cli import endpoint
from tests.engine.llama_server import LlamaServer
from tests.engine.process import free_port

PROGRAM = """
import sys
from fcshim.cli import endpoint, main
endpoint.PORTS = (9, {port})
sys.exit(main(sys.argv[1:]))
"""


async def test_serve_alone_finds_llama_server_and_says_how_it_is_asked(trained_server: LlamaServer) -> None:
    port = free_port()
    program = PROGRAM.format(port=urlsplit(trained_server.url).port)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", program, "serve", "--port", str(port)), stderr=asyncio.subprocess.PIPE
    )
    assert process.stderr is not None
    lines: list[str] = []
    try:
        async with asyncio.timeout(60):
            while not any("OLLAMA_HOST" in line for line in lines):
                lines.append((await process.stderr.readline()).decode().rstrip())
    finally:
        process.terminate()
        await process.communicate()

    assert lines[0].startswith(f"fcshim: found {trained_server.url}  (llama-server: ")
    assert any(f"in front of llama-server at {trained_server.url}/v1" in line for line in lines)
    assert ["prompt", "function_call", "default"] in [line.split()[1:4] for line in lines]
    assert f"OLLAMA_HOST=http://127.0.0.1:{port}" in lines[-1]


async def test_a_proxy_in_front_of_it_is_not_found(
    trained_server: LlamaServer, proxy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ports = (urlsplit(proxy).port, urlsplit(trained_server.url).port)
    monkeypatch.setattr(endpoint, "PORTS", ports)

    assert [trained_server.url] == [found.url for found in await endpoint.find_servers()]
