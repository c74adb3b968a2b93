"""`fcshim tools`: list, call, convert and approve the tools of MCP servers.

Rule: one item per line, so that scripts can read it; a server that fails is reported on stderr, the others are used.
"""

import argparse
import asyncio
import difflib
import json
import logging
import os
import shlex
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args

import msgspec

from fcshim.cli.flags import add_settings, read_settings
from fcshim.cli.text import STDIN, help_formatter, read_text, write_data, write_error, write_line
from fcshim.errors import ConfigError, RequestError, ToolError
from fcshim.events import JSON
from fcshim.mcp.config_file import load_servers
from fcshim.mcp.settings import HttpTransport, McpServerConfig
from fcshim.mcp.tool_names import full_name, qualified_name, server_prefix
from fcshim.messages import AssistantMessage
from fcshim.sanitize import sanitize_line, visible
from fcshim.tools.base import tool_category
from fcshim.tools.provider_formats import ToolFormat
from fcshim.tools.result import ToolResult

if TYPE_CHECKING:
    from fcshim.mcp.manager import Manager
    from fcshim.mcp.pins import ToolChange
    from fcshim.mcp.resources import ServerOffers
    from fcshim.mcp.tool import McpTool
    from fcshim.tools.base import ToolProgress

_DESCRIPTION = """\
Use the tools of MCP servers from the command line.

The servers are read from a JSON file in the format of desktop clients: {"mcpServers": {name: {...}}}.
"""

_EPILOG = """\
examples:
  fcshim tools list --mcp servers.json                       server and tool, one a line
  fcshim tools call --mcp servers.json files:read_file '{"path": "a.txt"}'
  fcshim tools convert --mcp servers.json --to anthropic     the tools in a provider's format
  fcshim tools resources --mcp servers.json                  server, address, name; with SERVER:URI its contents
  fcshim tools prompts --mcp servers.json docs:review path=a.py
  fcshim tools approve --mcp servers.json files              after a server changed its tools
  fcshim tools login --mcp servers.json far                  for a remote server that needs it

servers.json:
  {"mcpServers": {
    "files": {"type": "npm", "package": "@modelcontextprotocol/server-filesystem@2025.8.21", "args": ["/data"]},
    "mine": {"command": "python", "args": ["server.py"], "env": {"KEY": "${MY_KEY}"}},
    "far": {"url": "https://example.com/mcp", "headers": {"Authorization": "Bearer ${TOKEN}"}}}}
"""
_SETTINGS = ("strict_packages",)
_DONE, _FAILED = 0, 1
_LOGIN_TIMEOUT = 330.0
"""Seconds that the user has to log in."""
_START_TIMEOUT = 90.0
"""Seconds to wait for all servers. A server may have to install its package first, and a list must not miss it."""


def configure_parser(parser: argparse.ArgumentParser) -> None:
    """Set the description and add the arguments of the command."""
    parser.description, parser.epilog = _DESCRIPTION, _EPILOG
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    listing = _add_action(actions, "list", "list the tools: server and tool, one per line")
    listing.add_argument("--json", action="store_true", help="write a JSON array, with descriptions and schemas")
    listing.add_argument(
        "--verbose", action="store_true", help="also write descriptions, parameters and withheld tools"
    )
    call = _add_action(actions, "call", "call a tool and write its result")
    call.add_argument("name", metavar="NAME", help="server:tool, mcp__server__tool, or the tool's name alone")
    call.add_argument(
        "arguments", metavar="JSON", nargs="?", default="{}", help="its arguments, a JSON object (-: stdin)"
    )
    call.add_argument("--json", action="store_true", help="write the whole result as JSON")
    convert = _add_action(actions, "convert", "write the tools in the format of a provider's API")
    convert.add_argument("--to", required=True, choices=get_args(ToolFormat), help="the format")
    convert.add_argument(
        "--server", action="append", default=[], metavar="NAME", help="only the tools of this server (default: all)"
    )
    resources = _add_action(actions, "resources", "list the resources of the servers, or write the contents of one")
    resources.add_argument("name", metavar="SERVER:URI", nargs="?", help="the resource to read")
    resources.add_argument("--watch", action="store_true", help="write it again each time it changes")
    prompts = _add_action(actions, "prompts", "list the prompts of the servers, or write the messages of one")
    prompts.add_argument("name", metavar="SERVER:NAME", nargs="?", help="the prompt to get")
    prompts.add_argument("values", metavar="NAME=VALUE", nargs="*", help="its arguments")
    prompts.add_argument("--complete", metavar="NAME=START", help="list the server's proposals for an argument")
    approve = _add_action(actions, "approve", "show what a server has changed in its tools, and approve it")
    approve.add_argument("server", metavar="SERVER", help="its name in the file")
    approve.add_argument("--yes", action="store_true", help="approve without a question, for scripts")
    login = _add_action(actions, "login", "log in to a remote server, by OAuth")
    login.add_argument("server", metavar="SERVER", help="its name in the file")


