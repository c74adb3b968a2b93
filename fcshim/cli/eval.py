"""`fcshim eval`: how well a model calls, by cases with known answers.

Rule: stdout has the table or the JSON, stderr everything else; exit code 0 means measured, whatever the rates.
Neighbours: `evaluate` does the work; `flags` has the settings, which are the proxy's.
"""

import argparse
import asyncio
import logging
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from fcshim.cli.flags import add_settings, endpoint_url, read_settings
from fcshim.cli.text import write_line
from fcshim.config import Config
from fcshim.errors import ConfigError, UpstreamError
from fcshim.events import JSON

if TYPE_CHECKING:
    from fcshim.evaluate.plan import EvalPlan
    from fcshim.evaluate.result_file import ResultFile

_DESCRIPTION = """\
Measure how well a model calls tools: several hundred requests with known answers, asked through
fcshim as `fcshim serve` with the same settings would. A case is right where the calls' names and
arguments are exactly those expected, in any order; or where it rightly calls nothing.

categories: simple, several_tools, parallel, multi_turn, missing_information, no_tool_fits,
many_tools, nested_arguments, languages, long_results; and, only where it is named, commands, for
models that cannot read requests, such as the demo's.
"""

_EPILOG = """\
examples:
  fcshim eval http://127.0.0.1:8080                                     every category
  fcshim eval http://127.0.0.1:8080 --category parallel --limit 10      a glance
  fcshim eval http://127.0.0.1:8080 --dialect hermes --dialect bare_json --dialect native
  fcshim eval http://127.0.0.1:8080 --output run.jsonl --plot run.svg   then, if it stopped: --resume
  fcshim eval --config fcshim.toml --json | jq '.dialects[].total'
  fcshim eval --demo                                                    the tiny model of the demo

needs for --plot: pip install 'fcshim[plot]'; for --demo: pip install 'fcshim[demo]'
"""

_GROUPS = ("upstream", "tool calls", "prompt")
_EXCLUDED_SETTINGS = ("upstream", "dialect", "forward_client_key")
"""Settings that are arguments here, or mean nothing where there are no clients."""
_INTERRUPTED = 130


def configure_parser(parser: argparse.ArgumentParser) -> None:
    """Give the parser the command's description and arguments."""
    parser.description, parser.epilog = _DESCRIPTION, _EPILOG
    parser.add_argument("url", metavar="URL", nargs="?", help="the endpoint, with or without /v1 [FCSHIM_UPSTREAM]")
    parser.add_argument("--demo", action="store_true", help="ask the tiny model of the demo, which takes only commands")
    parser.add_argument("--model", default="", metavar="NAME", help="which model (default: the endpoint's first)")
    parser.add_argument(
        "--dialect", dest="dialects", action="append", default=[], metavar="NAME",
        help="format of the calls, or native for the endpoint's own tools; several are compared",
    )  # fmt: skip
    cases = parser.add_argument_group("the cases")
    cases.add_argument(
        "--category", dest="categories", action="append", default=[], metavar="NAME",
        help="only this category; may be given several times",
    )  # fmt: skip
    cases.add_argument("--list", action="store_true", help="write the cases, as JSON lines, and ask nothing")
    cases.add_argument("--limit", type=_positive_int, metavar="N", help="at most so many cases of each category")
    cases.add_argument(
        "--concurrency", type=_positive_int, default=4, metavar="N", help="requests at once (default: 4)"
    )
    cases.add_argument("--timeout", type=_seconds, default=300.0, metavar="S", help="for one reply (default: 300)")
    cases.add_argument("--temperature", type=float, default=0.0, metavar="T", help="of the sampling (default: 0)")
    cases.add_argument("--seed", type=int, default=1, metavar="N", help="of the sampling (default: 1)")
    cases.add_argument("--max-tokens", type=_positive_int, default=2048, metavar="N", help="of a reply (default: 2048)")
    results = parser.add_argument_group("the results")
    results.add_argument("--output", type=Path, metavar="FILE", help="write each result there as it comes: JSON lines")
    results.add_argument("--resume", action="store_true", help="go on with FILE: ask only what it does not hold yet")
    results.add_argument("--misses", action="store_true", help="list below the table what was not right")
    results.add_argument("--json", action="store_true", help="write the summary as a JSON object, not as a table")
    results.add_argument("--plot", type=Path, metavar="FILE", help="draw it: .svg or .png")
    add_settings(parser, only=_GROUPS, without=_EXCLUDED_SETTINGS)


