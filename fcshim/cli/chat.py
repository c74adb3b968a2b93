"""`fcshim chat`: talk to a model with tools, in this terminal or from a script.

It only reads arguments; `chat.runner` does the work.
"""

import argparse
import asyncio
import logging
import os
import sys
from typing import get_args

from fcshim.agent import DEFAULT_MAX_ROUNDS
from fcshim.cli.endpoint import choose, find_servers
from fcshim.cli.flags import add_settings, read_settings
from fcshim.cli.text import STDIN, read_text, write_error
from fcshim.codecs.upstreams import UpstreamApi
from fcshim.config import ToolsPolicy, endpoint_url
from fcshim.errors import ConfigError
from fcshim.tools.permission import ModeName, parse_mode

_DESCRIPTION = """\
Talk to a model that has tools: those of MCP servers, and fcshim's own tools in a folder.

Calls are shown while the model writes them. Tools that do more than read ask for permission
first; ctrl-C ends a turn. With -p there is one turn, a call that needs permission is refused,
and stdout holds only the answer.
"""

_EPILOG = """\
examples:
  fcshim chat http://127.0.0.1:8080 --mcp servers.json
  fcshim chat http://127.0.0.1:8080 --root . --mode accept_edits     Read, Write, Grep, Bash, ...
  fcshim chat http://127.0.0.1:8080 -p 'What is in this folder?' --root . --allow 'Bash(ls *)'
  git diff | fcshim chat http://127.0.0.1:8080 -p -                  the prompt from stdin
  fcshim chat --demo -p 'say hello' --json                           the embedded tiny model, as events
  fcshim chat http://127.0.0.1:8080 --resume                         continue the last session
"""


_SETTINGS = (
    "strict_packages", "web_search", "web_search_key",
    "max_chars", "exec_timeout", "restrict_to_workspace", "background_model",
)  # fmt: skip
"""The settings of `fcshim.config` that this command has too."""
_MAX_WAIT = 3_600.0


def configure_parser(parser: argparse.ArgumentParser) -> None:
    """Set the description and add the arguments of the command."""
    parser.description, parser.epilog = _DESCRIPTION, _EPILOG
    parser.add_argument(
        "url",
        metavar="URL",
        nargs="?",
        help="the model's endpoint [FCSHIM_UPSTREAM; default: the model server found on this machine, else the "
        "embedded demo model]",
    )
    parser.add_argument("-p", "--prompt", metavar="PROMPT", help="run one turn and exit (-: the prompt from stdin)")
    parser.add_argument("--json", action="store_true", help="with -p: write every event as a line of JSON")
    _add_model(parser.add_argument_group("the model"))
    _add_tools(parser.add_argument_group("the tools"))
    _add_permissions(parser.add_argument_group("which of them run"))
    _add_session(parser.add_argument_group("the session"))
    add_settings(parser, only=_SETTINGS)


def _add_model(model: "argparse._ArgumentGroup") -> None:
    model.add_argument(
        "--model", default="", metavar="NAME", help="name of the model (default: the first that the endpoint lists)"
    )
    model.add_argument("--demo", action="store_true", help="use the embedded demo model")
    model.add_argument("--api", choices=get_args(UpstreamApi), help="the API of the endpoint (default: openai)")
    model.add_argument(
        "--tools",
        choices=get_args(ToolsPolicy),
        help="tool calling by the prompt, by the endpoint, or by evidence about the model (default: auto)",
    )
    model.add_argument("--dialect", metavar="NAME", help="text format of the calls (default: auto)")
    model.add_argument("--key", metavar="KEY", help="API key of the endpoint [FCSHIM_UPSTREAM_KEY]")
    model.add_argument("--system", default="", metavar="TEXT", help="the system prompt")
    model.add_argument(
        "--max-rounds",
        type=_positive_int,
        default=DEFAULT_MAX_ROUNDS,
        metavar="N",
        help="maximum number of model replies in one turn (default: %(default)s)",
    )


