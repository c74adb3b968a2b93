import pytest

from fcshim.demo import layout


@pytest.mark.parametrize(("columns", "width"), [("20", 76), ("100", 99), ("300", 132)])
def test_the_width_is_the_terminals_within_reason(columns: str, width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", columns)

    assert layout.terminal_width() == width


def test_a_heading_goes_across() -> None:
    assert layout.heading("1. Ask", 20) == "--- 1. Ask ---------"


def test_columns_stand_side_by_side_and_long_lines_go_on() -> None:
    rows = layout.side_by_side(["a", "", "123456 89"], ["b\nc"], 15).split("\n")

    assert rows == ["a      | b", "       | c", "123456 |", " 89    |"]


def test_a_line_that_is_too_long_is_cut() -> None:
    assert [layout.truncate("12345678", 8), layout.truncate("123456789", 8)] == ["12345678", "12345..."]
