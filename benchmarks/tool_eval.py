"""The tasks of tool-eval-bench with a real model: through llama-server's own tool calling, and through fcshim.

A task is a conversation with tools whose results are fixed; the suite judges the calls and the answer, 2 points each.

    python -m tests.conformance.environment
    llama-server --model qwen2.5-coder-1.5b.gguf --jinja --port 8080 --ctx-size 16384
    python -m benchmarks.tool_eval http://127.0.0.1:8080 --model qwen-1.5b [--short] [--way native] [--json FILE]
"""

import argparse
import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec

from benchmarks.models.table import format_markdown
from tests.conformance.environment import TOOL_EVAL
from tests.conformance.tool_eval import Scores, run_tool_eval
from tests.server.proxy import running_proxy

WAYS = ("native", "fcshim")
OPTIONS = ("--temperature", "0", "--seed", "1", "--timeout", "900")
_LIMIT = 24 * 3600.0
"""Seconds that the proxy may run."""


@asynccontextmanager
async def endpoint(way: str, upstream: str) -> AsyncIterator[str]:
    """Yield the URL that the suite gets: the server itself, or fcshim in front of it with its defaults."""
    if way == "native":
        yield upstream
    else:
        async with running_proxy(upstream, limit=_LIMIT) as url:
            yield url


async def measure(way: str, upstream: str, model: str, options: list[str]) -> Scores:
    """Run the suite in one way. Exits with what the suite printed if it made no report."""
    async with endpoint(way, upstream) as url:
        scores, output = await run_tool_eval(url, model, *OPTIONS, *options)
    if scores is None:
        sys.exit(f"{way}: tool-eval-bench made no report:\n{output[-4000:]}")
    return scores


def table(found: dict[str, Scores]) -> str:
    """Return the points by category and way as a table in Markdown."""
    labels = [category.label for category in next(iter(found.values())).category_scores]
    points = {
        way: {each.label: f"{each.earned} of {each.max}" for each in s.category_scores} for way, s in found.items()
    }
    rows = [(label, *(points[way].get(label, "") for way in found)) for label in labels]
    sums = [f"{scores.total_points} of {scores.max_points}" for scores in found.values()]
    return format_markdown(("category", *found), [*rows, ("all", *sums)])


def main() -> int:
    """Run the suite in each way and print the points."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("upstream", metavar="URL", help="a llama-server with --jinja")
    parser.add_argument("--model", required=True)
    parser.add_argument("--short", action="store_true", help="the suite's 15 core scenarios")
    parser.add_argument("--way", action="append", choices=WAYS, help="default: both")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the scores")
    options = parser.parse_args()
    if not TOOL_EVAL.exists():
        parser.error("tool-eval-bench is not installed: python -m tests.conformance.environment")
    selection = ["--short"] if options.short else []
    found = {way: asyncio.run(measure(way, options.upstream, options.model, selection)) for way in options.way or WAYS}
    print(table(found))
    if options.json:
        options.json.write_bytes(msgspec.json.format(msgspec.json.encode(found)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
