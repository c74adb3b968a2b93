"""`fcshim parse`: a model's text in, events out.

Rule: what is read is fed at once, so that it works in the middle of a pipe; one event is one line of JSON.
Neighbours: `parse.stream` does the parsing; `event_to_dict` describes the lines.
"""

import argparse
import codecs
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from io import BufferedReader
from pathlib import Path
from typing import get_args

import msgspec

from fcshim.cli.text import STDIN
from fcshim.cli.tools_file import load_tools
from fcshim.errors import ConfigError
from fcshim.events import Event, StopReason
from fcshim.parse.dialects import AUTO, DIALECTS
from fcshim.parse.stream import StreamParser
from fcshim.prompt.dialect_folder import find_dialect

_DESCRIPTION = """\
Read the calls out of a model's text and write every event as one line of JSON.
The text is read as it comes (UTF-8; what is not becomes U+FFFD), from FILE or from stdin.
"""

_EPILOG = """\
examples:
  fcshim parse reply.txt
  fcshim parse --tools tools.json --chunk 3 reply.txt      as if three characters came at a time
  some-model | fcshim parse | jq -c 'select(.type == "tool_call_end")'

events: text, reasoning, tool_call_start, tool_call_chunk, tool_call_end, stop
"""

_READ_SIZE = 65_536


def configure_parser(parser: argparse.ArgumentParser) -> None:
    """Give the parser the command's description and arguments."""
    parser.description, parser.epilog = _DESCRIPTION, _EPILOG
    parser.add_argument("file", nargs="?", default=STDIN, metavar="FILE", help="the text (default: stdin)")
    reading = parser.add_argument_group("how calls are read")
    reading.add_argument(
        "--dialect",
        default="function_call",
        metavar="D",
        help=f"format of the calls: a folder, auto (all of them at once), or one of {', '.join(DIALECTS)}",
    )
    reading.add_argument("--tools", metavar="FILE", help="JSON file of the offered tools (default: any name is a call)")
    reading.add_argument("--rescue", action="store_true", help="take calls in other formats too, for offered tools")
    reading.add_argument(
        "--reasoning",
        choices=("ignore", "recover", "promote"),
        default="ignore",
        help="a call inside reasoning: never; only as the last thing in reasoning that stays open; always",
    )
    reading.add_argument(
        "--arguments",
        choices=("stream", "validated"),
        default="stream",
        help="arguments as they are written, or each whole and checked",
    )
    reading.add_argument(
        "--in-reasoning",
        default="",
        metavar="TAG",
        help="the text begins inside the reasoning that this tag (<think>) opened",
    )
    coming = parser.add_argument_group("how the text comes")
    coming.add_argument("--chunk", type=_positive_int, metavar="N", help="feed at most N characters at a time")
    coming.add_argument(
        "--stop-reason",
        choices=[reason for reason in get_args(StopReason) if reason != "tool_use"],
        default="complete",
        help="why the text ended (max_tokens: an open call was cut off)",
    )


def run(arguments: argparse.Namespace) -> int:
    """Parse the text."""
    parser = StreamParser(
        AUTO if arguments.dialect == AUTO else find_dialect(arguments.dialect),
        load_tools(arguments.tools) if arguments.tools else None,
        rescue=arguments.rescue,
        reasoning=arguments.reasoning,
        in_reasoning=arguments.in_reasoning,
        arguments=arguments.arguments,
    )
    with closing(_open(arguments.file)) as source:
        for text in _decoded_chunks(source):
            for chunk in _split(text, arguments.chunk):
                _write(parser.feed(chunk))
            sys.stdout.flush()
            if parser.finished:
                break
    _write(parser.close(arguments.stop_reason))
    return 0


def _open(path: str) -> BufferedReader:
    if path == STDIN:
        return open(sys.stdin.fileno(), "rb", closefd=False)
    try:
        return Path(path).open("rb")
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from error


def _decoded_chunks(source: BufferedReader) -> Iterator[str]:
    """Give the text as it arrives; a character cut by a read waits for its rest."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    while data := source.read1(_READ_SIZE):
        yield decoder.decode(data)
    yield decoder.decode(b"", final=True)


def _split(text: str, size: int | None) -> Iterable[str]:
    if size is None:
        return (text,)
    return (text[at : at + size] for at in range(0, len(text), size))


def _write(events: Sequence[Event]) -> None:
    sys.stdout.buffer.write(b"".join(msgspec.json.encode(event) + b"\n" for event in events))


def _positive_int(text: str) -> int:
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"expected a whole number above 0, got {text!r}")
    return int(text)
