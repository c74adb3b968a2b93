"""How the command line reads and writes text.

Rule: files are UTF-8; what cannot be read is the caller's mistake and names the file, and the line where there is one.
Neighbours: every subcommand.
"""

import argparse
import json
import sys
import textwrap
from pathlib import Path

from fcshim.errors import ConfigError
from fcshim.events import JSON

STDIN = "-"


def help_formatter(prog: str) -> argparse.HelpFormatter:
    """Make help texts that keep their line breaks, and names whole."""
    return _HelpFormatter(prog, max_help_position=30, width=100)


class _HelpFormatter(argparse.RawDescriptionHelpFormatter):
    def _split_lines(self, text: str, width: int) -> list[str]:
        return textwrap.wrap(" ".join(text.split()), width, break_on_hyphens=False)


def write_line(text: str) -> None:
    """Write one line to stdout, as UTF-8 whatever the locale."""
    sys.stdout.buffer.write(f"{text}\n".encode())


def read_text(path: str) -> str:
    """Read a whole file (`-`: stdin). Raises `ConfigError`."""
    try:
        data = sys.stdin.buffer.read() if path == STDIN else Path(path).read_bytes()
        return data.decode("utf-8-sig")
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: not UTF-8 at byte {error.start}") from error


def parse_json(text: str, path: str) -> JSON:
    """Read the JSON text of that file. Raises `ConfigError` with file, line and column."""
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise ConfigError(f"{path}:{error.lineno}:{error.colno}: not JSON: {error.msg}") from error
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path}: JSON beyond what can be read: {error}") from error
