"""The entry point: runs the subcommand that the arguments name, and turns errors into exit codes.

Rule: 0 success, 1 failure, 2 the caller's mistake (arguments, settings, files); a message is one line on stderr. Only
the module of the named subcommand is imported, because some import large packages.
"""

import argparse
import difflib
import logging
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from importlib import import_module
from importlib.metadata import version
from typing import NoReturn, Protocol, cast

from fcshim.cli.text import help_formatter, write_error
from fcshim.errors import ConfigError, FcshimError, RequestError
from fcshim.extras import naming_extra
from fcshim.sanitize import configure_logging, sanitize

COMMANDS = {
    "serve": "put tool calling in front of an endpoint: the proxy",
    "launch": "start a coding agent with a model server, through the proxy",
    "chat": "talk to a model with tools, in this terminal or from a script",
    "parse": "read the calls out of a model's text: events as JSON lines",
    "replay": "parse recorded replies again, and show what changed",
    "inspect": "show recorded requests in a browser: prompts, replies, calls, and why one is missing",
    "render": "show the prompt that offers tools to a model",
    "models": "list an endpoint's models: whose tool calling each gets, and in which dialect",
    "doctor": "find the best tool calling settings for an endpoint's model, and write them",
    "eval": "measure how well a model calls: cases with known answers, in one dialect or several",
    "dialects": "list the formats in which calls can be written",
    "config": "check a file of settings; write its JSON Schema",
    "completion": "write the completion of commands and options for a shell",
    "tools": "use the tools of MCP servers: list, call, convert",
    "mcp": "serve tools to other programs: an MCP server",
    "demo": "watch a tiny model call a tool, without a server or a download",
}

_EXTRAS = {
    "serve": "serve",
    "launch": "serve",
    "chat": "chat",
    "models": "serve",
    "doctor": "serve",
    "eval": "serve",
    "replay": "serve",
    "inspect": "serve",
    "tools": "mcp",
    "mcp": "mcp",
    "demo": "demo",
}
"""The extra that a command needs to do its main job; the others need none."""

_PASSING = frozenset({"launch"})
"""Commands that pass what follows `--` on to another program; they get it as `passed`."""

_DESCRIPTION = """\
Native-grade tool calling for language models that have none.

fcshim writes the offered tools into the prompt, parses the calls from the model's streaming
text, and answers every client as if the model had called the tools natively.
"""

_EPILOG = """\
start here:
  fcshim demo                                     see it work, without a server
  fcshim serve                                    put it in front of the model server that runs here
  fcshim launch claude                            start a coding agent with that server
  fcshim COMMAND --help                           the options of a command, with examples

exit codes: 0 success, 1 failure, 2 a mistake in arguments, settings or files
"""

_DONE, _FAILED, _USAGE_ERROR, _INTERRUPTED = 0, 1, 2, 130
_MIN_SIMILARITY = 0.7
"""Similarity ratio of `difflib`, from 0 to 1, above which a name is suggested."""
_UNKNOWN = "unrecognized arguments: "
"""How argparse begins its message about unknown options."""


class Subcommand(Protocol):
    """The functions of a subcommand's module."""

    def configure_parser(self, parser: argparse.ArgumentParser) -> None:
        """Set the description and add the arguments of the command."""

    def run(self, arguments: argparse.Namespace) -> int:
        """Run the command and return the exit code. Raises `FcshimError`."""


class CliParser(argparse.ArgumentParser):
    """Parses the arguments of one command; reports a mistake in one line that refers to the help of `prog`.

    `argparse` prints the usage first: for `serve` these are twenty lines, and they hide the message.
    """

    def error(self, message: str) -> NoReturn:
        """Write the message to stderr and exit with status 2."""
        unknown = message.partition(_UNKNOWN)[2]
        if unknown:
            message += suggest(unknown.split()[0].partition("=")[0], self._option_string_actions)
        self.exit(_USAGE_ERROR, sanitize(f"{self.prog}: {message} (see {self.prog} --help)\n"))


def main(argv: Sequence[str] | None = None) -> int:
    """Run `fcshim` with these arguments (by default those of the process) and return the exit code."""
    given = sys.argv[1:] if argv is None else list(argv)
    try:
        return _run_command(given)
    except KeyboardInterrupt:  # while the command's modules are imported
        return _INTERRUPTED


def _run_command(given: list[str]) -> int:
    if not given or given[0] not in COMMANDS:
        _show_help(given)
    name, rest = given[0], list(given[1:])
    command = cast("Subcommand", import_module(f"fcshim.cli.{name}"))
    parser = CliParser(prog=f"fcshim {name}", formatter_class=help_formatter, allow_abbrev=False)
    command.configure_parser(parser)
    passed: list[str] = []
    if name in _PASSING and "--" in rest:  # argparse takes options behind positional arguments for unknown ones
        rest, passed = rest[: rest.index("--")], rest[rest.index("--") + 1 :]
    arguments = parser.parse_args(rest, argparse.Namespace(passed=passed) if name in _PASSING else None)
    configure_logging(logging.WARNING)  # else Python writes warnings to stderr as they are

    def work() -> int:
        with naming_extra(_EXTRAS.get(name, "")):
            return command.run(arguments)

    return exit_code_of(work)


def _show_help(given: Sequence[str]) -> NoReturn:
    """Handle `--help`, `--version`, a missing and an unknown command. Always raises `SystemExit`."""
    parser = CliParser(
        prog="fcshim",
        usage="fcshim [--help] [--version] COMMAND ...",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=help_formatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"fcshim {version('fcshim')}")
    width = max(map(len, COMMANDS))
    listed = "\n".join(f"{name:<{width}}  {summary}" for name, summary in COMMANDS.items())
    commands = parser.add_argument_group("commands", listed)
    commands.add_argument("command", metavar="COMMAND", choices=COMMANDS, help=argparse.SUPPRESS)
    if not given:
        parser.print_help(sys.stderr)
        parser.exit(_USAGE_ERROR)
    if not given[0].startswith("-"):
        parser.error(f"there is no command {given[0]!r:.80}{suggest(given[0], COMMANDS)}")
    parser.parse_args(given)
    parser.error("options of a command come after it: fcshim COMMAND [options]")


def exit_code_of(work: Callable[[], int]) -> int:
    """Call `work` and return its exit code; write a documented error to stderr and return the code for it."""
    try:
        code = work()
        sys.stdout.flush()
    except FcshimError as error:
        is_users_mistake = isinstance(error, ConfigError | RequestError)
        return _report_error(error.message, _USAGE_ERROR if is_users_mistake else _FAILED)
    except BrokenPipeError:  # the reader of stdout has closed the pipe (`| head`)
        # Python flushes stdout again at exit, and would report the closed pipe then.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _DONE
    except OSError as error:
        return _report_error(f"{error.filename}: {error.strerror}" if error.filename else str(error), _FAILED)
    except KeyboardInterrupt:
        return _INTERRUPTED
    return code


def _report_error(message: str, code: int) -> int:
    write_error(f"fcshim: {message}")
    return code


def suggest(name: str, known: Iterable[str]) -> str:
    """Return ", did you mean NAME?" for the most similar known name, or an empty string."""
    similar = difflib.get_close_matches(name, known, n=1, cutoff=_MIN_SIMILARITY)
    return f", did you mean {similar[0]}?" if similar else ""
