"""`fcshim eval`: measure how well a model calls tools, with cases whose answers are known.

Rule: the table or the JSON goes to stdout, everything else to stderr; exit code 0 means measured, whatever the rates.
"""

import argparse
import asyncio
import logging
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

import msgspec

from fcshim.cli.endpoint import SERVER_SETTINGS, add_url, read_endpoint_settings
from fcshim.cli.flags import add_settings
from fcshim.cli.text import write_data, write_error, write_line
from fcshim.config import Config
from fcshim.errors import ConfigError, UpstreamError
from fcshim.events import JSON

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import TaskID

    from fcshim.evaluate.plan import EvalPlan
    from fcshim.evaluate.result import Result
    from fcshim.evaluate.result_file import ResultFile

_DESCRIPTION = """\
Measure how well a model calls tools: several hundred requests with known answers, sent through
fcshim as `fcshim serve` with the same settings would send them. A case is right if the names and
arguments of the calls are exactly the expected ones, in any order, or if no call is expected and
none is made.

categories: simple, several_tools, parallel, multi_turn, missing_information, no_tool_fits,
many_tools, nested_arguments, languages, long_results; and, only if they are named, race, the
short cases of `fcshim doctor`, and commands, for models that cannot understand requests, such as
the demo model.

With --bfcl the cases are those of the Berkeley Function Calling Leaderboard (BFCL v4) with a single
turn, judged as its own checker does, and the categories simple_python, multiple, parallel,
parallel_multiple, live_simple, live_multiple, irrelevance and live_irrelevance.
"""

_EPILOG = """\
examples:
  fcshim eval http://127.0.0.1:8080                                     every category
  fcshim eval http://127.0.0.1:8080 --category parallel --limit 10      a quick look
  fcshim eval http://127.0.0.1:8080 --dialect hermes --dialect bare_json --dialect native
  fcshim eval http://127.0.0.1:8080 --output run.jsonl --plot run.svg   then, if it stopped: --resume
  fcshim eval http://127.0.0.1:8080 --bfcl bfcl_eval/data --limit 20    BFCL's cases instead of its own
  fcshim eval --config fcshim.toml --json | jq '.dialects[].total'
  fcshim eval --demo                                                    the embedded demo model

needs for --plot: pip install 'fcshim[plot]'; for --demo: pip install 'fcshim[demo]'
"""

_GROUPS = ("upstream", "tool calls", "prompt")
_EXCLUDED_SETTINGS = ("upstream", "dialect", *SERVER_SETTINGS)
"""Settings that are arguments of this command, or that only matter for a server."""
_INTERRUPTED = 130


def configure_parser(parser: argparse.ArgumentParser) -> None:
    """Set the description and add the arguments of the command."""
    parser.description, parser.epilog = _DESCRIPTION, _EPILOG
    add_url(parser)
    parser.add_argument(
        "--demo", action="store_true", help="use the embedded demo model, which only understands commands"
    )
    parser.add_argument("--model", default="", metavar="NAME", help="which model (default: the endpoint's first)")
    parser.add_argument(
        "--dialect", dest="dialects", action="append", default=[], metavar="NAME",
        help="format of the calls, or native for native tool calling; repeat it to compare",
    )  # fmt: skip
    _add_case_options(parser.add_argument_group("the cases"))
    _add_result_options(parser.add_argument_group("the results"))
    add_settings(parser, only=_GROUPS, without=_EXCLUDED_SETTINGS)


