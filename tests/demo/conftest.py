"""The tiny model for the tests of this folder, and a real llama-server with the same file if one is available."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from fcshim.demo.generation import Engine
from fcshim.demo.gguf_file import TINY_MODEL, ModelFile, load_model
from tests.engine.llama_server import LlamaServer, running
from tests.engine.program import UnavailableError, find_llama_server
from tests.real_models import find_model


@pytest.fixture(scope="session")
def model_file() -> ModelFile:
    return load_model()


@pytest.fixture(scope="session")
def engine(model_file: ModelFile) -> Engine:
    return Engine(model_file)


@pytest.fixture(scope="session")
def llama_program() -> Path:
    in_ci = os.environ.get("CI") == "true"
    try:
        return find_llama_server(patient=in_ci)
    except UnavailableError as error:
        if in_ci:
            raise
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def llama_server(llama_program: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LlamaServer]:
    with running(llama_program, TINY_MODEL, tmp_path_factory.mktemp("tiny")) as server:
        yield server


@pytest.fixture(scope="session")
def small_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model under its own name, by which it gets its dialect where the chat template says nothing."""
    named = tmp_path_factory.mktemp("model") / "Qwen2.5-Coder-0.5B-Instruct.gguf"
    named.symlink_to(find_model("qwen-0.5b.gguf").resolve())
    return named
