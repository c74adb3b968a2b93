"""The environments of the agent frameworks: one each, because their requirements conflict.

Rule: everything is in `.cache/clients`; a second run reuses what the first one made.
"""

import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
CACHE = ROOT / ".cache" / "clients"
PROGRAMS = Path(__file__).parent / "frameworks"
NODE = 18
"""The oldest Node that the AI SDK runs on."""


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
    "litellm": Environment(("litellm", "mcp"), ("openai_chat", "anthropic", "gemini", "ollama")),
    "instructor": Environment(("instructor",), ("openai_chat",)),
    "smolagents": Environment(("smolagents[openai]",), ("openai_chat",)),
    "vercel_ai": Environment((), ("openai_chat", "openai_responses", "anthropic", "gemini")),
}


def main() -> None:
    """Create the missing environments."""
    for name, environment in ENVIRONMENTS.items():
        if missing(name):
            sys.stdout.write(f"{name}: {' '.join(environment.packages) or 'npm packages'}\n")
            _make_python(name, environment) if environment.packages else _make_node(name)


def missing(name: str) -> str:
    """Return what an environment lacks; empty if it is complete."""
    if not ENVIRONMENTS[name].packages and _node_version() < NODE:
        return f"{name}: there is no Node of at least {NODE}"
    return "" if (CACHE / name / "complete").exists() else f"{name}: python -m tests.clients.environments"


def command_for(name: str) -> list[str]:
    """Return the command that runs a framework's program, without its arguments."""
    if ENVIRONMENTS[name].packages:
        return [str(CACHE / name / "bin" / "python"), "-m", f"tests.clients.frameworks.{name}"]
    return ["node", str(CACHE / name / f"{name}.mjs")]


def _make_python(name: str, environment: Environment) -> None:
    folder = CACHE / name
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    subprocess.run([folder / "bin" / "python", "-m", "pip", "install", "--quiet", *environment.packages], check=True)
    (folder / "complete").touch()


def _make_node(name: str) -> None:
    """Install packages beside a copy of the program, because Node searches for them in the file's folder."""
    if _node_version() < NODE:
        return
    folder = CACHE / name
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(PROGRAMS / "package.json", folder)
    shutil.copy(PROGRAMS / f"{name}.mjs", folder)
    subprocess.run(["npm", "install", "--silent", "--no-audit", "--no-fund"], cwd=folder, check=True)
    (folder / "complete").touch()


def _node_version() -> int:
    if shutil.which("node") is None or shutil.which("npm") is None:
        return 0
    version = subprocess.run(["node", "--version"], capture_output=True, text=True, check=False).stdout
    major = version.removeprefix("v").partition(".")[0]
    return int(major) if major.isdigit() else 0


if __name__ == "__main__":
    main()
