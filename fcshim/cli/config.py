"""`fcshim config`: check a file of settings; write its JSON Schema.

Rule: exit code 1 if the file has mistakes, one per line on stdout.
"""

import argparse
import os
from pathlib import Path

import msgspec

from fcshim.cli.text import help_formatter, write_data, write_line
from fcshim.config import check_file, config_schema

_DESCRIPTION = """\
Check a file of settings (`--config`, FCSHIM_CONFIG), or write the JSON Schema of such files, with
which editors complete and check them.
"""

_EPILOG = """\
examples:
  fcshim config check fcshim.toml
  fcshim config schema > fcshim.schema.json     then, in the file: #:schema ./fcshim.schema.json

exit codes: 0 the file is valid, 1 it has mistakes, 2 it cannot be read
"""


def configure_parser(parser: argparse.ArgumentParser) -> None:
    """Set the description and add the arguments of the command."""
    parser.description, parser.epilog = _DESCRIPTION, _EPILOG
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    about = "list the mistakes of a file, with their lines"
    checking = actions.add_parser("check", help=about, description=about, formatter_class=help_formatter)
    checking.add_argument("file", metavar="FILE", type=Path, help="TOML file of settings")
    about = "write the JSON Schema of the file"
    actions.add_parser("schema", help=about, description=about, formatter_class=help_formatter)


def run(arguments: argparse.Namespace) -> int:
    """Run the action and return its exit code. Raises `ConfigError` for a file that cannot be read."""
    if arguments.action == "schema":
        write_data(msgspec.json.format(msgspec.json.encode(config_schema()), indent=2).decode())
        return 0
    mistakes = check_file(arguments.file, os.environ)
    for mistake in mistakes or [f"{arguments.file}: valid"]:
        write_line(mistake)
    return 1 if mistakes else 0
