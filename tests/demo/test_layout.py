import pytest

from fcshim.demo.run import heading, side_by_side, terminal_width, truncate


@pytest.mark.parametrize(("columns", "width"), [("20", 76), ("100", 99), ("300", 132)])
def test_the_width_is_that_of_the_terminal_within_limits(
    columns: str, width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", columns)

    assert terminal_width() == width


def test_a_heading_fills_the_width() -> None:
    assert heading("1. Ask", 20) == "--- 1. Ask ---------"


def test_columns_are_side_by_side_and_long_lines_wrap() -> None:
    rows = side_by_side(["a", "", "123456 89"], ["b\nc"], 15).split("\n")

    assert rows == ["a      | b", "       | c", "123456 |", " 89    |"]


def test_a_long_line_is_truncated() -> None:
    assert [truncate("12345678", 8), truncate("123456789", 8)] == ["12345678", "12345..."]
