"""The fuzzer of the whole proxy: `python -m tests.fuzz.proxy.run [--executions N] [--seed S] [--seconds T]`.

Rule: prints each case that breaks a law, with its seed, and then exits with status 1. All proxies are replaced after
`_BATCH` cases; a failure that needs what came before is found again from the seed at the start of its batch.
"""

import argparse
import itertools
import math
import os
import sys
import time
from pathlib import Path

import msgspec
import uvloop

from tests.fuzz.proxy.cases import ProxyCase, make_case
from tests.fuzz.proxy.judge import Failure, judge_all

CORPUS = Path(__file__).parent / "corpus"
_BATCH = 5_000


def main(arguments: list[str] | None = None) -> int:
    """Run the fuzzer with these command-line arguments."""
    options = _options().parse_args(arguments)
    if options.replay is not None:
        return _replay(options.replay)
    start = options.seed if options.seed is not None else int.from_bytes(os.urandom(4))
    began = time.monotonic()
    done, failures = uvloop.run(_fuzz(start, options.executions, options.seconds, options.failures))
    took = time.monotonic() - began
    for case, reason in failures:
        print(f"\n{_shown(case, reason)}\n  replay:  python -m tests.fuzz.proxy.run --replay {case.seed}")
    verdict = f"{len(failures)} broken laws" if failures else "no broken law"
    print(f"{done:,} executions from seed {start} in {took:.1f} s ({done / took:,.0f}/s): {verdict}")
    return 1 if failures else 0


async def _fuzz(start: int, executions: int, seconds: float | None, enough: int) -> tuple[int, list[Failure]]:
    """Judge the cases from a seed on; return how many were run, and those that broke a law."""
    deadline = math.inf if seconds is None else time.monotonic() + seconds
    done, failures = 0, list[Failure]()
    while done < executions and len(failures) < enough and time.monotonic() < deadline:
        seeds = range(start + done, start + min(done + _BATCH, executions))
        waiting = itertools.takewhile(lambda _: time.monotonic() < deadline and len(failures) < enough, seeds)
        done += await judge_all(map(make_case, waiting), failures)
    return done, failures


def _replay(name: str) -> int:
    """Run one case again in fresh proxies: that of a seed or of a file."""
    case = make_case(int(name)) if name.isdigit() else read_case(Path(name))
    failures: list[Failure] = []
    uvloop.run(judge_all(iter([case]), failures, lanes=1))
    print(_shown(case, "; ".join(reason for _, reason in failures) or "no broken law"))
    return 1 if failures else 0


def read_case(file: Path) -> ProxyCase:
    """Read a case of the corpus."""
    return msgspec.json.decode(file.read_bytes(), type=ProxyCase)


def _shown(case: ProxyCase, reason: str) -> str:
    plays = "\n".join(f"  reply:   {''.join(play.pieces)[:1_500]!r}, then {play.end}" for play in case.plays)
    request = "".join(case.request)
    return f"seed {case.seed}, {case.variant}, {case.api}: {reason}\n  request: {request[:1_500]!r}\n{plays}"


def _options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.proxy.run", description=__doc__)
    parser.add_argument("--executions", type=int, default=10_000, help="how many cases (default 10,000)")
    parser.add_argument("--seed", type=int, help="the first case's seed (default: random)")
    parser.add_argument("--seconds", type=float, help="stop after so many seconds")
    parser.add_argument("--failures", type=int, default=5, help="stop after so many failures (default 5)")
    parser.add_argument("--replay", metavar="SEED|FILE", help="run one case again")
    return parser


if __name__ == "__main__":
    sys.exit(main())
