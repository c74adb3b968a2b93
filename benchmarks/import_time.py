"""The time to start: `import fcshim` and the commands, compared with an empty Python program.

Rule: every start is a process of its own, in turns, with the files in the page cache; the best time of each counts.
"""

import subprocess
import sys
import time

from benchmarks.report import Report, arguments

_IMPORT_LIMIT = 0.15
_STARTS = {
    "python alone": ("-c", "pass"),
    "import json, re, typing": ("-c", "import json, re, typing"),
    "import fcshim": ("-c", "import fcshim"),
    "from fcshim import Client": ("-c", "from fcshim import Client"),
    "fcshim --version": ("-m", "fcshim", "--version"),
    "fcshim parse": ("-m", "fcshim", "parse"),
    "fcshim dialects": ("-m", "fcshim", "dialects"),
    "fcshim serve --help": ("-m", "fcshim", "serve", "--help"),
}


def main() -> int:
    """Measure, report and return the exit status."""
    options = arguments(__doc__.partition("\n")[0]).parse_args()
    best = measure(rounds=5 if options.quick else 20)
    report = Report("import_time")
    bare = best["python alone"]
    rows = [(name, seconds * 1e3, (seconds - bare) * 1e3, seconds / bare) for name, seconds in best.items()]
    report.table("Starting, best of all rounds", ("start", "ms", "ms above python", "x python"), rows)
    report.bar("import fcshim, above python alone", best["import fcshim"] - bare, _IMPORT_LIMIT, "s")
    return report.finish(options.json)


def measure(rounds: int) -> dict[str, float]:
    """Return the shortest time of each start in seconds; the first round only fills the page cache."""
    times: dict[str, list[float]] = {name: [] for name in _STARTS}
    for _ in range(rounds + 1):
        for name, start in _STARTS.items():
            times[name].append(_seconds(start))
    return {name: min(taken[1:]) for name, taken in times.items()}


def _seconds(start: tuple[str, ...]) -> float:
    begin = time.perf_counter()
    subprocess.run([sys.executable, *start], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - begin


if __name__ == "__main__":
    sys.exit(main())