def _add_case_options(group: "argparse._ArgumentGroup") -> None:
    group.add_argument(
        "--category", dest="categories", action="append", default=[], metavar="NAME",
        help="only this category; may be given several times",
    )  # fmt: skip
    group.add_argument(
        "--bfcl", type=Path, metavar="DIR", help="the cases of BFCL v4: the folder `data` of the package bfcl-eval"
    )
    group.add_argument("--list", action="store_true", help="write the cases, as JSON lines, and send nothing")
    group.add_argument("--limit", type=_positive_int, metavar="N", help="at most N cases of each category")
    group.add_argument(
        "--concurrency", type=_positive_int, default=4, metavar="N", help="requests at once (default: 4)"
    )
    group.add_argument(
        "--timeout", type=_seconds, default=300.0, metavar="S", help="seconds for one reply (default: 300)"
    )
    group.add_argument("--temperature", type=float, default=0.0, metavar="T", help="sampling temperature (default: 0)")
    group.add_argument("--seed", type=int, default=1, metavar="N", help="sampling seed (default: 1)")
    group.add_argument(
        "--max-tokens",
        type=_positive_int,
        default=2048,
        metavar="N",
        help="maximum number of tokens in a reply (default: 2048)",
    )


def _add_result_options(group: "argparse._ArgumentGroup") -> None:
    group.add_argument(
        "--output", type=Path, metavar="FILE", help="write each result to FILE as it arrives: JSON lines"
    )
    group.add_argument("--resume", action="store_true", help="continue FILE: run only the cases without a result")
    group.add_argument("--misses", action="store_true", help="list the failed cases below the table")
    group.add_argument("--json", action="store_true", help="write the summary as a JSON object, not as a table")
    group.add_argument("--plot", type=Path, metavar="FILE", help="draw the rates: .svg or .png")


def run(arguments: argparse.Namespace) -> int:
    """Run the cases and show the rates. Raises `ConfigError` and `UpstreamError`."""
    if arguments.url and arguments.demo:
        raise ConfigError("--demo uses the demo model: expected that or a URL, not both")
    if arguments.bfcl and arguments.demo:
        raise ConfigError("--demo uses a model that only understands commands: expected a URL with --bfcl")
    config = read_endpoint_settings(arguments, needed=not (arguments.demo or arguments.list))
    from fcshim.evaluate.plot import check_plot  # noqa: PLC0415 - after the settings are checked

    if arguments.resume and not arguments.output:
        raise ConfigError("--resume needs --output: the file to continue")
    if arguments.plot:
        logging.getLogger("matplotlib").setLevel(logging.ERROR)  # it logs a warning while it builds its font cache
        check_plot(arguments.plot)
    plan = _plan(arguments, config)
    if arguments.list:
        for case in plan.cases():
            write_data(msgspec.json.encode(case).decode())
        return 0
    return asyncio.run(_run(plan, arguments))


def _plan(arguments: argparse.Namespace, config: Config) -> "EvalPlan":
    from fcshim.evaluate.plan import EvalPlan  # noqa: PLC0415 - see above
    from fcshim.evaluate.suite import COMMANDS  # noqa: PLC0415 - see above

    plan = EvalPlan(
        config=config,
        model=arguments.model,
        dialects=tuple(arguments.dialects),
        categories=tuple(arguments.categories) or ((COMMANDS,) if arguments.demo else ()),
        bfcl=arguments.bfcl,
        limit=arguments.limit,
        sampling={name: getattr(arguments, name) for name in ("temperature", "seed", "max_tokens")},
        concurrency=arguments.concurrency,
        timeout=arguments.timeout,
    )
    plan.check()
    return plan


async def _run(plan: "EvalPlan", arguments: argparse.Namespace) -> int:
    from fcshim.evaluate.result_file import ResultFile  # noqa: PLC0415 - see above
    from fcshim.evaluate.run import resolve_model  # noqa: PLC0415 - see above

    async with _with_endpoint(plan, demo=arguments.demo) as started:
        resolved = await resolve_model(started)
        # The demo model gets a free port for each run; the results do not depend on it.
        terms = {**resolved.terms(), "upstream": "demo"} if arguments.demo else resolved.terms()
        with ResultFile(arguments.output, terms, resume=arguments.resume) as result_file:
            code = await _measure(resolved, result_file)
            _show(resolved, result_file, terms, arguments)
    return code


