"""Measures tool calling with models that really run.

    python -m benchmarks.models run --bfcl DIR --upstream http://127.0.0.1:8080 --name qwen-0.5b [--mode MODE ...]
    python -m benchmarks.models loops --upstream http://127.0.0.1:8080 --name qwen-0.5b [--mode MODE ...]
    python -m benchmarks.models table           # what the kept results say
    python -m benchmarks.models check --bfcl DIR   # wrong and lost calls in the kept results
    python -m benchmarks.models page            # the tables and the plot of docs/models.md
    python -m benchmarks.models many_tools --bfcl DIR [--upstream http://127.0.0.1:8080 --name qwen-1.5b --mode MODE]
    python -m benchmarks.models demanded --bfcl DIR --upstream http://127.0.0.1:8080   # calls by `tool_choice`

`run` has cases of one turn, `loops` conversations and tasks with tools that really run, `many_tools` cases of one turn
with 80 to 100 tools each. All of them can be interrupted and go on where they were. DIR is the folder `data` of the
package bfcl-eval.
"""

import argparse
import asyncio
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path

from benchmarks.models.cases import select_cases
from benchmarks.models.check import Findings, check, check_loops
from benchmarks.models.conversations import load_conversations
from benchmarks.models.demanded import CATEGORIES, DemandedCall, demanded_line, run_demanded
from benchmarks.models.loop_table import load_loop_figures, loop_markdown_table, loop_text_table
from benchmarks.models.loops import load_tasks, run_task
from benchmarks.models.many_tools import many_tools_cases, many_tools_table, recall
from benchmarks.models.modes import MANY_TOOLS_MODES, MODES
from benchmarks.models.results import case_results, conversation_results, loop_results
from benchmarks.models.run import SAMPLING, run_bfcl_case, run_conversation, run_tasks
from benchmarks.models.table import draw, load_figures, markdown_table, text_table
from fcshim.evaluate.bfcl import BFCL_CATEGORIES, load_bfcl

RESULTS = Path(__file__).with_name("results")
_DOCS = Path(__file__).parents[2] / "docs"
PAGE, PLOT = _DOCS / "models.md", _DOCS / "images" / "models.svg"
BEGIN, END = "<!-- table: python -m benchmarks.models page -->", "<!-- end of the table -->"
BEGIN_LOOPS, END_LOOPS = "<!-- loops: python -m benchmarks.models page -->", "<!-- end of the loops -->"


