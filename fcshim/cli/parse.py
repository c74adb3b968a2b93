"""`fcshim parse`: parse the text of a model and write its events.

Rule: input is parsed as it arrives and stdout is flushed, so that it works in a pipe; one event is one line of JSON.
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

from fcshim.cli.text import STDIN, write_data
from fcshim.cli.tools_file import load_tools
from fcshim.errors import ConfigError
from fcshim.events import Event, StopReason
from fcshim.parse.dialects import AUTO, DIALECTS
from fcshim.parse.stream import StreamParser
from fcshim.prompt.dialect_folder import find_dialect

_DESCRIPTION = """\
Parse the calls in a model's text and write every event as one line of JSON.
The text is read as it arrives (UTF-8; invalid bytes become U+FFFD), from FILE or from stdin.
"""

_EPILOG = """\
examples:
  fcshim parse reply.txt
  fcshim parse --tools tools.json --chunk 3 reply.txt      in chunks of three characters
  some-model | fcshim parse | jq -c 'select(.type == "tool_call_end")'

events: text, reasoning, tool_call_start, tool_call_chunk, tool_call_end, stop
"""

_READ_SIZE = 65_536


def configure_parser(parser: argparse.ArgumentParser) -> None:
    """Set the description and add the arguments of the command."""
    parser.description, parser.epilog = _DESCRIPTION, _EPILOG
    parser.add_argument("file", nargs="?", default=STDIN, metavar="FILE", help="the text (default: stdin)")
    _add_parser_options(parser.add_argument_group("how calls are parsed"))
    _add_input_options(parser.add_argument_group("how the text is fed"))


def _add_parser_options(group: "argparse._ArgumentGroup") -> None:
    group.add_argument(
        "--dialect",
        default="function_call",
        metavar="D",
        help=f"format of the calls: a folder, auto (all of them at once), or one of {', '.join(DIALECTS)}",
    )
    group.add_argument("--tools", metavar="FILE", help="JSON file of the offered tools (default: any name is a call)")
    group.add_argument("--rescue", action="store_true", help="also accept calls in other formats, for offered tools")
    group.add_argument(
        "--reasoning",
        choices=("ignore", "recover", "promote"),
        default="ignore",
        help="calls inside reasoning: ignore them, recover one that ends unclosed reasoning, or promote all",
    )
    group.add_argument(
        "--arguments",
        choices=("stream", "validated"),
        default="stream",
        help="stream arguments as they are written, or emit them complete and checked",
    )
    group.add_argument(
        "--open-reasoning-tag",
        default="",
        metavar="TAG",
        help="the text begins inside reasoning that this tag (such as <think>) opened",
    )


def _add_input_options(group: "argparse._ArgumentGroup") -> None:
    group.add_argument("--chunk", type=_positive_int, metavar="N", help="feed at most N characters at a time")
    group.add_argument(
        "--stop-reason",
        choices=[reason for reason in get_args(StopReason) if reason != "tool_use"],
        default="complete",
        help="why the text ended (max_tokens: an unfinished call is reported as truncated)",
    )


def run(arguments: argparse.Namespace) -> int:
    """Parse the text and write the events. Raises `ConfigError`."""
    parser = StreamParser(
        AUTO if arguments.dialect == AUTO else find_dialect(arguments.dialect),
        load_tools(arguments.tools) if arguments.tools else None,
        rescue=arguments.rescue,
        reasoning=arguments.reasoning,
        open_reasoning_tag=arguments.open_reasoning_tag,
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
    """Yield the text as it arrives; the bytes of a character that a read has cut wait for the next read."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    # `read1` returns what the pipe has; `read` would wait for all the bytes.
    while data := source.read1(_READ_SIZE):
        yield decoder.decode(data)
    yield decoder.decode(b"", final=True)


def _split(text: str, size: int | None) -> Iterable[str]:
    if size is None:
        return (text,)
    return (text[at : at + size] for at in range(0, len(text), size))


def _write(events: Sequence[Event]) -> None:
    if events:
        write_data("\n".join(msgspec.json.encode(event).decode() for event in events))


def _positive_int(text: str) -> int:
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"expected a whole number above 0, got {text!r}")
    return int(text)
