"""The file of results."""

import json

import pytest

from fcshim.errors import ConfigError
from fcshim.evaluate.result_file import ResultFile
from tests.evaluate.results import result

TERMS = {"model": "m", "temperature": 0.0, "seed": 1}


def lines(path):
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def test_the_first_line_says_what_was_run_and_each_other_one_is_a_result(tmp_path):
    path = tmp_path / "run.jsonl"
    with ResultFile(path, TERMS) as record:
        record.add(result(text="naïve\u2028\n"))
        record.add(result("simple-002", "wrong_tool"))

    head, first, second = lines(path)

    assert {"fcshim_eval": 1, "terms": TERMS} == head
    assert ("simple-001", "right", "naïve\u2028\n") == (first["id"], first["verdict"], first["text"])
    assert [{"name": "timer", "arguments": {"minutes": 5}, "error": ""}] == second["calls"]


def test_a_result_is_in_the_file_as_soon_as_it_was_added(tmp_path):
    path = tmp_path / "run.jsonl"
    with ResultFile(path, TERMS) as record:
        record.add(result())

        assert 2 == len(lines(path))


def test_what_is_there_is_gone_on_with(tmp_path):
    path = tmp_path / "run.jsonl"
    with ResultFile(path, TERMS) as record:
        record.add(result())
    with ResultFile(path, TERMS, resume=True) as record:
        assert record.has("hermes", "simple-001")
        assert not record.has("hermes", "simple-002")
        assert not record.has("json", "simple-001")
        record.add(result("simple-002"))

    assert ["simple-001", "simple-002"] == [line["id"] for line in lines(path)[1:]]
    assert [result(), result("simple-002")] == record.results


def test_a_case_that_ended_with_an_error_is_asked_again(tmp_path):
    path = tmp_path / "run.jsonl"
    with ResultFile(path, TERMS) as record:
        record.add(result(verdict="error", problem="away"))
    with ResultFile(path, TERMS, resume=True) as record:
        assert not record.has("hermes", "simple-001")
        record.add(result())
    with ResultFile(path, TERMS, resume=True) as record:
        assert [result()] == record.results


@pytest.mark.parametrize("kept", [1, 20, -1])
def test_a_line_that_was_cut_off_is_dropped(tmp_path, kept):
    path = tmp_path / "run.jsonl"
    with ResultFile(path, TERMS) as record:
        record.add(result())
    last = path.read_bytes().splitlines(keepends=True)[-1]
    with path.open("ab") as file:
        file.write(last[:kept])
    with ResultFile(path, TERMS, resume=True) as record:
        record.add(result("simple-002"))

    assert ["simple-001", "simple-002"] == [line["id"] for line in lines(path)[1:]]


def test_a_file_that_holds_less_than_a_line_is_begun_anew(tmp_path):
    path = tmp_path / "run.jsonl"
    path.write_text('{"fcshim_ev')
    with ResultFile(path, TERMS, resume=True) as record:
        record.add(result())

    assert [TERMS, "simple-001"] == [lines(path)[0]["terms"], lines(path)[1]["id"]]


def test_a_file_of_other_settings_is_refused_and_left_as_it_is(tmp_path):
    path = tmp_path / "run.jsonl"
    ResultFile(path, TERMS).__exit__(None, None, None)
    before = path.read_bytes()

    with pytest.raises(ConfigError, match=r"other settings: seed was 1, is 2, top_p was None, is 0\.5"):
        ResultFile(path, {**TERMS, "seed": 2, "top_p": 0.5}, resume=True)
    assert before == path.read_bytes()


def test_a_file_is_never_overwritten(tmp_path):
    path = tmp_path / "run.jsonl"
    path.write_text("mine")

    with pytest.raises(ConfigError, match="is there already: --resume goes on with it"):
        ResultFile(path, TERMS)
    assert "mine" == path.read_text()


@pytest.mark.parametrize("text", ["hello\n", "[]\n", '{"fcshim_eval": "x"}\n', "\n"])
def test_another_kind_of_file_is_refused(tmp_path, text):
    path = tmp_path / "notes.txt"
    path.write_text(text)

    with pytest.raises(ConfigError, match="no results of fcshim eval"):
        ResultFile(path, TERMS, resume=True)
    assert text == path.read_text()


def test_a_newer_form_is_refused(tmp_path):
    path = tmp_path / "run.jsonl"
    path.write_text('{"fcshim_eval": 2, "terms": {}}\n')

    with pytest.raises(ConfigError, match="in form 2, of another version"):
        ResultFile(path, TERMS, resume=True)


def test_a_line_that_is_no_result_is_named(tmp_path):
    path = tmp_path / "run.jsonl"
    ResultFile(path, TERMS).__exit__(None, None, None)
    with path.open("a") as file:
        file.write('{"dialect": "x"}\n')

    with pytest.raises(ConfigError, match=r"run\.jsonl:2: no result"):
        ResultFile(path, TERMS, resume=True)


def test_a_place_that_is_not_there_is_a_mistake(tmp_path):
    with pytest.raises(ConfigError, match="No such file"):
        ResultFile(tmp_path / "none" / "run.jsonl", TERMS)


def test_without_a_file_results_are_kept_in_memory():
    with ResultFile(None, TERMS) as record:
        record.add(result())

    assert [result()] == record.results
