"""The progress bars of `fcshim eval`."""

import io

from rich.console import Console

from fcshim.cli.eval import EvalProgress
from fcshim.config import Config
from fcshim.evaluate.plan import EvalPlan
from fcshim.evaluate.result_file import ResultFile
from tests.evaluate.results import result

PLAN = EvalPlan(config=Config(), model="m", dialects=("hermes", "native"), categories=("simple",), limit=3)


def rendered(*results, terminal=True):
    """Return the final output."""
    console = Console(file=io.StringIO(), width=100, force_terminal=terminal, force_interactive=terminal)
    with ResultFile(None, {}) as result_file:
        result_file.add(result("simple-001"))
        with EvalProgress(PLAN, result_file, console) as progress:
            for each in results:
                progress.add(each)
    return console.file.getvalue()


def test_each_dialect_has_a_bar_that_counts_the_cases_without_a_result():
    screen = rendered(result("simple-002"), result("simple-003", "wrong_tool"), result("simple-001", dialect="native"))

    assert ["hermes", "native"] == [name for name in ("hermes", "native") if name in screen]
    assert "2/2" in screen
    assert "1/3" in screen
    assert 2 == screen.rpartition("hermes")[2].count("1 right")


def test_without_a_terminal_no_bars_are_drawn():
    assert "" == rendered(result("simple-002"), terminal=False).strip()
