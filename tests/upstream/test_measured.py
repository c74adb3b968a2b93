"""What is kept of measured models: one file each, replaced whole; what is something else is ignored."""

import json
import os

import pytest

from fcshim.upstream.measured import MeasuredModel, default_measured_folder, load_measured, save_measured

KEY = "0123456789abcdef0123456789abcdef"
MEASURED = MeasuredModel(
    model="qwen-0.5b",
    settings={"dialect": "function_call", "tools": "prompt", "max_tools": 8, "rescue": True},
    reason="24 of 32 cases, the best of 3 dialects",
    date="2026-11-24",
    complete=True,
    probes={"hermes": "other"},
)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return tmp_path / "fcshim" / "models"


def test_what_is_saved_is_loaded_and_nothing_else_is_left(folder):
    save_measured(KEY, MEASURED)
    save_measured(KEY, MEASURED)

    assert MEASURED == load_measured(KEY)
    assert [f"{KEY}.json"] == [file.name for file in folder.iterdir()]


def test_a_model_that_was_never_measured_has_no_entry(folder, caplog):
    assert load_measured(KEY) is None
    assert [] == caplog.records


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff\xfe",
        b"[]",
        b'{"model": 1}',
        b'{"model": "m"}',
        b"[" * 70_000,
        b'{"model": "m", "settings": {"a": {}}}',
    ],
    ids=["empty", "binary", "list", "types", "incomplete", "deep", "nested"],
)
def test_a_file_that_is_something_else_is_ignored_with_a_line_in_the_log(folder, caplog, content):
    folder.mkdir(parents=True)
    (folder / f"{KEY}.json").write_bytes(content)

    assert load_measured(KEY) is None
    assert ["not a file of measurements" in record.getMessage() for record in caplog.records] == [True]


def test_fields_of_later_versions_are_passed_over(folder):
    save_measured(KEY, MEASURED)
    file = folder / f"{KEY}.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "new": [1]}))

    assert MEASURED == load_measured(KEY)


def test_a_folder_that_cannot_be_written_is_a_line_in_the_log(tmp_path, monkeypatch, caplog):
    (tmp_path / "fcshim").write_text("a file")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))

    save_measured(KEY, MEASURED)

    assert load_measured(KEY) is None
    assert "not saved" in caplog.text


def test_a_key_that_is_no_hash_names_no_file(folder):
    with pytest.raises(ValueError, match="hexadecimal"):
        load_measured("../../x")


def test_the_folder_follows_the_environment():
    assert "/var/state/fcshim/models" == str(default_measured_folder({"XDG_STATE_HOME": "/var/state"}))
    assert str(default_measured_folder({})).endswith("/.local/state/fcshim/models")
    assert "fcshim-state-" in str(default_measured_folder(os.environ))
