"""From arguments to a subcommand, and from what goes wrong to an exit code.

Rule: 0 done, 1 failed, 2 the caller's mistake (arguments, settings, files); messages go to stderr, in one line.
Neighbours: the subcommand modules beside this one, each imported only when it is asked for.
"""

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.metadata import version
from typing import NoReturn, Protocol, cast

from fcshim.cli.arguments import CliParser, suggest
from fcshim.cli.text import help_formatter
from fcshim.errors import ConfigError, FcshimError, RequestError

COMMANDS = {
    "serve": "put tool calling in front of an endpoint: the proxy",
    "chat": "talk to a model with tools, in this terminal or from a script",
    "parse": "read the calls out of a model's text: events as JSON lines",
    "render": "show the prompt that offers tools to a model",
    "models": "list an endpoint's models: whose tool calling each gets, and how it is asked",
    "doctor": "find out how an endpoint's model is best asked for calls, and write the settings",
    "eval": "measure how well a model calls: cases with known answers, in one dialect or several",
    "dialects": "list the formats in which calls can be written",
    "tools": "use the tools of MCP servers: list, call, convert",
    "mcp": "serve tools to other programs: an MCP server",
    "demo": "watch a tiny model call a tool, without server or download",
}

_DESCRIPTION = """\
Native-grade tool calling for language models that have none.

fcshim writes the offered tools into the prompt, reads the calls back out of the model's
streaming text, and answers every client as if the model had called them natively.
"""

_EPILOG = """\
start here:
  fcshim demo                                     see it work, on this machine alone
  fcshim serve --upstream http://localhost:8080   put it in front of llama.cpp
  fcshim COMMAND --help                           what a command takes, with examples

exit codes: 0 done, 1 failed, 2 a mistake in arguments, settings or files
"""

_DONE, _FAILED, _USAGE_ERROR, _INTERRUPTED = 0, 1, 2, 130


class Subcommand(Protocol):
    """What a subcommand's module offers."""

    def configure_parser(self, parser: argparse.ArgumentParser) -> None:
        """Give the parser the command's description and arguments."""

    def run(self, arguments: argparse.Namespace) -> int:
        """Do the work and give the exit code."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run `fcshim` with these arguments (the process's own by default) and give the exit code."""
    given = sys.argv[1:] if argv is None else list(argv)
    if not given or given[0] not in COMMANDS:
        _show_help(given)
    name, rest = given[0], given[1:]
    command = cast("Subcommand", import_module(f"fcshim.cli.{name}"))
    parser = CliParser(prog=f"fcshim {name}", formatter_class=help_formatter, allow_abbrev=False)
    command.configure_parser(parser)
    arguments = parser.parse_args(rest)
    return exit_code_of(lambda: command.run(arguments))


def _show_help(given: Sequence[str]) -> NoReturn:
    """Answer `--help`, `--version`, no command and an unknown one; always leaves by `SystemExit`."""
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
    """Do the work; turn its documented errors into a line on stderr and an exit code."""
    try:
        code = work()
        sys.stdout.flush()
    except (ConfigError, RequestError) as error:
        return _report_error(error.message, _USAGE_ERROR)
    except FcshimError as error:
        return _report_error(error.message, _FAILED)
    except BrokenPipeError:
        return _ignore_closed_pipe()
    except OSError as error:
        return _report_error(f"{error.filename}: {error.strerror}" if error.filename else str(error), _FAILED)
    except KeyboardInterrupt:
        return _INTERRUPTED
    return code


def _report_error(message: str, code: int) -> int:
    sys.stderr.write(f"fcshim: {message}\n")
    return code


def _ignore_closed_pipe() -> int:
    """Whoever read our output has seen enough (`| head`): that is not a failure.

    Python flushes stdout once more at exit, which must not find the closed pipe again.
    """
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return _DONE
