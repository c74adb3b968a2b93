"""Reading and writing text and JSON for all subcommands.

Rule: files are UTF-8; a file that cannot be read is a `ConfigError` that names the file, and the line if there is one.
"""

import argparse
import json
import shutil
import sys
import textwrap
from pathlib import Path

from fcshim.errors import ConfigError
from fcshim.events import JSON
from fcshim.sanitize import sanitize

STDIN = "-"
_HELP_WIDTH = 100


def help_formatter(prog: str) -> argparse.HelpFormatter:
    """Return a formatter that keeps the line breaks of descriptions and does not break names at hyphens.

    Its lines have the width of the terminal, but at most 100 characters.
    """
    width = min(shutil.get_terminal_size((_HELP_WIDTH, 24)).columns, _HELP_WIDTH)
    return _HelpFormatter(prog, max_help_position=30, width=width)


class _HelpFormatter(argparse.RawDescriptionHelpFormatter):
    def _split_lines(self, text: str, width: int) -> list[str]:
        return textwrap.wrap(" ".join(text.split()), width, break_on_hyphens=False)


def write_line(text: str) -> None:
    """Write a line for people to stdout, as UTF-8 in any locale; control characters in it become visible."""
    sys.stdout.buffer.write(f"{sanitize(text)}\n".encode())


def write_data(text: str) -> None:
    """Write text for programs to stdout, as UTF-8: exactly, unless stdout is a terminal."""
    sys.stdout.buffer.write(f"{sanitize(text) if sys.stdout.isatty() else text}\n".encode(errors="replace"))


def write_error(message: str) -> None:
    """Write a message to stderr; control characters in it become visible."""
    sys.stderr.write(f"{sanitize(message)}\n")


def read_text(path: str) -> str:
    """Read a whole file (`-`: stdin). Raises `ConfigError`."""
    try:
        data = sys.stdin.buffer.read() if path == STDIN else Path(path).read_bytes()
        return data.decode("utf-8-sig")  # editors on Windows may write a byte order mark, which is not JSON
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: not UTF-8 at byte {error.start}") from error


def parse_json(text: str, path: str) -> JSON:
    """Parse JSON that was read from `path`. Raises `ConfigError` with file, line and column."""
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise ConfigError(f"{path}:{error.lineno}:{error.colno}: not JSON: {error.msg}") from error
    except (ValueError, RecursionError) as error:
        # Python limits the nesting of JSON and the digits of an integer.
        raise ConfigError(f"{path}: the JSON is nested too deep or has too long a number: {error}") from error
