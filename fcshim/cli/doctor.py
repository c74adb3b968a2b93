"""`fcshim doctor`: find the settings with which an endpoint's model makes the best tool calls, and write them.

Rule: exit code 0 if the model can make tool calls, 1 if not; an existing file is overwritten only with `--force`. An
interruption (Ctrl-C) ends the search: what is known so far is reported and saved, and the exit code is 130.
"""

import argparse
import asyncio
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from fcshim.cli.endpoint import SERVER_SETTINGS, add_url, read_endpoint_settings
from fcshim.cli.flags import add_settings
from fcshim.cli.text import write_data, write_error
from fcshim.config import Config, check_name
from fcshim.errors import ConfigError

if TYPE_CHECKING:
    from fcshim.evaluate.doctor import Diagnosis, DoctorOptions

_DESCRIPTION = """\
Examine an endpoint: which server and API it is, what its prompts may contain, whether it has
native tool calling, which constraints its model obeys, how it streams. Then let the settings
that may suit the model race each other over short cases: those that are behind drop out, until
the best is found or the time is over (about eight minutes on a CPU; with --quick a minute and a
half). Ctrl-C ends it at any moment, with the best so far.

The result is kept for the model, and used by `fcshim serve` and `fcshim chat` and by `Client`;
--write also writes a file of settings for `fcshim serve --config`.
"""

_EPILOG = """\
examples:
  fcshim doctor http://127.0.0.1:8080 --quick
  fcshim doctor http://127.0.0.1:8080 --quick --budget 30
  fcshim doctor http://127.0.0.1:11434 --model qwen3:8b --write fcshim.toml
  fcshim doctor http://127.0.0.1:8080 --section local --write fcshim.toml
  fcshim doctor http://127.0.0.1:11434 --quick --measure-context 120
  fcshim doctor http://127.0.0.1:8080 --json | jq .candidates
  fcshim serve --config fcshim.toml

exit codes: 0 the model can make tool calls, 1 it cannot or the endpoint fails, 2 wrong arguments,
130 interrupted
"""

_GROUPS = ("upstream", "time")
_EXCLUDED_SETTINGS = ("upstream", *SERVER_SETTINGS)
"""Settings that are arguments of this command, or that only matter for a server."""
_INTERRUPTED = 130
_MAX_BUDGET = 86_400


def configure_parser(parser: argparse.ArgumentParser) -> None:
    """Set the description and add the arguments of the command."""
    parser.description, parser.epilog = _DESCRIPTION, _EPILOG
    add_url(parser)
    parser.add_argument("--model", metavar="NAME", default="", help="the model to examine (default: the first listed)")
    parser.add_argument("--quick", action="store_true", help="only the most important probes, and a short race")
    parser.add_argument(
        "--budget",
        metavar="SECONDS",
        type=_positive_number,
        help="time for the race, after which the best so far is the result (default: 420, with --quick 80)",
    )
    parser.add_argument(
        "--measure-context",
        metavar="SECONDS",
        type=_positive_number,
        default=0.0,
        help="measure the context length with long prompts, for at most SECONDS (default: believe the server)",
    )
    parser.add_argument("--cases", metavar="N", type=_positive_int, help="at most so many cases for each candidate")
    parser.add_argument(
        "--category", metavar="NAME", action="append", default=[], help="use cases of this category (repeatable)"
    )
    parser.add_argument(
        "--write", metavar="FILE", help="write the settings to FILE, as TOML, if the model can make tool calls"
    )
    parser.add_argument(
        "--section", metavar="NAME", help="write into the section [upstreams.NAME] of FILE, and keep the rest of it"
    )
    parser.add_argument("--force", action="store_true", help="replace FILE if it exists")
    parser.add_argument("--json", action="store_true", help="write everything as one JSON object")
    add_settings(parser, only=_GROUPS, without=_EXCLUDED_SETTINGS)


def run(arguments: argparse.Namespace) -> int:
    """Examine the endpoint, report, and keep the settings. Raises `ConfigError` and `UpstreamError`."""
    config = read_endpoint_settings(arguments)
    from fcshim.cli.doctor_report import make_report, not_written_message  # noqa: PLC0415 - after the settings are checked
    from fcshim.evaluate.doctor import Doctor  # noqa: PLC0415 - see above

    file = Path(arguments.write) if arguments.write else None
    _check_output(file, arguments.section, replace=arguments.force)
    report = make_report(sys.stdout, silent=arguments.json)
    doctor = Doctor(config, _options(arguments, config), report.callbacks)
    interrupted = False
    try:
        with report.show_activity():
            asyncio.run(doctor.run())
    except KeyboardInterrupt:
        if not doctor.connected:
            raise
        interrupted = True
    doctor.keep(datetime.now(UTC).date().isoformat())
    diagnosis = doctor.diagnosis()
    if arguments.json:
        write_data(msgspec.json.format(msgspec.json.encode(diagnosis), indent=2).decode())
    if file is not None and diagnosis.works:
        try:
            _save(diagnosis, file, arguments.section, replace=arguments.force)
        except ConfigError:
            report.finish(diagnosis, None)  # finding the settings took minutes: show them if they cannot be saved
            raise
    report.finish(diagnosis, file)
    if file is not None and arguments.json and not diagnosis.works:
        write_error(f"fcshim: the model cannot make tool calls: {not_written_message(file)}")
    return _INTERRUPTED if interrupted else 0 if diagnosis.works else 1


def _options(arguments: argparse.Namespace, config: Config) -> "DoctorOptions":
    from fcshim.evaluate.doctor import DoctorOptions  # noqa: PLC0415 - see above

    is_api_named = hasattr(arguments, "upstream_api") or config.upstream_api != Config().upstream_api
    return DoctorOptions(
        api=config.upstream_api if is_api_named else None,
        model=arguments.model,
        quick=arguments.quick,
        budget=arguments.budget,
        cases=arguments.cases,
        categories=tuple(arguments.category),
        context_seconds=arguments.measure_context,
    )


def _check_output(file: Path | None, section: str | None, *, replace: bool) -> None:
    """Check that the settings can be written, before the race, which takes minutes. Raises `ConfigError`."""
    from fcshim.evaluate.section_file import edit_section, read_existing  # noqa: PLC0415 - see above
    from fcshim.evaluate.settings_file import check_writable  # noqa: PLC0415 - see above

    if file is not None:
        check_writable(file, replace=replace or section is not None)
    if section is None:
        return
    if file is None:
        raise ConfigError("--section: expected the file, by --write FILE")
    check_name(section, "--section")
    edit_section(read_existing(file), section, (), "")


def _save(diagnosis: "Diagnosis", file: Path, section: str | None, *, replace: bool) -> None:
    """Write the settings to the file, or into a section of it. Raises `ConfigError`."""
    from fcshim.evaluate.doctor import format_settings  # noqa: PLC0415 - see above
    from fcshim.evaluate.section_file import edit_section, read_existing  # noqa: PLC0415 - see above
    from fcshim.evaluate.settings_file import save_settings  # noqa: PLC0415 - see above

    if section is None:
        save_settings(format_settings(diagnosis), file, replace=replace)
    else:
        edited = edit_section(read_existing(file), section, diagnosis.choices, diagnosis.model)
        save_settings(edited, file, replace=True)


def _positive_int(text: str) -> int:
    """Read a number of cases."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a whole number from 1, got {text!r}")
    return int(text)


def _positive_number(text: str) -> float:
    """Read a number of seconds."""
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds <= _MAX_BUDGET:
        raise argparse.ArgumentTypeError(f"expected seconds, from more than 0 to {_MAX_BUDGET}, got {text!r}")
    return seconds
