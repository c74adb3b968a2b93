"""`fcshim inspect`: show the requests that `fcshim serve --record` wrote in the inspector's page."""

import argparse
import functools
from pathlib import Path

from fcshim.cli.flags import add_settings, read_settings
from fcshim.config import NOT_NAMED

_DESCRIPTION = """\
Show recorded requests in a browser: what each client sent, the prompt, the reply and how it
was read, and why a call is missing. With --upstream, a request can be sent again.
"""

_EPILOG = """\
examples:
  fcshim serve http://127.0.0.1:8080 --record records                 record
  fcshim inspect records                                              show all of them
  fcshim inspect records/20261128T*.jsonl                             some of them
  fcshim inspect records --upstream http://127.0.0.1:8080             and send them again

exit codes: 0 ended by a signal, 2 a path has no record, or a setting is wrong
"""

_SETTINGS = (
    "upstream", "upstream_api", "upstream_key", "host", "api_keys", "allowed_hosts",
    "inspect_port", "inspect_bytes", "log_level",
)  # fmt: skip


def configure_parser(parser: argparse.ArgumentParser) -> None:
    """Set the description and add the arguments of the command."""
    parser.description, parser.epilog = _DESCRIPTION, _EPILOG
    parser.add_argument("paths", nargs="+", metavar="PATH", type=Path, help="a record, or a folder of records")
    add_settings(parser, only=_SETTINGS)


def run(arguments: argparse.Namespace) -> int:
    """Serve the page until the process is stopped. Raises `ConfigError`."""
    arguments.inspect = True
    config = read_settings(arguments, defaults={"upstream": NOT_NAMED}, only=(*_SETTINGS, "inspect"))
    from fcshim.server.inspector.records import load_records  # noqa: PLC0415 - slow to import, after the settings
    from fcshim.server.run import serve_inspector  # noqa: PLC0415 - as above

    serve_inspector(config, functools.partial(load_records, arguments.paths))
    return 0
