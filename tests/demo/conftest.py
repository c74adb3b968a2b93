"""The tiny model for the tests of this folder, and a real llama-server with the same file if one is available."""

import os
from collections.abc import Iterator

import pytest

from fcshim.demo.generation import Engine
from fcshim.demo.gguf_file import TINY_MODEL, ModelFile, load_model
from tests.engine.llama_server import LlamaServer, running
from tests.engine.program import UnavailableError, find_llama_server


@pytest.fixture(scope="session")
def model_file() -> ModelFile:
    return load_model()


@pytest.fixture(scope="session")
def engine(model_file: ModelFile) -> Engine:
    return Engine(model_file)


@pytest.fixture(scope="session")
def llama_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LlamaServer]:
    in_ci = os.environ.get("CI") == "true"
    try:
        program = find_llama_server(patient=in_ci)
    except UnavailableError as error:
        if in_ci:
            raise
        pytest.skip(str(error))
    with running(program, TINY_MODEL, tmp_path_factory.mktemp("tiny")) as server:
        yield server
