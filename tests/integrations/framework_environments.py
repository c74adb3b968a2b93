"""The environments of the frameworks that fcshim has plugins for: one each, in `.cache/integrations`.

Rule: `python -m tests.integrations.framework_environments` makes them (`make test-integrations`); a second run reuses
them. Each framework's own requirements decide what else is installed.
"""

import importlib.metadata
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
CACHE = ROOT / ".cache" / "integrations"
_PROJECT = ROOT / "pyproject.toml"
_SECONDS = 3600.0
"""Limit for one command: llama-cpp-python is compiled, in 20 minutes on two cores."""
_VARIABLES = {"CMAKE_ARGS": "-DLLAVA_BUILD=OFF -DLLAMA_OPENSSL=OFF -DCMAKE_CXX_FLAGS_RELEASE=-O1", **os.environ}
"""What it is compiled without: pictures, HTTPS, and optimizations that double the time."""

ENVIRONMENTS = {
    "langchain": ("langchain-core", ("langchain", "langchain-openai", "langchain-tests")),
    "llama_cpp": ("llama-cpp-python", ("pytest",)),
    "llm": ("llm", ("pytest",)),
    "pydantic_ai": ("pydantic-ai-slim", ("pydantic-ai-slim[openai]", "pytest")),
    "transformers": ("transformers", ("accelerate", "torch==2.13.0", "pytest")),
}
"""By module: the distribution whose version counts, and what its tests need beside the extra and the embedded model.

The extra has the name of the module, with hyphens."""


def missing(name: str) -> str:
    """Return how to make an environment; empty if it is there."""
    return "" if (CACHE / name / "complete").exists() else "python -m tests.integrations.framework_environments"


def python(name: str) -> Path:
    """Return the Python of an environment."""
    return CACHE / name / "bin" / "python"


def version(name: str) -> str:
    """Return the version of the framework in its environment."""
    [folder] = (CACHE / name / "lib").glob("python*/site-packages")
    return next(iter(importlib.metadata.distributions(name=ENVIRONMENTS[name][0], path=[str(folder)]))).version


def main() -> None:
    """Make the environments that are missing, or older than the project's requirements; print the versions."""
    for name, (_, packages) in ENVIRONMENTS.items():
        stamp = CACHE / name / "complete"
        if not stamp.exists() or stamp.stat().st_mtime < _PROJECT.stat().st_mtime:
            pip = [str(python(name)), "-m", "pip", "install", "--quiet"]
            for command in (
                [sys.executable, "-m", "venv", str(CACHE / name)],
                [*pip, "--upgrade", "pip"],
                [*pip, "--editable", f"{ROOT}[{name.replace('_', '-')}]", "gguf>=0.19", "numpy>=2", *packages],
            ):
                subprocess.run(command, check=True, timeout=_SECONDS, env=_VARIABLES)
            stamp.touch()
        sys.stdout.write(f"{name} {version(name)}\n")


if __name__ == "__main__":
    main()
