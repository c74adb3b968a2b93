"""Real servers for the tests of this folder. Without a llama-server the tests are skipped; in CI they fail."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from fcshim import demo
from tests.engine.llama_server import LlamaServer, running
from tests.engine.program import UnavailableError, find_llama_server
from tests.engine.proxy import proxying
from tests.engine.random_models import write_random_model
from tests.engine.vocabulary import byte_level_vocabulary, sentencepiece_vocabulary

VOCABULARIES = {"sentencepiece": sentencepiece_vocabulary, "byte_level": byte_level_vocabulary}
ROOM_TO_RAMBLE = 4096
TINY = Path(demo.__file__).parent / "tiny.gguf"


@pytest.fixture(scope="session")
def program() -> Path:
    in_ci = os.environ.get("CI") == "true"
    try:
        return find_llama_server(patient=in_ci)
    except UnavailableError as error:
        if in_ci:
            raise
        pytest.skip(str(error))


@pytest.fixture(scope="session", params=VOCABULARIES)
def random_server(
    request: pytest.FixtureRequest, program: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LlamaServer]:
    """A server whose model has random weights, once with each kind of vocabulary."""
    folder = tmp_path_factory.mktemp(request.param)
    model = folder / f"{request.param}.gguf"
    write_random_model(model, VOCABULARIES[request.param]())
    with running(program, model, folder, context=ROOM_TO_RAMBLE) as server:
        yield server


@pytest.fixture(scope="session")
def trained_server(program: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LlamaServer]:
    """A server with the demo's model, which copies names and values from a command into calls.

    So small a model copies well only with greedy sampling, which is therefore the server's default.
    """
    options = ("--embeddings", "--pooling", "mean", "--temp", "0")
    with running(program, TINY, tmp_path_factory.mktemp("trained"), *options) as server:
        yield server


@pytest.fixture(scope="session")
def proxy(trained_server: LlamaServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL, without a path, of a proxy in front of the trained server."""
    with proxying(trained_server.url, tmp_path_factory.mktemp("proxy")) as url:
        yield url
