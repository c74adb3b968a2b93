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

ENGINES = {
    "sglang": (
        "sglang",
        (
            "aiohttp fastapi interegular IPython llguidance msgspec numpy openai orjson packaging partial_json_parser "
            "pillow prometheus-client psutil pybase64 pydantic pyzmq regex requests setproctitle tiktoken tokenizers "
            "tqdm transformers triton uvicorn uvloop xxhash zstandard"
        ),
    ),
    "vllm": (
        "vllm",
        (
            "aiohttp anthropic blake3 cachetools cbor2 cloudpickle compressed-tensors einops fastapi ijson jsonschema "
            "lark llguidance mcp mistral_common model-hosting-container-standards msgspec multidict openai "
            "opentelemetry-api opentelemetry-sdk orjson oss-harmony outlines_core partial-json-parser pillow "
            "prometheus_client prometheus-fastapi-instrumentator protobuf psutil py-cpuinfo pybase64 pydantic "
            "python-json-logger pyzmq regex sentencepiece setproctitle tiktoken transformers uvicorn uvloop watchfiles"
        ),
    ),
}
"""By module: the distribution of the server, and what its parsers import, in the versions that it requires.

Its other requirements are for graphics cards, and take 10 GB. The environments take 2.3 and 2.6 GB."""
_ALONE = ("apache-tvm-ffi", "xgrammar")
"""Imported too, but without what these require: triton, a gigabyte."""
_LIST_REQUIREMENTS = r"""
import importlib.metadata, re, sys
server, *names = sys.argv[1:]
listed = [each for each in importlib.metadata.requires(server) if "extra ==" not in each]
required = {re.match(r"[\w.-]+", each)[0]: each for each in listed}
for name in names:
    print(re.sub(r"\[.*?\]", "", required.get(name, name)))
"""
"""A program that prints the requirements of a server that have one of the names, without their extras."""


def missing(name: str) -> str:
    """Return how to make an environment; empty if it is there."""
    return "" if (CACHE / name / "complete").exists() else "python -m tests.integrations.framework_environments"


def python(name: str) -> Path:
    """Return the Python of an environment."""
    return CACHE / name / "bin" / "python"


def version(name: str) -> str:
    """Return the version of the framework in its environment."""
    [folder] = (CACHE / name / "lib").glob("python*/site-packages")
    return next(
        iter(importlib.metadata.distributions(name=(ENVIRONMENTS | ENGINES)[name][0], path=[str(folder)]))
    ).version


def main() -> None:
    """Make the environments that are missing, or older than the project's requirements; print the versions."""
    for name in (*ENVIRONMENTS, *ENGINES):
        stamp = CACHE / name / "complete"
        if not stamp.exists() or stamp.stat().st_mtime < _PROJECT.stat().st_mtime:
            _run(sys.executable, "-m", "venv", CACHE / name)
            _install(name, "--upgrade", "pip")
            if name in ENGINES:
                _install_engine(name)
            else:
                extra = f"{ROOT}[{name.replace('_', '-')}]"
                _install(name, "--editable", extra, "gguf>=0.19", "numpy>=2", *ENVIRONMENTS[name][1])
            stamp.touch()
        sys.stdout.write(f"{name} {version(name)}\n")


def _install_engine(name: str) -> None:
    """Install a model server with what its parsers need. torch comes first: other packages would take any build."""
    server, names = ENGINES[name]
    _install(name, "torch==2.13.0")
    _install(name, "--no-deps", server)
    listed = [
        _run(python(name), "-c", _LIST_REQUIREMENTS, server, *each).splitlines() for each in (_ALONE, names.split())
    ]
    _install(name, "--no-warn-conflicts", "--no-deps", *listed[0])
    _install(name, "--no-warn-conflicts", *listed[1], "pytest", "--editable", ROOT)


def _install(name: str, *arguments: object) -> None:
    _run(python(name), "-m", "pip", "install", "--quiet", *arguments)


def _run(*command: object) -> str:
    arguments = [str(each) for each in command]
    return subprocess.run(
        arguments, check=True, timeout=_SECONDS, env=_VARIABLES, stdout=subprocess.PIPE, text=True
    ).stdout


if __name__ == "__main__":
    main()