def _add_action(
    actions: "argparse._SubParsersAction[argparse.ArgumentParser]", name: str, summary: str
) -> argparse.ArgumentParser:
    """Add an action, with the options of all actions."""
    parser = actions.add_parser(name, help=summary, description=summary, formatter_class=help_formatter)
    parser.add_argument("--mcp", required=True, metavar="FILE", help="JSON file of MCP servers")
    parser.add_argument("--pins", metavar="FILE", help="JSON file of the approved definitions of tools")
    add_settings(parser, only=_SETTINGS)
    return parser


def run(arguments: argparse.Namespace) -> int:
    """Run the action and return its exit code. Raises `FcshimError`."""
    config = read_settings(arguments, only=_SETTINGS)
    servers = load_servers(arguments.mcp, os.environ, strict_packages=config.strict_packages)
    for server in servers:
        if server.warning:
            write_error(f"fcshim: {server.name}: warning: {sanitize_line(server.warning)}")
    for name in ("mcp", "fcshim.mcp"):  # their failures are written to stderr below, in one line each
        logging.getLogger(name).addHandler(logging.NullHandler())
        logging.getLogger(name).propagate = False
    actions = {
        "list": _list,
        "resources": _resources,
        "prompts": _prompts,
        "convert": _convert,
        "approve": _approve,
        "login": _login,
        "call": _call,
    }
    return asyncio.run(actions[arguments.action](servers, arguments))


async def _list(servers: Sequence[McpServerConfig], arguments: argparse.Namespace) -> int:
    async with _manager(servers, arguments) as manager:
        tools, code = manager.tools(), _report_problems(manager)
        withheld = {server.name: manager.connection(server.name).listed.withheld() for server in servers}
    if arguments.json:
        write_data(json.dumps([_tool_as_json(tool) for tool in tools], ensure_ascii=False, indent=2))
        return code
    for tool in tools:
        write_line(f"{sanitize_line(tool.server)}\t{sanitize_line(tool.name)}")
        if arguments.verbose:
            _write_details(tool)
    if arguments.verbose:
        for server, reasons in withheld.items():
            for name, reason in reasons.items():
                write_line(f"{sanitize_line(server)}\t{sanitize_line(name)}\n    withheld: {sanitize_line(reason)}")
    return code


async def _resources(servers: Sequence[McpServerConfig], arguments: argparse.Namespace) -> int:
    if arguments.watch and not arguments.name:
        raise ConfigError("--watch has no effect without SERVER:URI")
    server, _, uri = (arguments.name or "").partition(":")
    async with _manager(_candidate_servers(servers, arguments.name or ""), arguments) as manager:
        from fcshim.mcp.resources import ServerOffers  # noqa: PLC0415 - needs the SDK

        offers = ServerOffers(manager)
        if arguments.name:
            await _write_resource(offers, server, uri)
            if arguments.watch:
                async for _ in offers.updates(server, uri):
                    write_error(f"fcshim: {sanitize_line(uri)} has changed")
                    await _write_resource(offers, server, uri)
            return _DONE
        for name in manager.servers_with("resources"):
            for each in await offers.resources(name):
                write_line("\t".join(map(sanitize_line, (name, each.uri, each.name))))
        return _report_problems(manager)


async def _write_resource(offers: "ServerOffers", server: str, uri: str) -> None:
    from fcshim.mcp.resources import resource_bytes  # noqa: PLC0415 - needs the SDK, which the manager has imported

    for contents in await offers.read(server, uri):
        sys.stdout.buffer.write(resource_bytes(contents))
    sys.stdout.buffer.flush()


async def _prompts(servers: Sequence[McpServerConfig], arguments: argparse.Namespace) -> int:
    server, _, name = (arguments.name or "").partition(":")
    async with _manager(_candidate_servers(servers, arguments.name or ""), arguments) as manager:
        from fcshim.mcp.resources import ServerOffers  # noqa: PLC0415 - needs the SDK

        offers = ServerOffers(manager)
        if arguments.complete:
            argument, _, value = arguments.complete.partition("=")
            for proposal in await offers.complete(server, name, argument, value):
                write_line(sanitize_line(proposal))
            return _DONE
        if arguments.name:
            for message in await offers.get_prompt(server, name, _values(arguments.values)):
                role = "assistant" if isinstance(message, AssistantMessage) else "user"
                write_data(f"{role}: {ToolResult(message.content).flat_text}")
            return _DONE
        for each in await offers.all_prompts():
            named = " ".join(name if needed else f"[{name}]" for name, needed in each.arguments.items())
            write_line("\t".join(map(sanitize_line, (each.server, each.name, named, each.description))))
        return _report_problems(manager)


