"""`fcshim chat`: talk to a model with tools, in this terminal or from a script.

Rule: arguments only; everything else is `chat.start`'s.
Neighbours: `chat`.
"""

import argparse
import asyncio
import logging
import os
import sys
from typing import get_args

from fcshim.agent import DEFAULT_MAX_ROUNDS
from fcshim.cli.flags import endpoint_url
from fcshim.cli.text import STDIN, read_text
from fcshim.codecs.upstreams import UpstreamApi
from fcshim.config import ToolsPolicy
from fcshim.errors import ConfigError
from fcshim.tools.permission import PermissionMode

_DESCRIPTION = """\
Talk to a model that has tools: those of MCP servers, and fcshim's own in a folder.

Calls are shown while they are written. What does more than read asks first; ctrl-C ends a
turn. With -p there is one turn and nobody to ask, and stdout holds the answer alone.
"""

_EPILOG = """\
examples:
  fcshim chat http://127.0.0.1:8080 --mcp servers.json
  fcshim chat http://127.0.0.1:8080 --root . --mode accept_edits     Read, Write, Grep, Bash, ...
  fcshim chat http://127.0.0.1:8080 -p 'What is in this folder?' --root . --allow 'Bash(ls *)'
  git diff | fcshim chat http://127.0.0.1:8080 -p -                  the prompt from stdin
  fcshim chat -p 'say hello' --json                                  the embedded tiny model, as events
  fcshim chat http://127.0.0.1:8080 --resume                         go on with the last session
"""


def configure_parser(parser: argparse.ArgumentParser) -> None:
    """Give the parser the command's description and arguments."""
    parser.description, parser.epilog = _DESCRIPTION, _EPILOG
    parser.add_argument(
        "url", metavar="URL", nargs="?", help="the model's endpoint (default: the tiny model of the demo)"
    )
    parser.add_argument("-p", "--prompt", metavar="PROMPT", help="have one turn, and leave (-: the prompt from stdin)")
    parser.add_argument("--json", action="store_true", help="write every event of that turn as a line of JSON")
    model = parser.add_argument_group("the model")
    model.add_argument("--model", default="", metavar="NAME", help="which one (default: the endpoint's first)")
    model.add_argument("--api", choices=get_args(UpstreamApi), default="openai", help="what the endpoint speaks")
    model.add_argument("--tools", choices=get_args(ToolsPolicy), default="prompt", help="whose tool calling is used")
    model.add_argument("--dialect", default="auto", metavar="NAME", help="format in which calls are asked for")
    model.add_argument("--key", metavar="KEY", help="API key of the endpoint [FCSHIM_UPSTREAM_KEY]")
    model.add_argument("--system", default="", metavar="TEXT", help="what the model is told first")
    tools = parser.add_argument_group("the tools")
    tools.add_argument("--mcp", metavar="FILE", help="JSON file of MCP servers")
    tools.add_argument("--pins", metavar="FILE", help="what their tools were when they were first seen")
    tools.add_argument(
        "--root", metavar="DIR", help="folder for fcshim's own tools: Read, Write, Edit, Grep, Bash, ..."
    )
    tools.add_argument("--agents", action="store_true", help="let the model start other agents and sessions")
    tools.add_argument(
        "--mode", choices=get_args(PermissionMode), default="ask", help="when to ask (default: %(default)s)"
    )
    tools.add_argument("--allow", action="append", default=[], metavar="RULE", help="files:read_*, Write, Bash(git *)")
    tools.add_argument("--deny", action="append", default=[], metavar="RULE", help="what never runs")
    tools.add_argument(
        "--max-rounds", type=_positive_int, default=DEFAULT_MAX_ROUNDS, metavar="N", help="replies in one turn"
    )
    session = parser.add_argument_group("the session")
    session.add_argument("--resume", nargs="?", const="", metavar="ID", help="go on with this one, or with the last")
    session.add_argument("--no-save", dest="save", action="store_false", help="keep nothing of the conversation")


def run(arguments: argparse.Namespace) -> int:
    """Talk."""
    given = dict(vars(arguments))
    given["url"] = arguments.url and endpoint_url(arguments.url)
    given["key"] = arguments.key or os.environ.get("FCSHIM_UPSTREAM_KEY") or None
    if arguments.prompt == STDIN or (arguments.prompt is None and not sys.stdin.isatty()):
        given["prompt"] = read_text(STDIN).strip()
    if given["prompt"] == "":
        raise ConfigError("the prompt is empty")
    if arguments.json and given["prompt"] is None:
        raise ConfigError("--json needs a prompt: -p PROMPT, or stdin")
    for name in ("mcp", "fcshim.mcp", "fcshim.tools"):  # what they log is shown as it happens
        logging.getLogger(name).addHandler(logging.NullHandler())
        logging.getLogger(name).propagate = False
    from fcshim.chat.runner import ChatSettings, run_chat  # noqa: PLC0415 - a mistake in the arguments is told before

    asyncio.run(run_chat(ChatSettings(**given)))
    return 0


def _positive_int(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a whole number from 1, got {text!r}")
    return int(text)
