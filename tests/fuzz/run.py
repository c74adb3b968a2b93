"""The fuzzer's command: `python -m tests.fuzz.run --executions N [--seed S] [--seconds T] [--replay SEED]`.

Rule: prints each document that breaks a law, shrunk and with its seed, and then exits with status 1.
"""

import argparse
import concurrent.futures
import itertools
import multiprocessing
import os
import sys
import time

from tests.fuzz.judge import Failure, judge, shorten
from tests.fuzz.make import make

BATCH = 200


def main(arguments: list[str] | None = None) -> int:
    """Run the fuzzer with these command-line arguments."""
    options = _options().parse_args(arguments)
    if options.replay is not None:
        return _replay(options.replay)
    start = options.seed if options.seed is not None else int.from_bytes(os.urandom(4))
    began = time.monotonic()
    executions, failures = _fuzz(start, options.executions, options.seconds, options.workers, options.failures)
    seconds = time.monotonic() - began
    for failure in failures:
        print(f"\n{shorten(failure)}\n  replay:  python -m tests.fuzz.run --replay {failure.document.seed}")
    verdict = f"{len(failures)} broken laws" if failures else "no broken law"
    print(f"{executions:,} executions from seed {start} in {seconds:.1f} s ({executions / seconds:,.0f}/s): {verdict}")
    return 1 if failures else 0


def _fuzz(start: int, executions: int, seconds: float | None, workers: int, enough: int) -> tuple[int, list[Failure]]:
    """Judge batches of seeds in worker processes until the number of executions, seconds or failures is reached."""
    deadline = None if seconds is None else time.monotonic() + seconds
    done, failures = 0, list[Failure]()
    batches = itertools.count(start, BATCH)
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(workers, mp_context=context) as pool:
        running = {pool.submit(_batch, next(batches)) for _ in range(workers)}
        while running:
            ended, running = concurrent.futures.wait(running, return_when=concurrent.futures.FIRST_COMPLETED)
            for future in ended:
                count, found = future.result()
                done += count
                failures += found
            late = deadline is not None and time.monotonic() >= deadline
            if done < executions and not late and len(failures) < enough:
                running |= {pool.submit(_batch, next(batches)) for _ in ended}
    return done, failures[:enough]


def _batch(start: int) -> tuple[int, list[Failure]]:
    """Judge the documents of one batch of seeds."""
    results = [judge(make(seed)) for seed in range(start, start + BATCH)]
    return sum(count for count, _ in results), [failure for _, failure in results if failure is not None]


def _replay(seed: int) -> int:
    _, failure = judge(make(seed))
    if failure is None:
        print(f"seed {seed}: no broken law\n  text: {make(seed).text!r}")
        return 0
    print(f"{failure}\n\nshrunk:\n{shorten(failure)}")
    return 1


def _options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.run", description=__doc__)
    parser.add_argument("--executions", type=int, default=100_000, help="how many documents x splits (default 100,000)")
    parser.add_argument("--seed", type=int, help="the first document's seed (default: random)")
    parser.add_argument("--seconds", type=float, help="stop after so many seconds")
    parser.add_argument("--workers", type=int, default=2, help="processes (default 2)")
    parser.add_argument("--failures", type=int, default=5, help="stop after so many failures (default 5)")
    parser.add_argument("--replay", type=int, metavar="SEED", help="run one document again and shrink it")
    return parser


if __name__ == "__main__":
    sys.exit(main())
