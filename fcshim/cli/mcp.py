"""`fcshim mcp`: the tools of fcshim, and those of other servers, as one MCP server.

Rule: no user is present to give permission, so only tools that read, or that `--allow` names, are offered and run. An
option without effect is an error.
"""

import argparse
import asyncio
import logging
import os
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from fcshim.cli.flags import add_settings, read_settings
from fcshim.config import Config, Secret, endpoint_url, host_and_port
from fcshim.errors import ConfigError, ToolError
from fcshim.mcp.config_file import load_servers
from fcshim.mcp.settings import McpServerConfig
from fcshim.mcp.tool_names import PREFIX, full_rules, server_prefix
from fcshim.sanitize import configure_logging
from fcshim.tools.custom import CustomTools
from fcshim.tools.permission import Permissions
from fcshim.tools.rules import PermissionRule, check_rules, parse_rules, rule_notes

if TYPE_CHECKING:
    from fcshim.mcp.forwarding import ClientForwarding
    from fcshim.mcp.gateway import Gateway
    from fcshim.mcp.hub import ToolHub
    from fcshim.tools.base import AnyTool
    from fcshim.tools.builtin.web import FindModel

_NEEDS = {
    **dict.fromkeys(("exec_timeout", "restrict_to_workspace"), ("root",)),
    "commands": ("root",),
    "web_search": ("root",),
    "model": ("root",),
    **dict.fromkeys(("background_model", "upstream_api", "upstream_key"), ("model",)),
    "strict_packages": ("mcp",),
    "private": ("root", "skills"),
    "skill_index": ("skills",),
    "pins": ("mcp",),
    "host": ("http",),
    "port": ("http",),
    "api_key": ("http",),
}
"""Options, each with the options of which at least one must be given for it to have an effect."""
_SETTINGS = (
    "strict_packages", "web_search", "web_search_key",
    "max_chars", "exec_timeout", "restrict_to_workspace",
    "background_model", "upstream_api", "upstream_key", "log_level",
)  # fmt: skip
"""The settings of `fcshim.config` that this command has too."""
_SETTINGS_DEFAULTS = {"log_level": "warning"}
_DEFAULTS = {"host": "127.0.0.1", "port": 8182}

_DESCRIPTION = """\
Serve tools to other programs, over the Model Context Protocol: fcshim's own (files, search,
commands, the web, skills), those of a folder of Python files, and those of other servers.

There is no user to ask before a call, so only tools that read run, and those that --allow names. A
server's own word that its tool only reads counts if the servers file says "trust": "annotations".
"""

_EPILOG = """\
examples:
  fcshim mcp --root ~/project                              over stdio, for an MCP host
  fcshim mcp --root . --allow Write --allow Edit --allow 'Bash(git *)'
  fcshim mcp --root . --mcp servers.json --allow 'files:write_*' --http --port 8182
  fcshim mcp --tools tools/ --only 'get_*'                 only your own functions

in a desktop client's file:
  {"mcpServers": {"fcshim": {"command": "fcshim", "args": ["mcp", "--root", "/data"]}}}
"""


def configure_parser(parser: argparse.ArgumentParser) -> None:
    """Set the description and add the arguments of the command."""
    parser.description, parser.epilog = _DESCRIPTION, _EPILOG
    _add_tool_options(parser.add_argument_group("which tools"))
    _add_permission_options(parser.add_argument_group("which of them run"))
    _add_server_options(parser.add_argument_group("how they are served"))
    add_settings(parser, only=_SETTINGS, defaults=_SETTINGS_DEFAULTS)


def _add_tool_options(group: "argparse._ArgumentGroup") -> None:
    group.add_argument("--root", metavar="DIR", help="folder in which Read, Write, Grep, Bash and so on work")
    group.add_argument("--mcp", metavar="FILE", help="JSON file of MCP servers whose tools are also offered")
    group.add_argument("--tools", metavar="DIR", help="folder of Python files whose functions are tools")
    group.add_argument("--skills", metavar="DIR", help="folder of skills (NAME/SKILL.md)")
    group.add_argument("--skill-index", metavar="URL", help="JSON index of skills that can be installed")
    group.add_argument("--commands", metavar="DIR", help="folder of slash commands (NAME.md)")
    group.add_argument(
        "--model",
        type=endpoint_url,
        metavar="URL",
        help="endpoint of a model that reads web pages for WebFetch (default: the client's model, if it lends it)",
    )
    group.add_argument(
        "--private", action="store_true", help="let WebFetch load from this machine and private networks"
    )


