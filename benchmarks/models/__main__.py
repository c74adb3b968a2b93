"""Measures tool calling with models that really run.

    python -m benchmarks.models run --bfcl DIR --upstream http://127.0.0.1:8080 --name qwen-0.5b [--mode MODE ...]
    python -m benchmarks.models table           # what the kept results say
    python -m benchmarks.models check --bfcl DIR   # wrong and lost calls in the kept results
    python -m benchmarks.models page            # the table and the plot of docs/models.md

`run` can be interrupted and goes on where it was. DIR is the folder `data` of the package bfcl-eval.
"""

import argparse
import asyncio
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from benchmarks.models.cases import select_cases
from benchmarks.models.check import check
from benchmarks.models.modes import MODES
from benchmarks.models.results import Results
from benchmarks.models.run import ModelRun
from benchmarks.models.table import draw, load_figures, markdown_table, text_table
from fcshim.evaluate.bfcl import BFCL_CATEGORIES, load_bfcl

RESULTS = Path(__file__).with_name("results")
_DOCS = Path(__file__).parents[2] / "docs"
PAGE, PLOT = _DOCS / "models.md", _DOCS / "images" / "models.svg"
BEGIN, END = "<!-- table: python -m benchmarks.models page -->", "<!-- end of the table -->"


def main() -> int:
    """Run one of the commands; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=tuple(_COMMANDS))
    parser.add_argument("--bfcl", type=Path, metavar="DIR")
    parser.add_argument("--upstream", metavar="URL", help="run: a llama-server with --jinja")
    parser.add_argument("--name", metavar="MODEL", help="run: its name in the results")
    parser.add_argument("--mode", action="append", default=[], choices=tuple(MODES), help="run: default: all")
    parser.add_argument("--split", choices=("test", "tuning"), default="test")
    parser.add_argument("--cases", type=int, default=152, help="run: evenly from the categories (default: 152)")
    parser.add_argument("--seconds", type=float, default=1e9, help="run: start no case after so many seconds")
    parser.add_argument("--results", type=Path, default=RESULTS, help="the folder of the results")
    options = parser.parse_args()
    if options.command in ("run", "check") and options.bfcl is None:
        parser.error(f"{options.command}: expected --bfcl DIR")
    if options.command == "run" and not (options.upstream and options.name):
        parser.error("run: expected --upstream URL and --name MODEL")
    return _COMMANDS[options.command](options, options.results / options.split)


def _run(options: argparse.Namespace, folder: Path) -> int:
    modes = {mode: settings for mode, settings in MODES.items() if not options.mode or mode in options.mode}
    cases = select_cases(options.bfcl, options.split, options.cases)

    async def run() -> None:
        async with ModelRun(options.upstream.rstrip("/")) as model:
            await model.run(cases, modes, folder / options.name, options.seconds)

    asyncio.run(run())
    return 0


def _table(_: argparse.Namespace, folder: Path) -> int:
    print(text_table(load_figures(folder)))
    return 0


def _check(options: argparse.Namespace, folder: Path) -> int:
    """Print the cases with wrong calls, with lost calls, and those whose reading depends on the split; 1 for any."""
    cases = [case for category in BFCL_CATEGORIES for case in load_bfcl(options.bfcl, category)]
    found = False
    for path in sorted(folder.glob("*/*.jsonl")):
        findings = check(cases, list(Results(path).by_case.values()))
        print(f"{path.parent.name} {path.stem}: {findings}")
        found = found or bool(findings.wrong or findings.split)
    return int(found)


def _page(_: argparse.Namespace, folder: Path) -> int:
    rows = load_figures(folder)
    draw(rows, PLOT)
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    _, _, after = rest.partition(END)
    PAGE.write_text(f"{before}{BEGIN}\n\n{markdown_table(rows)}\n\n{END}{after}", encoding="utf-8")
    return 0


_COMMANDS: Mapping[str, Callable[[argparse.Namespace, Path], int]] = {
    "run": _run,
    "table": _table,
    "check": _check,
    "page": _page,
}


if __name__ == "__main__":
    sys.exit(main())
