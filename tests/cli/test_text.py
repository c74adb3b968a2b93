"""Reading and writing text and JSON."""

import pytest

from fcshim.cli.text import parse_json, read_text, write_line
from fcshim.errors import ConfigError


def test_a_file_is_read_as_utf8(tmp_path):
    path = tmp_path / "text"
    path.write_bytes("Zürich\r\n".encode())

    assert "Zürich\r\n" == read_text(str(path))


def test_a_byte_order_mark_is_removed(tmp_path):
    path = tmp_path / "text"
    path.write_bytes(b"\xef\xbb\xbf[]")

    assert "[]" == read_text(str(path))


def test_a_missing_file_is_named(tmp_path):
    path = tmp_path / "missing"

    with pytest.raises(ConfigError, match="missing: No such file"):
        read_text(str(path))


def test_a_folder_is_rejected(tmp_path):
    with pytest.raises(ConfigError, match="directory"):
        read_text(str(tmp_path))


def test_the_offset_of_invalid_utf8_is_reported(tmp_path):
    path = tmp_path / "text"
    path.write_bytes(b"abc\xff")

    with pytest.raises(ConfigError, match="not UTF-8 at byte 3"):
        read_text(str(path))


def test_the_position_of_invalid_json_is_reported():
    with pytest.raises(ConfigError, match=r"tools\.json:2:4: not JSON: Expecting ',' delimiter"):
        parse_json("[1,\n 2 3]", "tools.json")


@pytest.mark.parametrize("text", ["[" * 100_000, "9" * 5_000])
def test_json_beyond_the_limits_of_python_is_rejected(text):
    with pytest.raises(ConfigError, match="tools"):
        parse_json(text, "tools")


def test_lines_are_utf8_in_any_locale(capsysbinary):
    write_line("Zürich")

    assert "Zürich\n".encode() == capsysbinary.readouterr().out