def _values(words: Sequence[str]) -> dict[str, str]:
    """Return the arguments of a prompt. Raises `ConfigError` for a word that is not NAME=VALUE."""
    for word in words:
        if "=" not in word:
            raise ConfigError(f"expected NAME=VALUE, got {word!r}")
    return {name: value for name, _, value in (word.partition("=") for word in words)}


async def _convert(servers: Sequence[McpServerConfig], arguments: argparse.Namespace) -> int:
    async with _manager(servers, arguments) as manager:
        from fcshim.mcp.loading import load_tools  # noqa: PLC0415 - needs the SDK

        mode: Literal["auto", "manual"] = "manual" if arguments.server else "auto"
        loaded = load_tools(manager, arguments.to, enabled=True, mode=mode, selected=arguments.server)
        code = _report_problems(manager)
    write_data(json.dumps(loaded.converted if loaded else [], ensure_ascii=False, indent=2))
    return code


async def _approve(servers: Sequence[McpServerConfig], arguments: argparse.Namespace) -> int:
    async with _manager([_server_named(servers, arguments)], arguments) as manager:
        listed, (status,) = manager.connection(arguments.server).listed, manager.status()
        if status.error:
            raise ToolError(f"{status.name}: {status.error}")
        changes, shown = listed.changes(), listed.all
        for change in changes:
            write_data("\n".join(map(visible, compare(change))))
        if changes and not (arguments.yes or _confirms(arguments)):
            return _FAILED
        listed.approve(shown)
    names = ", ".join(sanitize_line(change.name) for change in changes)
    write_line(f"{arguments.server}: {f'approved {names}' if changes else 'nothing had changed'}")
    return _DONE


def compare(change: "ToolChange") -> Iterator[str]:
    """Yield the lines that differ between the approved definition of a tool and the current one."""
    after = _definition_lines(change.after)
    if change.before is None:
        yield f"{change.name}: the approved text was not kept; now it is:"
        yield from after
        return
    titles = f"{change.name} (approved)", f"{change.name} (now)"
    yield from difflib.unified_diff(_definition_lines(change.before), after, *titles, n=2, lineterm="")


def _definition_lines(definition: JSON) -> list[str]:
    """Return a definition as lines: every line of its description, then its fields as JSON."""
    rest = {name: value for name, value in definition.items() if name != "description"}
    about = str(definition.get("description", "")).split("\n")
    return [*about, *json.dumps(rest, ensure_ascii=False, indent=2, sort_keys=True).split("\n")]


def _confirms(arguments: argparse.Namespace) -> bool:
    """Ask at a terminal; without one, write which command to type."""
    if sys.stdin.isatty():
        sys.stderr.write("Approve? [y]es, [n]o: ")
        sys.stderr.flush()
        return sys.stdin.readline().strip().lower() in ("y", "yes")
    command = shlex.join(["fcshim", "tools", "approve", "--mcp", arguments.mcp, arguments.server, "--yes"])
    write_error(f"fcshim: nothing is approved yet; to approve what is shown: {command}")
    return False


async def _login(servers: Sequence[McpServerConfig], arguments: argparse.Namespace) -> int:
    server = _server_named(servers, arguments)
    if not isinstance(server.transport, HttpTransport):
        raise ConfigError(f"{arguments.mcp}: {server.name} needs no login: it is a program; expected one with a url")

    from fcshim.mcp.connection import ConnectionTimeouts  # noqa: PLC0415 - a slow import, after the file is checked
    from fcshim.mcp.logins import OAuthLogins, default_login_folder  # noqa: PLC0415
    from fcshim.mcp.manager import Manager  # noqa: PLC0415

    async def show(url: str) -> None:
        write_error(f"To log in to {server.name}, open this page:\n\n  {sanitize_line(url)}\n")
        sys.stderr.flush()

    timeouts = ConnectionTimeouts(start=_LOGIN_TIMEOUT, connect=_LOGIN_TIMEOUT)
    async with Manager(
        [server], logins=OAuthLogins(default_login_folder(os.environ), show=show), timeouts=timeouts
    ) as manager:
        (status,) = manager.status()
    if status.error:
        raise ToolError(f"{status.name}: {status.error}")
    write_line(f"{status.name}: logged in")
    return _DONE