@asynccontextmanager
async def _with_endpoint(plan: "EvalPlan", *, demo: bool) -> AsyncIterator["EvalPlan"]:
    """Yield the plan, with the URL of the demo model if that is asked for; it runs until the context ends."""
    if not demo:
        yield plan
        return
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # matrices this small are slower on several threads
    from fcshim.demo.gguf_file import require_packages  # noqa: PLC0415 - see above

    require_packages("numpy", "gguf")
    from fcshim.demo.serving import serve_model  # noqa: PLC0415 - needs optional packages

    async with serve_model() as served:
        yield msgspec.structs.replace(plan, config=msgspec.structs.replace(plan.config, upstream=served.url))


async def _measure(plan: "EvalPlan", result_file: "ResultFile") -> int:
    """Run the plan, with its progress on stderr. Results before ctrl-C or a failure are still shown."""
    from rich.console import Console  # noqa: PLC0415 - see above

    from fcshim.evaluate.run import run_plan  # noqa: PLC0415 - see above

    with EvalProgress(plan, result_file, Console(stderr=True)) as progress:
        try:
            await run_plan(plan, result_file, progress.add)
        except asyncio.CancelledError:  # `asyncio.run` turns the first ctrl-C into a cancellation
            sys.stderr.write("fcshim: stopped; these are the results so far\n")
            return _INTERRUPTED
        except UpstreamError as error:
            if not result_file.results:
                raise
            write_error(f"fcshim: {error.message}")
            return 1
    return 0


class EvalProgress:
    """A bar per dialect with the number of right results, drawn on a terminal while the context manager is entered.

    Results of an earlier run are not counted.
    """

    def __init__(self, plan: "EvalPlan", result_file: "ResultFile", console: "Console") -> None:
        from rich import progress  # noqa: PLC0415 - see above

        columns = (
            progress.TextColumn("{task.description}"),
            progress.BarColumn(),
            progress.MofNCompleteColumn(),
            progress.TextColumn("{task.fields[status]}"),
        )
        self._bars = progress.Progress(
            *columns, progress.TimeRemainingColumn(), console=console, disable=not console.is_terminal
        )
        self._right: dict[str, int] = {}
        self._tasks: dict[str, TaskID] = {}
        cases = plan.cases()
        for dialect in plan.labels():
            waiting = sum(not result_file.has(dialect, case.id) for case in cases)
            self._right[dialect] = 0
            self._tasks[dialect] = self._bars.add_task(dialect, total=waiting, status="")

    def __enter__(self) -> Self:
        self._bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bars.stop()

    def add(self, result: "Result") -> None:
        """Count one result."""
        self._right[result.dialect] += result.right
        task = self._tasks[result.dialect]
        self._bars.update(task, advance=1, status=f"{self._right[result.dialect]} right")


def _show(plan: "EvalPlan", result_file: "ResultFile", terms: dict[str, JSON], arguments: argparse.Namespace) -> None:
    from fcshim.evaluate.plot import write_plot  # noqa: PLC0415 - see above
    from fcshim.evaluate.run import results_of  # noqa: PLC0415 - see above
    from fcshim.evaluate.summary import summarise  # noqa: PLC0415 - see above

    results = results_of(plan, result_file)
    summaries = summarise(results)
    if arguments.json:
        write_data(msgspec.json.encode({"terms": terms, "dialects": summaries}).decode())
    else:
        from rich.console import Console  # noqa: PLC0415 - see above

        from fcshim.evaluate.failures import describe_failures  # noqa: PLC0415 - see above
        from fcshim.evaluate.table import make_table  # noqa: PLC0415 - see above

        # A pipe has no width, and rich would assume 80 columns and cut the table.
        width = None if sys.stdout.isatty() else 30 + 40 * len(summaries)
        Console(width=width, highlight=False, emoji=False).print(make_table(summaries))
        for line in describe_failures(results, plan.cases()) if arguments.misses else ():
            write_line(line)
    if arguments.plot and summaries:
        write_plot(summaries, arguments.plot, title=plan.model)


def _positive_int(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a whole number from 1, got {text!r}")
    return int(text)


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds <= 86_400:
        raise argparse.ArgumentTypeError(f"expected seconds, more than 0, got {text!r}")
    return seconds
