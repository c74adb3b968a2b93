"""Tests of the fuzzer itself, and a small number of its executions."""

import pytest

from fcshim.parse.dialects import DIALECTS
from tests.fuzz.inputs import CORPUS, read_document, seed_inputs
from tests.fuzz.judge import Failure, judge, shorten
from tests.fuzz.make import make
from tests.fuzz.run import main

DOCUMENTS = 250


def test_a_seed_makes_one_document() -> None:
    assert make(7) == make(7)
    assert make(7) != make(8)


def test_most_documents_have_expected_events() -> None:
    exact = [document for document in map(make, range(400)) if document.events is not None]

    assert len(exact) > 150
    assert any(document.finished for document in exact)


def test_no_law_is_broken() -> None:
    for seed in range(DOCUMENTS):
        _, failure = judge(make(seed))

        assert failure is None, str(failure)


def test_no_input_of_the_corpus_breaks_a_law() -> None:
    for name, data in seed_inputs().items():
        _, failure = judge(read_document(data))

        assert failure is None, f"{name}: {failure}"
    for path in sorted(CORPUS.iterdir()):
        _, failure = judge(read_document(path.read_bytes()))

        assert failure is None, f"{path.name}: {failure}"


def test_any_bytes_are_an_input() -> None:
    assert read_document(b"").text == ""
    assert read_document(b"\xff\x00").options["dialect"] in {*DIALECTS, "auto"}
    assert read_document(b"hermes 0 0\nx").options["dialect"] == "hermes"


def test_a_broken_law_is_found_and_shrunk() -> None:
    document = next(document for document in map(make, range(400)) if document.events and len(document.events) > 3)
    document.events = [{"stop": "error"}]
    executions, failure = judge(document)

    assert executions == 1
    assert isinstance(failure, Failure)
    assert "meaning" in failure.reason
    assert shorten(failure) == failure


@pytest.mark.engine
def test_the_command_counts_executions() -> None:
    assert main(["--executions", "300", "--seed", "0", "--workers", "1"]) == 0
    assert main(["--replay", "3"]) == 0
