"""Measures tool calling with models that really run: `python -m benchmarks.models run|table`.

    python -m benchmarks.models run --bfcl DIR --upstream http://127.0.0.1:8080 --name qwen-0.5b [--mode MODE ...]

`run` can be interrupted and goes on where it was; `table` prints what the files of results say.
"""

import argparse
import asyncio
import sys
from pathlib import Path

from benchmarks.models.cases import select_cases
from benchmarks.models.modes import MODES
from benchmarks.models.run import ModelRun
from benchmarks.models.table import print_table

RESULTS = Path(__file__).with_name("results")


def main() -> int:
    """Run cases, or print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=("run", "table"))
    parser.add_argument("--bfcl", type=Path, required=True, metavar="DIR", help="the folder `data` of bfcl-eval")
    parser.add_argument("--upstream", metavar="URL", help="a llama-server with --jinja")
    parser.add_argument("--name", metavar="MODEL", action="append", default=[], help="its name in the results")
    parser.add_argument("--mode", action="append", default=[], choices=tuple(MODES), help="default: all")
    parser.add_argument("--split", choices=("test", "tuning"), default="test")
    parser.add_argument("--cases", type=int, default=152, help="evenly from the categories")
    parser.add_argument("--seconds", type=float, default=1e9, help="start no case after so many seconds")
    parser.add_argument("--results", type=Path, default=RESULTS, help="the folder of the results")
    options = parser.parse_args()
    modes = {mode: settings for mode, settings in MODES.items() if not options.mode or mode in options.mode}
    cases = select_cases(options.bfcl, options.split, options.cases)
    if options.command == "table":
        print_table(options.results / options.split, options.name, tuple(modes), cases)
        return 0
    if not options.upstream or len(options.name) != 1:
        parser.error("run: expected --upstream URL and one --name")

    async def run() -> None:
        async with ModelRun(options.upstream.rstrip("/")) as model:
            await model.run(cases, modes, options.results / options.split / options.name[0], options.seconds)

    asyncio.run(run())
    return 0


if __name__ == "__main__":
    sys.exit(main())
