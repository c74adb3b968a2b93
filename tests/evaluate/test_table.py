"""A summary as a table for the terminal."""

import io

from rich.console import Console

from fcshim.evaluate.summary import summarise
from fcshim.evaluate.table import make_table
from tests.evaluate.results import result

RESULTS = [
    *[result(f"simple-{number:03}", input_tokens=500, output_tokens=30, seconds=1.5) for number in range(9)],
    result("simple-009", "wrong_arguments"),
    result("parallel-001", "missing_call"),
    result("simple-000", dialect="native"),
]


def rendered_rows(results):
    """Return the table's rows, as lists of their cells."""
    console = Console(file=io.StringIO(), width=200)
    console.print(make_table(summarise(results)))
    lines = console.file.getvalue().splitlines()
    return [[cell.strip() for cell in line.replace("┃", "│").split("│")] for line in lines if "─" not in line]


def test_each_dialect_has_a_column():
    rows = rendered_rows(RESULTS)

    assert ["category", "hermes", "native"] == rows[0]
    assert ["simple", "9 of 10   90% (60 to 98)", "1 of 1  100% (21 to 100)"] in rows
    assert ["parallel", "0 of 1    0% (0 to 79)", ""] in rows
    assert ["all", "9 of 11   82% (52 to 95)", "1 of 1  100% (21 to 100)"] in rows


def test_verdicts_and_costs_are_below_the_rates():
    rows = rendered_rows(RESULTS)

    assert ["wrong arguments", "1", "0"] in rows
    assert ["missing call", "1", "0"] in rows
    assert ["seconds, median", "1.50", "0.00"] in rows
    assert [] == [row for row in rows if row[0] == "right"]


def test_without_results_the_table_is_empty():
    assert "category" == rendered_rows([])[0][0]