def _add_permission_options(group: "argparse._ArgumentGroup") -> None:
    group.add_argument(
        "--allow",
        action="append",
        default=[],
        metavar="RULE",
        help="calls that run: Write, files:write_*, Bash(git *) for its harmless uses, Bash(git **) for all",
    )
    group.add_argument(
        "--deny", action="append", default=[], metavar="RULE", help="calls that do not run; overrides --allow"
    )
    group.add_argument("--pins", metavar="FILE", help="JSON file of the approved definitions of tools")
    group.add_argument(
        "--only",
        action="append",
        default=[],
        metavar="PATTERN",
        help="offer only tools with these names (get_*) or of these categories (@web)",
    )


def _add_server_options(group: "argparse._ArgumentGroup") -> None:
    group.add_argument("--http", action="store_true", help="serve over streamable HTTP, at /mcp, instead of stdio")
    group.add_argument(
        "--host", default=_DEFAULTS["host"], metavar="H", help="address to listen on (default: %(default)s)"
    )
    group.add_argument(
        "--port", type=int, default=_DEFAULTS["port"], metavar="P", help="port to listen on (default: %(default)s)"
    )
    group.add_argument("--api-key", metavar="KEY", help="key that clients must send [FCSHIM_MCP_KEY]")


def run(arguments: argparse.Namespace) -> int:
    """Serve until the client disconnects or the process is stopped. Raises `ConfigError`."""
    _check_effects(arguments)
    config = read_settings(arguments, only=_SETTINGS, defaults=_SETTINGS_DEFAULTS)
    rules = (
        *parse_rules("allow", full_rules(arguments.allow)),
        *parse_rules("deny", full_rules(arguments.deny)),
    )
    custom = CustomTools(Path(arguments.tools)) if arguments.tools else None
    servers = load_servers(arguments.mcp, os.environ, strict_packages=config.strict_packages) if arguments.mcp else ()
    if not (arguments.root or arguments.skills or custom or servers):
        raise ConfigError("there is nothing to offer: expected --root, --mcp, --tools or --skills")
    configure_logging(logging.WARNING, "%(levelname)s:%(name)s:%(message)s")
    logging.getLogger("fcshim").setLevel(config.log_level.upper())  # the SDK's own messages hold what is masked here

    from fcshim.mcp.forwarding import ClientForwarding  # noqa: PLC0415
    from fcshim.mcp.hub import ToolHub  # noqa: PLC0415 - a slow import, after the arguments are checked
    from fcshim.mcp.manager import Manager  # noqa: PLC0415
    from fcshim.mcp.pins import Pins, default_pin_file  # noqa: PLC0415

    pin_file = Path(arguments.pins) if arguments.pins else default_pin_file(os.environ)
    forwarding = ClientForwarding()
    reader = _PageReader(arguments.model, config) if arguments.model else None
    permissions = Permissions(rules=rules)
    find_model = forwarding.find_model if reader is None else lambda: reader.ask
    builtin = _builtin_tools(arguments, config, find_model, permissions)
    manager = Manager(
        servers,
        pins=Pins(pin_file),
        sampling=forwarding.sample,
        elicitation=forwarding.elicit,
        unattended=permissions.may_run_unasked,
    )
    hub = ToolHub(builtin, custom=custom, manager=manager if servers else None, background=True)
    asyncio.run(_serve(hub, forwarding, permissions, rules, servers, arguments, config))
    return 0


class _PageReader:
    """The model of an endpoint, which reads web pages for WebFetch."""

    def __init__(self, url: str, config: Config) -> None:
        self._url = url
        self._config = config

    async def ask(self, text: str) -> str:
        """Have the model answer a text."""
        from fcshim.client import Client  # noqa: PLC0415 - slow, and only for pages
        from fcshim.tools.summary import ANSWER_TOKENS  # noqa: PLC0415

        config = self._config
        key = config.upstream_key.reveal() if config.upstream_key else None
        model = config.background_model or None
        async with Client(self._url, api=config.upstream_api, api_key=key, model=model) as client:
            return (await client.complete(text, max_tokens=ANSWER_TOKENS)).text


def _restrict(permissions: Permissions, http: bool, rules: tuple[PermissionRule, ...]) -> None:  # noqa: FBT001
    """Allow only what a command's `allowed-tools` names, and other commands, until another one restricts the tools.

    Raises `ToolError` over HTTP, where clients share the permissions.
    """
    if http:
        raise ToolError("This command allows some tools only, which is not possible over HTTP: its clients share them.")
    permissions.lift_restrictions()
    permissions.restrict((*rules, PermissionRule("allow", "slash_command")))


