"""`fcshim dialects`: list the text formats of calls.

Rule: everything shown comes from the dialect table and its templates.
"""

import argparse
import json
import textwrap

from fcshim.cli.text import write_line
from fcshim.parse.dialects import DIALECTS, Dialect
from fcshim.prompt.render import render_call

_DESCRIPTION = """\
List the dialects: the text formats in which a model is asked to write its calls. Each has a name
(for --dialect), a summary, an example of one call, and, where it applies, which part of a call
cannot be streamed until more of it has been written.
"""

_EPILOG = """\
examples:
  fcshim dialects
  fcshim dialects --json | jq -r '.[].name'
"""


def configure_parser(parser: argparse.ArgumentParser) -> None:
    """Set the description and add the arguments of the command."""
    parser.description, parser.epilog = _DESCRIPTION, _EPILOG
    parser.add_argument("--json", action="store_true", help="write a JSON array of {name, summary, waits, example}")


def run(arguments: argparse.Namespace) -> int:
    """Write the table."""
    if arguments.json:
        rows = [
            {"name": row.name, "summary": row.summary, "waits": row.waits, "example": _example(row)}
            for row in DIALECTS.values()
        ]
        write_line(json.dumps(rows, ensure_ascii=False, indent=2))
        return 0
    for row in DIALECTS.values():
        waits = f"\n  (waits: {row.waits})" if row.waits else ""
        write_line(f"{row.name}\n  {row.summary}{waits}\n\n{textwrap.indent(_example(row), '      ')}\n")
    return 0


def _example(dialect: Dialect) -> str:
    return render_call(dialect, "get_weather", '{"city": "Paris"}').strip("\n")