def _server_named(servers: Sequence[McpServerConfig], arguments: argparse.Namespace) -> McpServerConfig:
    for server in servers:
        if server.name == arguments.server:
            return server
    known = ", ".join(server.name for server in servers) or "none"
    raise ConfigError(f"{arguments.mcp}: there is no server {arguments.server!r} (there are: {known})")


async def _call(servers: Sequence[McpServerConfig], arguments: argparse.Namespace) -> int:
    from fcshim.tools.arguments import read_arguments  # noqa: PLC0415 - after the file is checked
    from fcshim.tools.base import CallContext  # noqa: PLC0415

    text = read_text(STDIN) if arguments.arguments == STDIN else arguments.arguments
    async with _manager(_candidate_servers(servers, arguments.name), arguments) as manager:
        tool = _find_tool(manager, arguments.name)
        try:
            values = read_arguments(tool.definition, text)
        except ToolError as error:
            raise RequestError(error.message) from error
        result = await tool.call(values, CallContext(report=_show_progress))
    if arguments.json:
        write_data(msgspec.json.encode(result).decode())
    elif result.is_error:
        write_error(f"fcshim: {result.flat_text}")
    else:
        write_data(result.flat_text)
    return _FAILED if result.is_error else _DONE


def _manager(servers: Sequence[McpServerConfig], arguments: argparse.Namespace) -> "Manager":
    from fcshim.mcp.connection import ConnectionTimeouts  # noqa: PLC0415 - a slow import, after the file is checked
    from fcshim.mcp.manager import Manager  # noqa: PLC0415
    from fcshim.mcp.pins import Pins, default_pin_file  # noqa: PLC0415

    pins = Pins(Path(arguments.pins) if arguments.pins else default_pin_file(os.environ))
    return Manager(servers, pins=pins, timeouts=ConnectionTimeouts(start=_START_TIMEOUT))


def _candidate_servers(servers: Sequence[McpServerConfig], name: str) -> Sequence[McpServerConfig]:
    """Return the servers that can have this tool, so that the others need not be started."""
    named = [
        server
        for server in servers
        if name.startswith((f"{server.name}:", full_name(server.name, ""), server_prefix(server.name)))
    ]
    return named or servers


def _find_tool(manager: "Manager", name: str) -> "McpTool":
    tool = manager.find(name)
    if tool is not None:
        return tool
    bare = [each for each in manager.tools() if each.name == name]
    if len(bare) == 1:
        return bare[0]
    if bare:
        raise ConfigError(f"{name} is ambiguous: {', '.join(qualified_name(each.server, name) for each in bare)}")
    problems = _server_problems(manager)
    if problems:
        raise ToolError("; ".join(problems))
    known = ", ".join(qualified_name(each.server, each.name) for each in manager.tools()) or "none"
    raise ConfigError(f"there is no tool {name} (there are: {known})")


def _server_problems(manager: "Manager") -> list[str]:
    return [
        f"{each.name}: changed {', '.join(each.changed_tools)}; to compare and approve: "
        f"fcshim tools approve {shlex.quote(each.name)} --mcp FILE"
        if each.changed_tools
        else f"{each.name}: {each.error or 'it is still connecting'}"
        for each in manager.status()
        if each.changed_tools or each.state.value != "ready"
    ]


def _report_problems(manager: "Manager") -> int:
    problems = _server_problems(manager)
    for problem in problems:
        write_error(f"fcshim: {problem}")
    return _FAILED if problems else _DONE


def _show_progress(progress: "ToolProgress") -> None:
    if sys.stderr.isatty():
        total = "" if progress.total is None else f"/{progress.total:g}"
        write_error(f"{progress.done:g}{total} {sanitize_line(progress.message)}")


def _tool_as_json(tool: "McpTool") -> dict[str, object]:
    definition = tool.definition
    return {
        "server": tool.server,
        "tool": tool.name,
        "name": definition.name,
        "category": tool_category(tool),
        "description": definition.description,
        "parameters": definition.parameters,
    }


def _write_details(tool: "McpTool") -> None:
    from fcshim.mcp.definitions import list_parameters  # noqa: PLC0415 - needs the SDK, which the manager has imported

    write_line(f"    category: {sanitize_line(tool_category(tool))}")
    write_line("    " + tool.definition.description.strip().replace("\n", "\n    "))
    for each in list_parameters(tool.definition.parameters):
        about = f" {each.description}" if each.description else ""
        write_line(f"    {sanitize_line(each.name)}: {each.type}{'' if each.required else ', optional'}{about}")
