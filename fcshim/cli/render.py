"""`fcshim render`: show the prompt that fcshim would send.

Rule: the output is what `Shim` prepares and the codec encodes, byte for byte.
"""

import argparse
import json
from typing import get_args

import msgspec

from fcshim.cli.text import parse_json, read_text, write_data, write_error
from fcshim.cli.tools_file import load_tools
from fcshim.codecs.openai_chat import OPENAI_CHAT
from fcshim.errors import ConfigError
from fcshim.events import JSON
from fcshim.messages import Message, Request, SystemMessage, UserMessage, as_function, text_of
from fcshim.parse.dialects import DIALECTS
from fcshim.pipeline.shim import prepare_shim
from fcshim.prompt.compose import PromptBudget
from fcshim.prompt.profiles import PROFILES
from fcshim.prompt.styles import OWN, PROMPT_STYLES, ToolsListing, get_style

_DESCRIPTION = """\
Show the prompt that offers tools to a model: the text that fcshim sends in place of the tools.
Without --messages, only the part about the tools; with it, the whole conversation.
"""

_EPILOG = """\
examples:
  fcshim render --tools tools.json
  fcshim render --tools tools.json --messages chat.json --profile no-system
  fcshim render --tools tools.json --messages chat.json --json | jq .messages
  fcshim render --tools tools.json --tool-choice get_weather
  fcshim render --tools tools.json --tools-style signature
  fcshim render --tools tools.json --messages chat.json --max-tools 8 --prompt-budget 8000

tools.json holds an array of tools as the OpenAI API takes them, chat.json an array of its messages.
"""

_CHOICES = ("auto", "none", "required")
_LIMITS = (
    ("--max-tools", "N", "describe at most N tools and name the others"),
    ("--prompt-budget", "TOKENS", "shorten the prompt to this length; what is left out is reported on stderr"),
    ("--max-result", "N", "characters of a tool's result to show"),
)


def configure_parser(parser: argparse.ArgumentParser) -> None:
    """Set the description and add the arguments of the command."""
    parser.description, parser.epilog = _DESCRIPTION, _EPILOG
    parser.add_argument("--tools", required=True, metavar="FILE", help="JSON file of the offered tools (-: stdin)")
    parser.add_argument("--messages", metavar="FILE", help="JSON file of the conversation (-: stdin)")
    parser.add_argument("--dialect", default="function_call", metavar="D", help=f"one of: {', '.join(DIALECTS)}")
    parser.add_argument("--profile", default="default", metavar="P", help=f"one of: {', '.join(PROFILES)}")
    parser.add_argument(
        "--prompt-style", default=OWN, choices=tuple(PROMPT_STYLES), help="the words around them (default: %(default)s)"
    )
    parser.add_argument(
        "--tools-style",
        default="auto",
        choices=get_args(ToolsListing),
        help="how tools are described (default: %(default)s, the prompt style's own)",
    )
    for flag, metavar, text in _LIMITS:
        parser.add_argument(flag, type=int, metavar=metavar, help=text)
    parser.add_argument("--tool-choice", default="auto", metavar="C", help="auto, none, required, or a tool's name")
    parser.add_argument("--json", action="store_true", help="write the whole request body as JSON")


def run(arguments: argparse.Namespace) -> int:
    """Write the prompt, or with `--json` the request body. Raises `ConfigError` and `RequestError`."""
    limits = {name: getattr(arguments, name) for name in ("max_tools", "prompt_budget", "max_result")}
    shim = prepare_shim(
        _request(arguments),
        dialect=arguments.dialect,
        profile=arguments.profile,
        style=get_style(arguments.prompt_style),
        tools_style=arguments.tools_style,
        budget=PromptBudget(**{name: max(value, 0) for name, value in limits.items() if value is not None}),
    )
    for note in shim.notes:
        write_error(f"fcshim: {note}")
    request = shim.prepared
    if arguments.json:
        body = json.loads(OPENAI_CHAT.encode_request(request).body)
        write_data(json.dumps(body, ensure_ascii=False, indent=2))
    elif arguments.messages:
        write_data("\n\n".join(f"=== {_role(message)} ===\n{text_of(message.content)}" for message in request.messages))
    else:
        write_data("".join(text_of(message.content) for message in request.messages))
    return 0


def _request(arguments: argparse.Namespace) -> Request:
    """Decode the files with the codec that decodes a client's request."""
    tools = load_tools(arguments.tools)
    body = {
        "messages": _messages(arguments.messages) if arguments.messages else [{"role": "user"}],
        "tools": [{"type": "function", "function": as_function(tool)} for tool in tools],
        "tool_choice": _choice(arguments.tool_choice),
    }
    request = OPENAI_CHAT.decode_request(msgspec.json.encode(body))
    messages = request.messages if arguments.messages else ()
    return msgspec.structs.replace(request, messages=messages, tools=tools)  # the API has no place for `returns`


def _messages(path: str) -> JSON:
    messages = parse_json(read_text(path), path)
    if isinstance(messages, dict) and "messages" in messages:
        return messages["messages"]
    if not isinstance(messages, list):
        raise ConfigError(f"{path}: expected a JSON array of messages")
    return messages


def _choice(name: str) -> JSON:
    return name if name in _CHOICES else {"type": "function", "function": {"name": name}}


def _role(message: Message) -> str:
    match message:
        case SystemMessage():
            return "system"
        case UserMessage():
            return "user"
        case _:
            return "assistant"