def _check_effects(arguments: argparse.Namespace) -> None:
    """Refuse options that would have no effect: their user would believe that they had one. Raises `ConfigError`."""
    given = vars(arguments)
    for option, needed in _NEEDS.items():
        is_given = option in given if option in _SETTINGS else given[option] not in (None, False, _DEFAULTS.get(option))
        if is_given and not any(given[name] for name in needed):
            wanted = " or ".join(f"--{name.replace('_', '-')}" for name in needed)
            raise ConfigError(f"--{option.replace('_', '-')} has no effect without {wanted}")


async def _serve(
    hub: "ToolHub",
    forwarding: "ClientForwarding",
    permissions: Permissions,
    rules: tuple[PermissionRule, ...],
    servers: Sequence[McpServerConfig],
    arguments: argparse.Namespace,
    config: Config,
) -> None:
    from fcshim.mcp.gateway_server import serve_http, serve_stdio  # noqa: PLC0415

    gateway = _gateway(hub, forwarding, permissions, full_rules(arguments.only), config.max_chars)
    notifications: set[asyncio.Task[None]] = set()  # asyncio itself keeps only weak references to tasks

    def notify() -> None:
        task = asyncio.ensure_future(gateway.notify_tools_changed())
        notifications.add(task)
        task.add_done_callback(notifications.discard)

    hub.set_change_listener(notify)
    async with hub:
        prefixes = [PREFIX + server_prefix(server.name) for server in servers]
        check_rules(rules, hub.registry, prefixes, [server.category for server in servers])
        sys.stderr.writelines(f"{note}\n" for note in rule_notes(rules))
        if arguments.http:
            from fcshim.server.protocol import limited_protocol, process_budget  # noqa: PLC0415 - only for HTTP

            key = arguments.api_key or os.environ.get("FCSHIM_MCP_KEY")
            sys.stderr.write(f"http://{host_and_port(arguments.host, arguments.port)}/mcp\n")
            protocol = limited_protocol(Config(), process_budget())
            secret = Secret(key) if key else None
            await serve_http(gateway, host=arguments.host, port=arguments.port, protocol=protocol, key=secret)
        else:
            await serve_stdio(gateway)


def _gateway(
    hub: "ToolHub", forwarding: "ClientForwarding", permissions: Permissions, only: list[str], max_chars: int
) -> "Gateway":
    from fcshim.mcp.gateway import Gateway  # noqa: PLC0415
    from fcshim.tools import Executor  # noqa: PLC0415
    from fcshim.tools.base import is_named  # noqa: PLC0415

    def visible(tool: "AnyTool") -> bool:
        named = not only or any(is_named(tool, pattern) for pattern in only)
        return named and permissions.may_run_unasked(tool)

    tools = Executor(hub.registry, permissions=permissions, max_output=max_chars or None)
    return Gateway(tools, visible=visible, wait_servers=hub.wait_servers, forwarding=forwarding)


def _builtin_tools(
    arguments: argparse.Namespace, config: Config, model: "FindModel", permissions: Permissions
) -> list["AnyTool"]:
    from fcshim.tools.builtin import Control, Files, Search, Shell, Skills, Web, Workspace  # noqa: PLC0415 - of an extra
    from fcshim.tools.builtin.fetch import fetch  # noqa: PLC0415 - as above
    from fcshim.tools.builtin.files import SMALL_READ_LIMIT  # noqa: PLC0415 - as above
    from fcshim.tools.builtin.websearch import configured_search  # noqa: PLC0415 - as above

    tools: list[AnyTool] = []
    if arguments.root:
        workspace = Workspace(arguments.root, restrict=config.restrict_to_workspace)
        tools += [
            *Files(workspace, read_limit=SMALL_READ_LIMIT).tools(),
            *Search(workspace).tools(),
            *Shell(workspace, seconds=config.exec_timeout).tools(),
        ]
        tools += Web(model=model, service=configured_search(config), allow_private=arguments.private).tools()
        commands = Path(arguments.commands) if arguments.commands else None
        tools += Control(commands=commands, restrict=partial(_restrict, permissions, arguments.http)).tools()
    if arguments.skills:

        async def load(url: str) -> str:
            return (await fetch(url, allow_private=arguments.private)).text

        tools += Skills(Path(arguments.skills), index=arguments.skill_index or "", load=load).tools()
    return tools