def main() -> int:
    """Run one of the commands; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=tuple(_COMMANDS))
    parser.add_argument("--bfcl", type=Path, metavar="DIR")
    parser.add_argument("--upstream", metavar="URL", help="run, loops, demanded: a llama-server with --jinja")
    parser.add_argument("--name", metavar="MODEL", help="run, loops: its name in the results")
    parser.add_argument("--mode", action="append", choices=(*MODES, *MANY_TOOLS_MODES), help="run, loops: default: all")
    parser.add_argument("--split", choices=("test", "tuning"), default="test")
    parser.add_argument("--cases", type=int, help="run, demanded: evenly from the categories (default: 152, 20)")
    parser.add_argument("--seconds", type=float, default=1e9, help="run, loops: start no task after so many seconds")
    parser.add_argument("--results", type=Path, default=RESULTS, help="the folder of the results")
    options = parser.parse_args()
    needed = _NEEDED.get(options.command, ())
    if missing := [f"--{name}" for name in needed if getattr(options, name) is None]:
        parser.error(f"{options.command}: expected {', '.join(missing)}")
    return _COMMANDS[options.command](options, options.results / options.split)


def _run(options: argparse.Namespace, folder: Path) -> int:
    files = {mode: case_results(folder / options.name, mode) for mode in options.mode or MODES}
    cases = select_cases(options.bfcl, options.split, options.cases or 152)
    tasks = {case.id: partial(run_bfcl_case, case=case) for case in cases}
    asyncio.run(run_tasks(options.upstream, tasks, files, time.monotonic() + options.seconds))
    return 0


def _loops(options: argparse.Namespace, folder: Path) -> int:
    modes, deadline = options.mode or MODES, time.monotonic() + options.seconds
    talks = {each.case.id: partial(run_conversation, conversation=each) for each in load_conversations(options.split)}
    files = {mode: conversation_results(folder / options.name, mode) for mode in modes}
    asyncio.run(run_tasks(options.upstream, talks, files, deadline))
    loops = {task.id: partial(run_task, task=task, sampling=SAMPLING) for task in load_tasks(options.split)}
    loop_files = {mode: loop_results(folder / options.name, mode) for mode in modes}
    asyncio.run(run_tasks(options.upstream, loops, loop_files, deadline))
    return 0


def _many_tools(options: argparse.Namespace, folder: Path) -> int:
    """Run the cases, or without an upstream print how often the right tool is described, and the figures."""
    if options.upstream is None:
        every = many_tools_cases(options.bfcl, options.split)
        for maximum in (4, 8, 16):
            print(f"right tool among the {maximum} described: {recall(every, maximum):.1%} of {len(every)} cases")
        print(many_tools_table(folder))
        return 0
    if options.name is None:
        sys.exit("many_tools: expected --name with --upstream")
    cases = many_tools_cases(options.bfcl, options.split, options.cases or 40)
    tasks = {case.id: partial(run_bfcl_case, case=case) for case in cases}
    deadline = time.monotonic() + options.seconds
    for mode in options.mode or MANY_TOOLS_MODES:  # one after the other, so that the server keeps what it has read
        files = {mode: case_results(folder / options.name, mode)}
        asyncio.run(run_tasks(options.upstream, tasks, files, deadline))
    return 0


def _demanded(options: argparse.Namespace, _: Path) -> int:
    """Print the figures of demanded calls, and the raw replies that were no valid call or went on; 1 for any."""
    cases = select_cases(options.bfcl, "tuning", options.cases or 20, CATEGORIES)

    async def run() -> list[DemandedCall]:
        return [result async for result in run_demanded(options.upstream, cases)]

    results = asyncio.run(run())
    bad = [result for result in results if not result.valid or result.beyond]
    for result in bad:
        print(result)
    print(demanded_line(results))
    return int(bool(bad))


def _table(_: argparse.Namespace, folder: Path) -> int:
    print(text_table(load_figures(folder)))
    print(loop_text_table(load_loop_figures(folder)))
    return 0


def _check(options: argparse.Namespace, folder: Path) -> int:
    """Print the tasks with wrong calls, with lost calls, and those whose reading depends on the split; 1 for any."""
    found = False
    for path, findings in _findings(options.bfcl, folder):
        print(f"{path.parent.name} {path.stem}: {findings}")
        found = found or bool(findings.wrong or findings.split)
    return int(found)


def _findings(bfcl: Path, folder: Path) -> Iterator[tuple[Path, Findings]]:
    cases = [case for category in BFCL_CATEGORIES for case in load_bfcl(bfcl, category)]
    talks, loops = [each.case for each in load_conversations()], load_tasks()
    for model in sorted(folder.iterdir()):
        for mode in MODES:
            if (file := case_results(model, mode)).by_id:
                yield file.path, check(cases, file.by_id.values())
            if (file := conversation_results(model, mode)).by_id:
                yield file.path, check(talks, file.by_id.values())
            if (loop_file := loop_results(model, mode)).by_id:
                yield loop_file.path, check_loops(loops, loop_file.by_id.values())


def _page(_: argparse.Namespace, folder: Path) -> int:
    rows = load_figures(folder)
    draw(rows, PLOT)
    text = _with_table(PAGE.read_text(encoding="utf-8"), BEGIN, markdown_table(rows), END)
    text = _with_table(text, BEGIN_LOOPS, loop_markdown_table(load_loop_figures(folder)), END_LOOPS)
    PAGE.write_text(text, encoding="utf-8")
    return 0


def _with_table(page: str, begin: str, table: str, end: str) -> str:
    before, _, rest = page.partition(begin)
    _, _, after = rest.partition(end)
    return f"{before}{begin}\n\n{table}\n\n{end}{after}"


_COMMANDS: Mapping[str, Callable[[argparse.Namespace, Path], int]] = {
    "run": _run,
    "loops": _loops,
    "many_tools": _many_tools,
    "demanded": _demanded,
    "table": _table,
    "check": _check,
    "page": _page,
}
_NEEDED = {
    "run": ("bfcl", "upstream", "name"),
    "loops": ("upstream", "name"),
    "many_tools": ("bfcl",),
    "demanded": ("bfcl", "upstream"),
    "check": ("bfcl",),
}
"""The options that a command cannot do without."""


if __name__ == "__main__":
    sys.exit(main())
