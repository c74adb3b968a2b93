"""Walks from the front page to a working call: which links are followed, which commands typed, and that it works.

A walk reads the page of a model server and that of a client, runs what the first one says (with the tiny model, on free
ports), and then the client's own program. At most three links and five commands each.
"""

import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.clients.environments import CACHE, ROOT, missing, node_folder
from tests.engine.conftest import TINY
from tests.engine.process import free_port, serving
from tests.engine.program import UnavailableError, find_llama_server

README = ROOT / "README.md"
MAX_LINKS, MAX_COMMANDS = 3, 5
_LINK = re.compile(r"\]\(([\w/.-]+\.md)(?:#[\w-]*)?\)")
_PYTHON = str(Path(sys.executable))


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
    fcshim = serve.replace("fcshim", f"{_PYTHON} -m fcshim") + f" {upstream} --port {proxy.rpartition(':')[2]}"
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


def _links_to(page: str) -> int:
    """Return how many links lead from the front page to a page, by the shortest way."""
    seen, here, links = {README}, [README], 0
    while ROOT / page not in here:
        following = {(file.parent / link).resolve() for file in here for link in _LINK.findall(file.read_text("utf-8"))}
        here = [file for file in following - seen if file.is_file()]
        assert here, f"no link leads to {page}"
        seen.update(here)
        links += 1
    return links


@pytest.mark.parametrize("name", WALKS)
def test_a_walk_ends_with_a_call(name: str, addresses: tuple[str, str], tmp_path: Path) -> None:
    walk, (upstream, proxy) = WALKS[name], addresses
    if walk.environment and (problem := missing(walk.environment)):
        pytest.skip(problem)
    text = (ROOT / walk.page).read_text(encoding="utf-8")
    programs = re.findall(rf"^```{walk.language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    (program,) = [each for each in programs if walk.holding in each]
    typed = ["pip install '.[serve]'", *_commands(SERVER), f"install {walk.installs}", "run the program"]

    assert _links_to(SERVER) + _links_to(walk.page) <= MAX_LINKS + 1
    assert max(_links_to(SERVER), _links_to(walk.page)) <= MAX_LINKS
    assert len(typed) <= MAX_COMMANDS
    assert walk.printed in _run(
        walk, program.replace("http://127.0.0.1:8080", upstream).replace("http://127.0.0.1:8181", proxy), tmp_path
    )


def _run(walk: Walk, program: str, folder: Path) -> str:
    if walk.language == "js":
        shutil.copytree(CACHE / walk.environment / "node_modules", folder / "node_modules", symlinks=True)
        command, file = [str(node_folder() / "node")], folder / "program.mjs"
    else:
        python = CACHE / walk.environment / "bin" / "python" if walk.environment else Path(_PYTHON)
        command, file = [str(python)], folder / "program.py"
    file.write_text(program, encoding="utf-8")
    done = subprocess.run([*command, str(file)], cwd=folder, capture_output=True, text=True, timeout=120, check=False)

    assert 0 == done.returncode, done.stderr
    return done.stdout
