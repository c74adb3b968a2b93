"""`fcshim dialects`: the formats in which calls can be written.

Rule: everything shown comes from the dialect table and its templates.
Neighbours: `parse.dialect` is the table, `prompt.render` writes the example.
"""

import argparse
import json
import textwrap

from fcshim.cli.text import write_line
from fcshim.parse.dialects import DIALECTS, Dialect
from fcshim.prompt.render import render_call

_DESCRIPTION = """\
List the dialects: the text formats in which a model is asked to write its calls.
Each with its name (for --dialect), what it is, one call as the model would write it, and what of a
call must wait until more of it was written, where that is so.
"""

_EPILOG = """\
examples:
  fcshim dialects
  fcshim dialects --json | jq -r '.[].name'
"""


def configure_parser(parser: argparse.ArgumentParser) -> None:
    """Give the parser the command's description and arguments."""
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