def run(arguments: argparse.Namespace) -> int:
    """Measure and show. Raises `ConfigError` and `UpstreamError`."""
    if arguments.url and arguments.demo:
        raise ConfigError("--demo asks the demo's model: expected that or a URL, not both")
    if arguments.url:
        arguments.upstream = endpoint_url(arguments.url)
    config = read_settings(arguments)
    from fcshim.evaluate.plot import check_plot  # noqa: PLC0415 - a mistake in the settings is told before these

    if arguments.resume and not arguments.output:
        raise ConfigError("--resume needs --output: the file to go on with")
    if arguments.plot:
        logging.getLogger("matplotlib").setLevel(
            logging.ERROR
        )  # it tells of its font cache, which is nobody's business
        check_plot(arguments.plot)
    plan = _plan(arguments, config)
    if arguments.list:
        for case in plan.cases():
            write_line(msgspec.json.encode(case).decode())
        return 0
    return asyncio.run(_run(plan, arguments))


def _plan(arguments: argparse.Namespace, config: Config) -> "EvalPlan":
    from fcshim.evaluate.plan import EvalPlan  # noqa: PLC0415 - see above
    from fcshim.evaluate.suite import COMMANDS, DEFAULT_CATEGORIES  # noqa: PLC0415 - see above

    plan = EvalPlan(
        config=config,
        model=arguments.model,
        dialects=tuple(arguments.dialects),
        categories=tuple(arguments.categories) or ((COMMANDS,) if arguments.demo else DEFAULT_CATEGORIES),
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

    async with _with_endpoint(plan, demo=arguments.demo) as reached:
        settled = await resolve_model(reached)
        # The demo's model is the same behind whatever port it has today.
        terms = {**settled.terms(), "upstream": "demo"} if arguments.demo else settled.terms()
        with ResultFile(arguments.output, terms, resume=arguments.resume) as record:
            code = await _measure(settled, record)
            _show(settled, record, terms, arguments)
    return code


@asynccontextmanager
async def _with_endpoint(plan: "EvalPlan", *, demo: bool) -> AsyncIterator["EvalPlan"]:
    """Give the plan with an endpoint that is there: the demo's is started for it."""
    if not demo:
        yield plan
        return
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # matrices this small are slower on several threads
    from fcshim.demo.gguf_file import require_packages  # noqa: PLC0415 - see above

    require_packages("numpy", "gguf")
    from fcshim.demo.serving import serve_model  # noqa: PLC0415 - needs optional packages

    async with serve_model() as served:
        yield msgspec.structs.replace(plan, config=msgspec.structs.replace(plan.config, upstream=served.url))


async def _measure(plan: "EvalPlan", record: "ResultFile") -> int:
    """Run the plan, with its progress on stderr; what was measured before ctrl-C or a failure stays to be shown."""
    from rich.console import Console  # noqa: PLC0415 - see above

    from fcshim.cli.eval_progress import EvalProgress  # noqa: PLC0415 - see above
    from fcshim.evaluate.run import run_plan as ask  # noqa: PLC0415 - see above

    with EvalProgress(plan, record, Console(stderr=True)) as progress:
        try:
            await ask(plan, record, progress.add)
        except asyncio.CancelledError:  # what `asyncio.run` makes of the first ctrl-C
            sys.stderr.write("fcshim: stopped; this is what there is so far\n")
            return _INTERRUPTED
        except UpstreamError as error:
            if not record.results:
                raise
            sys.stderr.write(f"fcshim: {error.message}\n")
            return 1
    return 0


def _show(plan: "EvalPlan", record: "ResultFile", terms: dict[str, JSON], arguments: argparse.Namespace) -> None:
    from fcshim.evaluate.plot import write_plot  # noqa: PLC0415 - see above
    from fcshim.evaluate.run import results_of  # noqa: PLC0415 - see above
    from fcshim.evaluate.summary import summarise  # noqa: PLC0415 - see above

    results = results_of(plan, record)
    summaries = summarise(results)
    if arguments.json:
        write_line(msgspec.json.encode({"terms": terms, "dialects": summaries}).decode())
    else:
        from rich.console import Console  # noqa: PLC0415 - see above

        from fcshim.evaluate.failures import describe_failures  # noqa: PLC0415 - see above
        from fcshim.evaluate.table import make_table  # noqa: PLC0415 - see above

        # A pipe has no width of its own; the table may have the one that it needs.
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
