"""`fcshim doctor`: find out how an endpoint's model is best asked for calls, and write the settings for it.

Rule: exit code 0 where calls can be had, 1 where not; a file that is there is not overwritten unasked.
Neighbours: `evaluate.doctor` examines, `flags` has the settings of the endpoint.
"""

import argparse
import asyncio
import sys
from pathlib import Path

import msgspec

from fcshim.cli.flags import add_settings, endpoint_url, read_settings
from fcshim.cli.text import write_line
from fcshim.config import Config
from fcshim.errors import ConfigError

_DESCRIPTION = """\
Examine an endpoint: which server and API it is, what its prompts may hold, whether it calls
tools by itself, what holds its model to a form, how its streams come. Then asks the same cases
in every dialect that may suit the model (--quick leaves that out). Says what was seen and what
follows, and writes the settings that `fcshim serve --config` then uses.
"""

_EPILOG = """\
examples:
  fcshim doctor http://127.0.0.1:8080 --quick
  fcshim doctor http://127.0.0.1:11434 --model qwen3:8b --write fcshim.toml
  fcshim doctor http://127.0.0.1:8080 --json | jq .findings
  fcshim serve --config fcshim.toml

exit codes: 0 calls can be had, 1 they cannot (or nobody is there), 2 a mistake in arguments
"""

_GROUPS = ("upstream", "time")
_EXCLUDED_SETTINGS = ("upstream", "forward_client_key", "ping", "first_ping", "drain_timeout")
"""Settings that are arguments here, or mean nothing where there are no clients."""


def configure_parser(parser: argparse.ArgumentParser) -> None:
    """Give the parser the command's description and arguments."""
    parser.description, parser.epilog = _DESCRIPTION, _EPILOG
    parser.add_argument("url", metavar="URL", help="the endpoint, with or without /v1")
    parser.add_argument("--model", metavar="NAME", default="", help="the model to examine [default: the first listed]")
    parser.add_argument("--quick", action="store_true", help="only look: no cases in several dialects")
    parser.add_argument("--cases", metavar="N", type=_positive_int, help="cases for each dialect [default: 24]")
    parser.add_argument(
        "--category", metavar="NAME", action="append", default=[], help="take cases of this category (repeatable)"
    )
    parser.add_argument("--write", metavar="FILE", help="write the settings there, as TOML, if calls can be had")
    parser.add_argument("--force", action="store_true", help="replace a FILE that is there already")
    parser.add_argument("--json", action="store_true", help="write everything as one JSON object")
    add_settings(parser, only=_GROUPS, without=_EXCLUDED_SETTINGS)


def run(arguments: argparse.Namespace) -> int:
    """Examine, report, write. Raises `ConfigError` and `UpstreamError`."""
    arguments.upstream = endpoint_url(arguments.url)
    config = read_settings(arguments)
    named = hasattr(arguments, "upstream_api") or config.upstream_api != Config().upstream_api
    from fcshim.cli.doctor_report import make_report, not_written_message  # noqa: PLC0415 - a mistake in the settings is told before this
    from fcshim.evaluate.doctor import DEFAULT_CASES, DoctorOptions, diagnose, format_settings  # noqa: PLC0415 - see above
    from fcshim.evaluate.settings_file import check_writable, save_settings  # noqa: PLC0415 - see above

    file = Path(arguments.write) if arguments.write else None
    if file is not None:
        check_writable(file, replace=arguments.force)
    report = make_report(sys.stdout, silent=arguments.json)
    order = DoctorOptions(
        api=config.upstream_api if named else None,
        model=arguments.model,
        cases=0 if arguments.quick else arguments.cases or DEFAULT_CASES,
        categories=tuple(arguments.category),
    )
    with report.show_activity():
        diagnosis = asyncio.run(diagnose(config, order, report.callbacks))
    if arguments.json:
        write_line(msgspec.json.format(msgspec.json.encode(diagnosis), indent=2).decode())
    if file is not None and diagnosis.works:
        try:
            save_settings(format_settings(diagnosis), file, replace=arguments.force)
        except ConfigError:
            report.finish(diagnosis, None)  # what took minutes to find out is shown instead
            raise
    report.finish(diagnosis, file)
    if file is not None and arguments.json and not diagnosis.works:
        sys.stderr.write(f"fcshim: no calls can be had: {not_written_message(file)}\n")
    return 0 if diagnosis.works else 1


def _positive_int(text: str) -> int:
    """Read a number of cases."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a whole number from 1, got {text!r}; --quick asks no cases")
    return int(text)
