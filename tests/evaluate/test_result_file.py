"""The file of results."""

import json

import pytest

from fcshim.errors import ConfigError
from fcshim.evaluate.result_file import ResultFile
from tests.evaluate.results import result

TERMS = {"model": "m", "temperature": 0.0, "seed": 1}


def lines(path):
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def test_the_first_line_has_the_terms_and_every_other_line_is_a_result(tmp_path):
    path = tmp_path / "run.jsonl"
    with ResultFile(path, TERMS) as result_file:
        result_file.add(result(text="naïve\u2028\n"))
        result_file.add(result("simple-002", "wrong_tool"))

    head, first, second = lines(path)

    assert {"fcshim_eval": 1, "terms": TERMS} == head
    assert ("simple-001", "right", "naïve\u2028\n") == (first["id"], first["verdict"], first["text"])
    assert [{"name": "timer", "arguments": {"minutes": 5}, "error": ""}] == second["calls"]


def test_a_result_is_written_at_once(tmp_path):
    path = tmp_path / "run.jsonl"
    with ResultFile(path, TERMS) as result_file:
        result_file.add(result())

        assert 2 == len(lines(path))


def test_a_file_can_be_resumed(tmp_path):
    path = tmp_path / "run.jsonl"
    with ResultFile(path, TERMS) as result_file:
        result_file.add(result())
    with ResultFile(path, TERMS, resume=True) as result_file:
        assert result_file.has("hermes", "simple-001")
        assert not result_file.has("hermes", "simple-002")
        assert not result_file.has("json", "simple-001")
        result_file.add(result("simple-002"))

    assert ["simple-001", "simple-002"] == [line["id"] for line in lines(path)[1:]]
    assert [result(), result("simple-002")] == result_file.results


def test_a_case_with_an_error_runs_again(tmp_path):
    path = tmp_path / "run.jsonl"
    with ResultFile(path, TERMS) as result_file:
        result_file.add(result(verdict="error", problem="away"))
    with ResultFile(path, TERMS, resume=True) as result_file:
        assert not result_file.has("hermes", "simple-001")
        result_file.add(result())
    with ResultFile(path, TERMS, resume=True) as result_file:
        assert [result()] == result_file.results


@pytest.mark.parametrize("kept", [1, 20, -1])
def test_an_incomplete_last_line_is_dropped(tmp_path, kept):
    path = tmp_path / "run.jsonl"
    with ResultFile(path, TERMS) as result_file:
        result_file.add(result())
    last = path.read_bytes().splitlines(keepends=True)[-1]
    with path.open("ab") as file:
        file.write(last[:kept])
    with ResultFile(path, TERMS, resume=True) as result_file:
        result_file.add(result("simple-002"))

    assert ["simple-001", "simple-002"] == [line["id"] for line in lines(path)[1:]]


def test_a_file_with_an_incomplete_header_is_started_again(tmp_path):
    path = tmp_path / "run.jsonl"
    path.write_text('{"fcshim_ev')
    with ResultFile(path, TERMS, resume=True) as result_file:
        result_file.add(result())

    assert [TERMS, "simple-001"] == [lines(path)[0]["terms"], lines(path)[1]["id"]]


def test_a_file_of_other_settings_is_rejected_and_unchanged(tmp_path):
    path = tmp_path / "run.jsonl"
    ResultFile(path, TERMS).__exit__(None, None, None)
    before = path.read_bytes()

    with pytest.raises(ConfigError, match=r"other settings: seed was 1, is 2, top_p was None, is 0\.5"):
        ResultFile(path, {**TERMS, "seed": 2, "top_p": 0.5}, resume=True)
    assert before == path.read_bytes()


def test_a_file_is_never_overwritten(tmp_path):
    path = tmp_path / "run.jsonl"
    path.write_text("mine")

    with pytest.raises(ConfigError, match="already exists: --resume continues it"):
        ResultFile(path, TERMS)
    assert "mine" == path.read_text()


@pytest.mark.parametrize("text", ["hello\n", "[]\n", '{"fcshim_eval": "x"}\n', "\n"])
def test_another_kind_of_file_is_rejected(tmp_path, text):
    path = tmp_path / "notes.txt"
    path.write_text(text)

    with pytest.raises(ConfigError, match="not a file of results of fcshim eval"):
        ResultFile(path, TERMS, resume=True)
    assert text == path.read_text()


def test_a_newer_format_is_rejected(tmp_path):
    path = tmp_path / "run.jsonl"
    path.write_text('{"fcshim_eval": 2, "terms": {}}\n')

    with pytest.raises(ConfigError, match="format 2, of another version"):
        ResultFile(path, TERMS, resume=True)


def test_the_number_of_an_invalid_line_is_reported(tmp_path):
    path = tmp_path / "run.jsonl"
    ResultFile(path, TERMS).__exit__(None, None, None)
    with path.open("a") as file:
        file.write('{"dialect": "x"}\n')

    with pytest.raises(ConfigError, match=r"run\.jsonl:2: not a result"):
        ResultFile(path, TERMS, resume=True)


def test_a_missing_folder_is_a_config_error(tmp_path):
    with pytest.raises(ConfigError, match="No such file"):
        ResultFile(tmp_path / "none" / "run.jsonl", TERMS)


def test_without_a_file_results_are_kept_in_memory():
    with ResultFile(None, TERMS) as result_file:
        result_file.add(result())

    assert [result()] == result_file.results