def _add_tools(tools: "argparse._ArgumentGroup") -> None:
    tools.add_argument("--mcp", metavar="FILE", help="JSON file of MCP servers")
    tools.add_argument(
        "--wait",
        type=_seconds,
        metavar="SECONDS",
        help="seconds that the first turn waits for slow MCP servers (default: 10, with -p 60)",
    )
    tools.add_argument("--pins", metavar="FILE", help="JSON file of the approved definitions of tools")
    tools.add_argument(
        "--root", metavar="DIR", help="folder for fcshim's own tools: Read, Write, Edit, Grep, Bash, ..."
    )
    tools.add_argument("--custom", metavar="DIR", help="folder of Python files whose functions are tools")
    tools.add_argument("--skills", metavar="DIR", help="folder of skills (NAME/SKILL.md)")
    tools.add_argument("--commands", metavar="DIR", help="folder of slash commands (NAME.md)")
    tools.add_argument("--profiles", metavar="DIR", help="folder of agent profiles (NAME.md); implies --agents")
    tools.add_argument("--agents", action="store_true", help="let the model start other agents and sessions")


def _add_permissions(permissions: "argparse._ArgumentGroup") -> None:
    permissions.add_argument(
        "--mode",
        choices=get_args(ModeName),
        default="ask",
        help="which calls run without a question (default: %(default)s)",
    )
    permissions.add_argument(
        "--allow",
        action="append",
        default=[],
        metavar="RULE",
        help="calls that run without a question: files:read_*, Write, Bash(git *), Bash(git **) for all uses",
    )
    permissions.add_argument(
        "--deny", action="append", default=[], metavar="RULE", help="calls that never run, in the same form"
    )


def _add_session(session: "argparse._ArgumentGroup") -> None:
    session.add_argument("--resume", nargs="?", const="", metavar="ID", help="continue this session, or the last one")
    session.add_argument(
        "--bell",
        type=_bell,
        default=5.0,
        metavar="SECONDS",
        help="ring when a question has waited for SECONDS; off: never (default: 5)",
    )
    session.add_argument("--no-save", dest="save", action="store_false", help="do not save the conversation")


def run(arguments: argparse.Namespace) -> int:
    """Run the chat. Raises `ConfigError`."""
    config = read_settings(arguments, only=_SETTINGS)
    given = {name: value for name, value in vars(arguments).items() if name not in (*_SETTINGS, "config", "demo")}
    given["config"] = config
    given["mode"] = parse_mode(arguments.mode)
    given["key"] = arguments.key or os.environ.get("FCSHIM_UPSTREAM_KEY") or None
    if arguments.prompt == STDIN or (arguments.prompt is None and not sys.stdin.isatty()):
        given["prompt"] = read_text(STDIN).strip()
    if given["prompt"] == "":
        raise ConfigError("the prompt is empty")
    if arguments.json and given["prompt"] is None:
        raise ConfigError("--json needs a prompt: -p PROMPT, or stdin")
    given["url"] = find_endpoint(arguments)
    for name in ("mcp", "fcshim.mcp", "fcshim.tools"):  # the chat shows these events itself
        logging.getLogger(name).addHandler(logging.NullHandler())
        logging.getLogger(name).propagate = False
    from fcshim.chat.runner import run_chat  # noqa: PLC0415 - after the arguments are checked
    from fcshim.chat.settings import ChatSettings  # noqa: PLC0415

    asyncio.run(run_chat(ChatSettings(**given)))
    return 0


def find_endpoint(arguments: argparse.Namespace) -> str | None:
    """Return the URL of the endpoint that is named, or found as `fcshim serve` finds it; None for the demo model.

    A resumed session has its own. Raises `ConfigError`, also if several servers are found.
    """
    if arguments.demo:
        if arguments.url:
            raise ConfigError("expected the URL or --demo, not both")
        return None
    named = arguments.url or (os.environ.get("FCSHIM_UPSTREAM") if arguments.resume is None else "")
    if named:
        return endpoint_url(named)
    servers = asyncio.run(find_servers()) if arguments.resume is None else []
    if not servers:
        return None
    server = choose(servers)
    write_error(f"fcshim: found {server}")
    return server.url


def _bell(text: str) -> float | None:
    return None if text == "off" else _seconds(text)


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds <= _MAX_WAIT:
        raise argparse.ArgumentTypeError(f"expected seconds from 0 to {_MAX_WAIT:g}, got {text!r}")
    return seconds


def _positive_int(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a whole number from 1, got {text!r}")
    return int(text)
