"""How far `fcshim eval` is."""

import io

from rich.console import Console

from fcshim.cli.eval_progress import Progress
from fcshim.config import Config
from fcshim.evaluate.plan import Plan
from fcshim.evaluate.record import Record
from tests.evaluate.results import result

PLAN = Plan(config=Config(), model="m", dialects=("hermes", "native"), categories=("simple",), limit=3)


def shown(*results, terminal=True):
    """Give what stands on the screen at the end."""
    console = Console(file=io.StringIO(), width=100, force_terminal=terminal, force_interactive=terminal)
    with Record(None, {}) as record:
        record.add(result("simple-001"))
        with Progress(PLAN, record, console) as progress:
            for each in results:
                progress.add(each)
    return console.file.getvalue()


def test_each_dialect_has_a_bar_that_counts_what_is_left_to_ask():
    screen = shown(result("simple-002"), result("simple-003", "wrong_tool"), result("simple-001", dialect="native"))

    assert ["hermes", "native"] == [name for name in ("hermes", "native") if name in screen]
    assert "2/2" in screen
    assert "1/3" in screen
    assert 2 == screen.rpartition("hermes")[2].count("1 right")


def test_a_file_gets_no_bars():
    assert "" == shown(result("simple-002"), terminal=False).strip()
