"""Walks from the front page to a working call: which links are followed, which commands typed, and that it works.

A walk reads the page of a model server and that of a client, runs what the first one says (with the tiny model, on free
ports), and then the client's own program. A walk has at most three links, to both pages together, and five commands.
"""

import re
import shlex
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.clients.environments import ROOT, missing
from tests.clients.programs import programs, run_program
from tests.engine.conftest import TINY
from tests.engine.process import free_port, serving
from tests.engine.program import UnavailableError, find_llama_server

README = ROOT / "README.md"
MAX_LINKS, MAX_COMMANDS = 3, 5
_LINK = re.compile(r"\]\(([\w/.-]+\.md)(?:#[\w-]*)?\)")


@dataclass(frozen=True)
class Walk:
    """A client: its page, the program on it that contains `holding`, what installs its package, and what is printed."""

    page: str
    holding: str
    installs: str
    printed: str
    environment: str = ""
    language: str = "python"


WALKS = {
    "openai": Walk("README.md", "client.chat.completions", "openai", '{"city": "Paris"}'),
    "anthropic": Walk("docs/proxy.md", "Anthropic(", "anthropic", "get_weather"),
    "google genai": Walk("docs/proxy.md", "genai.Client(", "google-genai", "42"),
    "openai responses": Walk("docs/proxy.md", "client.responses.create(", "openai", "get_weather"),
    "ollama": Walk("docs/proxy.md", "from ollama", "ollama", "get_weather"),
    "fcshim": Walk("README.md", "reply = await client.run(", ".[client]", "42"),
    "langchain": Walk("docs/recipes/langchain.md", "ChatOpenAI", "langchain-openai", "Paris", "langchain"),
    "pydantic ai": Walk("docs/recipes/pydantic-ai.md", "Agent(", "pydantic-ai", "Paris", "pydantic_ai"),
    "openai agents": Walk("docs/recipes/openai-agents.md", "Runner", "openai-agents", "Paris", "openai_agents"),
    "ai sdk": Walk("docs/recipes/ai-sdk.md", "generateText", "ai", "Paris", "vercel_ai", "js"),
}
SERVER = "docs/recipes/llama-cpp.md"


@pytest.fixture(scope="module")
def addresses(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """Run the commands of the model server's page: the server, then fcshim in front of it."""
    try:
        found = find_llama_server(patient=False)
    except UnavailableError as error:
        pytest.skip(str(error))
    start, serve = _commands(SERVER)
    upstream, proxy = (f"http://127.0.0.1:{free_port()}" for _ in range(2))
    server = (
        start.replace("llama-server", str(found))
        .replace("model.gguf", str(TINY))
        .replace("-c 32768", "-c 2048 --temp 0")
    )
    fcshim = serve.replace("fcshim", f"{sys.executable} -m fcshim") + f" {upstream} --port {proxy.rpartition(':')[2]}"
    folder = tmp_path_factory.mktemp("walks")
    server = server.replace("8080", upstream.rpartition(":")[2])
    with (
        serving(shlex.split(server), upstream, folder / "server.log"),
        serving(shlex.split(fcshim), proxy, folder / "fcshim.log"),
    ):
        yield upstream, proxy


def _commands(page: str) -> list[str]:
    text = (ROOT / page).read_text(encoding="utf-8")
    (block,) = re.findall(r"^## Start\n\n```console\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    return [line.removeprefix("$ ") for line in block.splitlines() if line.startswith("$ ")]


def _way_to(page: str) -> tuple[Path, ...]:
    """Return the pages of the shortest way from the front page to a page, without the front page."""
    ways: dict[Path, tuple[Path, ...]] = {README: ()}
    waiting = [README]
    for file in waiting:
        for link in _LINK.findall(file.read_text(encoding="utf-8")):
            linked = (file.parent / link).resolve()
            if linked.is_file() and linked not in ways:
                ways[linked] = (*ways[file], linked)
                waiting.append(linked)
    return ways[ROOT / page]


@pytest.mark.parametrize("name", WALKS)
def test_a_walk_ends_with_a_call(name: str, addresses: tuple[str, str], tmp_path: Path) -> None:
    walk, (upstream, proxy) = WALKS[name], addresses
    if walk.environment and (problem := missing(walk.environment)):
        pytest.skip(problem)
    (program,) = [each for each in programs(walk.page, walk.language) if walk.holding in each]
    typed = ["pip install '.[serve]'", *_commands(SERVER), f"install {walk.installs}", "run the program"]

    assert len({*_way_to(SERVER), *_way_to(walk.page)}) <= MAX_LINKS
    assert len(typed) <= MAX_COMMANDS
    for address, own in (("http://127.0.0.1:8080", upstream), ("http://127.0.0.1:8181", proxy)):
        program = program.replace(address, own)
    assert walk.printed in run_program(program, walk.environment, tmp_path)
