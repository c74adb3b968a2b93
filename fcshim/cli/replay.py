"""`fcshim replay`: parse the replies that `fcshim serve --record` wrote again, and show what changed.

Rule: exit code 1 if the events of any record changed; records that cannot be parsed again are listed and do not change
the exit code.
"""

import argparse
import difflib
from pathlib import Path

from fcshim.cli.text import write_line
from fcshim.config import endpoint_url
from fcshim.errors import FcshimError

_DESCRIPTION = """\
Parse the replies of recorded requests again, and show what differs from what was recorded:
text, reasoning, calls and how the reply ended. Ids and the borders of chunks do not count.
"""

_EPILOG = """\
examples:
  fcshim serve http://127.0.0.1:8080 --record records                 record
  fcshim replay records/*.jsonl                                       with this version
  fcshim replay --dialect hermes records/*.jsonl                      in another dialect
  fcshim replay --against http://127.0.0.1:8181 records/*.jsonl       send the requests again

exit codes: 0 nothing changed, 1 something changed or failed, 2 a file is not a record
"""


def configure_parser(parser: argparse.ArgumentParser) -> None:
    """Set the description and add the arguments of the command."""
    parser.description, parser.epilog = _DESCRIPTION, _EPILOG
    parser.add_argument("files", nargs="+", metavar="FILE", type=Path, help="a record")
    parser.add_argument("--dialect", default="", metavar="D", help="read calls in this dialect instead")
    parser.add_argument(
        "--against", type=endpoint_url, metavar="URL", help="send each request to this server, and compare its reply"
    )


def run(arguments: argparse.Namespace) -> int:
    """Compare each record, and return the exit code. Raises `ConfigError` for a file that is not a record."""
    same = [_is_same(file, arguments.dialect, arguments.against) for file in arguments.files]
    records = "1 record" if len(same) == 1 else f"{len(same)} records"
    write_line(f"{records}, {same.count(False)} changed, {same.count(None)} not compared")
    return 1 if False in same else 0


def _is_same(file: Path, dialect: str, against: str | None) -> bool | None:
    """Compare one record; return None if it cannot be compared."""
    from fcshim.server import replay  # noqa: PLC0415 - slow to import

    record = replay.read_record(file)
    reason = record.why_not_replayed()
    if reason:
        write_line(f"{file}: not compared: {reason}")
        return None
    before = replay.summary(replay.recorded_events(record))
    try:
        events = replay.resent_events(record, against) if against else replay.replayed_events(record, dialect)
    except FcshimError as error:
        write_line(f"{file}: {error.message}")
        return False
    difference = list(difflib.unified_diff(before, replay.summary(events), "recorded", "now", lineterm=""))
    if difference:
        write_line(f"{file}: changed")
        for line in difference:
            write_line(f"  {line}")
    return not difference
