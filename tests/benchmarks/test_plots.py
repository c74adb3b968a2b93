"""The pictures of the documentation show the tables of their pages."""

from pathlib import Path

import pytest

pytest.importorskip("matplotlib")

from benchmarks.plots import DOCS, draw_mistakes, draw_slowdowns, mistakes, slowdowns


def test_each_row_of_a_table_is_in_its_picture(tmp_path: Path) -> None:
    draw_mistakes(mistakes(), tmp_path / "mistakes.svg")
    draw_slowdowns(slowdowns(), tmp_path / "performance.svg")

    assert len(mistakes()) > 40
    assert all(99 <= sum(figures[:4]) <= 101 for _, figures in mistakes())
    for name, rows in (("mistakes", [row for row, _ in mistakes()]), ("performance", list(slowdowns()))):
        drawn = (tmp_path / f"{name}.svg").read_text(encoding="utf-8")
        committed = (DOCS / "images" / f"{name}.svg").read_text(encoding="utf-8")
        assert [] == [row for row in rows if f">{row}<" not in drawn or f">{row}<" not in committed]
