"""Tools for sub-agents: an agent gives a task to another agent, with some of its tools.

Rule: a sub-agent has at most the permissions of its parent and starts no sub-agents; all end with the conversation. The
docstrings of the tools are their descriptions for models.
"""

import asyncio
import itertools
import re
from collections.abc import AsyncIterable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from pathlib import Path
from typing import Literal, Protocol, TypeAlias

import msgspec

from fcshim.agent.loop import DEFAULT_MAX_ROUNDS
from fcshim.agent.run import Agent
from fcshim.errors import ConfigError, FcshimError, ToolError
from fcshim.events import Event
from fcshim.mcp.config_file import load_servers
from fcshim.mcp.settings import McpServerConfig
from fcshim.messages import Message, SystemMessage, TextPart, Tool, UserMessage
from fcshim.tools import AnyTool, Executor, FunctionTool, Permissions, Registry, Traits
from fcshim.tools.base import is_named
from fcshim.tools.front_matter import read_front_matter
from fcshim.tools.permission import ModeName, PermissionMode, parse_mode

AskNamedModel: TypeAlias = Callable[[tuple[Message, ...], tuple[Tool, ...], str | None], AsyncIterable[Event]]
"""Requests the next reply to a conversation from the model of this name (None: the default model)."""
MakePermissions: TypeAlias = Callable[[PermissionMode], Permissions]
State: TypeAlias = Literal["running", "done", "failed", "stopped"]

MAX_RUNNING = 8
"""Sub-agents at a time; each one sends its own requests to the model."""
_MAX_KEPT = 100
"""Runs whose status is kept; beyond that the oldest finished ones are forgotten."""
_MODES_BY_PERMISSION: tuple[PermissionMode, ...] = ("read_only", "ask", "accept_edits", "allow")
"""From the narrowest permission to the widest."""
_MAX_PROFILES = 100
_PROFILE_SIZE = 64 * 1024
"""Characters of a profile, which is part of each request of its agent."""
_AGENT_SOURCES = ("builtin:agents", "builtin:sessions")
"""Sources of tools that sub-agents do not get, since they cannot start agents."""
_MCP_SOURCE = "mcp:"


class SubAgentProfile(msgspec.Struct, frozen=True):
    """A kind of sub-agent that the operator describes.

    `tools`: names, patterns and categories (`@web`) of the only tools that it has; None for those of its parent.
    `server_ids`: the only servers whose tools it has, all of them, besides `tools`; None leaves that to `tools`.
    `servers`: servers of its own, which nobody else has. `mode`: the widest permission that it gets.
    """

    system: str = ""
    tools: tuple[str, ...] | None = None
    model: str | None = None
    description: str = ""
    mode: PermissionMode | None = None
    server_ids: tuple[str, ...] | None = None
    servers: tuple[McpServerConfig, ...] = ()

    def admits(self, tool: AnyTool) -> bool:
        """Return whether such an agent has a tool of its parent."""
        source = tool.traits.source
        if self.server_ids is not None and source.startswith(_MCP_SOURCE):
            return source.removeprefix(_MCP_SOURCE) in self.server_ids
        return self.tools is None or any(is_named(tool, pattern) for pattern in self.tools)


ORDINARY = SubAgentProfile()
"""A sub-agent of no kind."""


def load_profiles(folder: Path, env: Mapping[str, str], *, strict_packages: bool = False) -> dict[str, SubAgentProfile]:
    """Read the profiles of a folder: `NAME.md` with the system message, and in its front matter the other fields.

    These are `description`, `tools`, `model`, `permissionMode`, `mcpServerIds`, and `directMcpServers`, which names a
    servers file in the folder, read with `env` and `strict_packages` as `load_servers` does. Raises `ConfigError`.
    """
    if not folder.is_dir():
        raise ConfigError(f"{folder}: not a folder; expected one with NAME.md files that describe agents")
    profiles = {}
    for file in sorted(folder.glob("*.md"))[:_MAX_PROFILES]:
        with file.open(encoding="utf-8", errors="replace") as opened:
            fields, system = read_front_matter(opened.read(_PROFILE_SIZE))
        own = fields.get("directMcpServers")
        try:
            profiles[file.stem] = SubAgentProfile(
                system.strip(),
                _listed(fields.get("tools")),
                fields.get("model") or None,
                fields.get("description", ""),
                parse_mode(fields["permissionMode"]) if fields.get("permissionMode") else None,
                _listed(fields.get("mcpServerIds")),
                load_servers(folder / own, env, strict_packages=strict_packages) if own else (),
            )
        except ConfigError as error:
            raise ConfigError(f"{file}: {error.message}") from error
    return profiles


def _listed(value: str | None) -> tuple[str, ...] | None:
    """Return the items of a field, None for one without a value; `[]` is no items."""
    return tuple(filter(None, re.split(r"[\s,\"']+", value.strip("[]")))) if value else None


def describe_kinds(description: str, profiles: Mapping[str, SubAgentProfile]) -> str:
    """Return the description of a tool that starts agents, with the kinds of agents."""
    kinds = (f"{name} ({each.description})" if each.description else name for name, each in profiles.items())
    return f"{description}\n\nKinds of agents: {', '.join(kinds)}." if profiles else description


class OwnTools(Protocol):
    """The tools of an agent's own servers, while these run."""

    @property
    def tools(self) -> Sequence[AnyTool]:
        """The tools that are there now."""


OpenServers: TypeAlias = Callable[[tuple[McpServerConfig, ...]], AbstractAsyncContextManager[OwnTools]]
"""Starts an agent's own servers, and ends them; `fcshim.mcp.loading.SessionTools` fits."""
IsEligible: TypeAlias = Callable[[AnyTool, str | None], bool]
"""Returns whether an agent of a kind (None: of no kind) may have a tool."""


def _everything(_: AnyTool, __: str | None) -> bool:
    return True


class _SubAgentRun(msgspec.Struct):
    id: str
    prompt: str
    state: State = "running"
    result: str = ""
    task: asyncio.Task[None] | None = None


class SubAgents:
    """The sub-agents of one conversation. Close it with the conversation.

    `registry` has the parent's tools, `mode` returns its permission mode, `permissions` makes those of a sub-agent.
    `open_servers` starts a kind's own servers, at its first use; they end with the conversation. A sub-agent gets only
    tools that are `eligible` for its kind. `max_output`: as for `Executor`.
    """

    def __init__(
        self,
        ask: AskNamedModel,
        registry: Registry,
        *,
        permissions: MakePermissions = Permissions,
        mode: Callable[[], PermissionMode] = lambda: "ask",
        profiles: Mapping[str, SubAgentProfile] | None = None,
        open_servers: OpenServers | None = None,
        eligible: IsEligible = _everything,
        max_output: int | None = None,
    ) -> None:
        self._ask, self._registry = ask, registry
        self._permissions, self._mode = permissions, mode
        self._profiles = dict(profiles or {})
        self._open_servers, self._eligible = open_servers, eligible
        self._max_output = max_output
        self._own_tools: dict[str, OwnTools] = {}
        self._opening = asyncio.Lock()
        self._stack = AsyncExitStack()
        self._runs: dict[str, _SubAgentRun] = {}
        self._numbers = itertools.count(1)

    def tools(self) -> list[FunctionTool]:
        """Return the tools."""
        safe = Traits(sensitivity="safe", reads_only=True, source="builtin:agents")
        spawn = FunctionTool(
            self.spawn_agent, traits=Traits(source="builtin:agents", subject="prompt", timeout=3_600.0)
        )
        described = describe_kinds(spawn.definition.description, self._profiles)
        spawn.definition = msgspec.structs.replace(spawn.definition, description=described)
        return [
            spawn,
            FunctionTool(self.subagent_list, traits=safe),
            FunctionTool(self.subagent_status, traits=safe),
        ]

    async def spawn_agent(
        self,
        prompt: str,
        agent: str | None = None,
        model: str | None = None,
        *,
        background: bool = False,
        maxIterations: int = DEFAULT_MAX_ROUNDS,  # noqa: N803 - the parameter names that models see
        permissionMode: ModeName | None = None,  # noqa: N803
        tools: list[str] | None = None,
    ) -> str:
        """Give a task to a sub-agent. It knows nothing of this conversation: the prompt must say everything.

        Args:
            prompt: the task
            agent: a kind of agent, if the user described some
            model: another model for it
            background: do not wait; ask for its status later
            maxIterations: how often it may call tools
            permissionMode: what it may do; at most what you may
            tools: names of tools that it gets, besides those of servers; without them it gets yours
        """
        profile = self.profile(agent)
        if sum(run.state == "running" for run in self._runs.values()) >= MAX_RUNNING:
            raise ToolError(f"{MAX_RUNNING} sub-agents are running already; wait for one.")
        registry = await self.tools_of(agent, tools)
        asked = None if permissionMode is None else parse_mode(permissionMode)
        permissions = self._permissions(self.mode_of(profile, asked))
        executor = Executor(registry, permissions=permissions, max_output=self._max_output)
        model_name = model or profile.model
        sub_agent = Agent(
            lambda messages, offered: self._ask(messages, offered, model_name),
            executor,
            max_rounds=max(1, maxIterations),
        )
        run = self._new_run(prompt)
        run.task = asyncio.create_task(
            _run_agent(run, sub_agent, _first_messages(profile, prompt)), name=f"sub-agent {run.id}"
        )
        return f"Started sub-agent {run.id}." if background else await _wait_for_result(run)

    def subagent_list(self) -> str:
        """List the sub-agents."""
        return (
            "\n".join(f"{run.id}  {run.state}  {run.prompt[:80]}" for run in self._runs.values()) or "There are none."
        )

    def subagent_status(self, runId: str) -> str:  # noqa: N803
        """Report the status of a sub-agent, and its answer."""
        run = self._runs.get(runId)
        if run is None:
            raise ToolError(f"There is no sub-agent {runId}. There are: {', '.join(self._runs) or 'none'}.")
        return f"{run.state}\n{run.result}".rstrip()

    async def aclose(self) -> None:
        """Stop all sub-agents."""
        tasks = [run.task for run in self._runs.values() if run.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._stack.aclose()

    def profile(self, name: str | None) -> SubAgentProfile:
        """Return a kind of agent; None is the ordinary one. Raises `ToolError` for an unknown one."""
        if name is None:
            return ORDINARY
        if name not in self._profiles:
            raise ToolError(f"There is no agent {name}. There are: {', '.join(self._profiles) or 'none'}.")
        return self._profiles[name]

    async def tools_of(self, kind: str | None, named: Sequence[str] | None = None) -> Registry:
        """Return the tools of a sub-agent of a kind for which its parent names tools (None: all that it may have).

        Raises `ToolError` for an unknown kind.
        """
        profile = self.profile(kind)
        own = await self._tools_of_own_servers(kind, profile)
        given = Registry(tool for tool in self._registry if not tool.traits.source.startswith(_AGENT_SOURCES))
        inherited = given if named is None else given.create_inherited(named)
        tools = [tool for tool in inherited if profile.admits(tool)]
        taken = {tool.definition.name for tool in tools}
        tools += [tool for tool in own if tool.definition.name not in taken]
        return Registry(tool for tool in tools if self._eligible(tool, kind))

    async def _tools_of_own_servers(self, kind: str | None, profile: SubAgentProfile) -> Sequence[AnyTool]:
        if kind is None or not profile.servers:
            return ()
        if self._open_servers is None:
            raise ToolError(f"The servers of the agent {kind} cannot be started here.")
        async with self._opening:
            if kind not in self._own_tools:
                opening = self._open_servers(profile.servers)
                self._own_tools[kind] = await self._stack.enter_async_context(opening)
        return self._own_tools[kind].tools

    def mode_of(self, profile: SubAgentProfile, requested: PermissionMode | None = None) -> PermissionMode:
        """Return the requested mode, but at most the parent's and the profile's."""
        modes = (self._mode(), profile.mode, requested)
        return min((mode for mode in modes if mode is not None), key=_MODES_BY_PERMISSION.index)

    def _new_run(self, prompt: str) -> _SubAgentRun:
        ended = [run.id for run in self._runs.values() if run.state != "running"]
        for run_id in ended[: max(0, len(self._runs) - _MAX_KEPT)]:
            del self._runs[run_id]
        run = _SubAgentRun(f"agent-{next(self._numbers)}", prompt)
        self._runs[run.id] = run
        return run


def _first_messages(profile: SubAgentProfile, prompt: str) -> Iterable[Message]:
    if profile.system:
        yield SystemMessage((TextPart(profile.system),))
    yield UserMessage((TextPart(prompt),))


async def _run_agent(run: _SubAgentRun, agent: Agent, messages: Iterable[Message]) -> None:
    try:
        ended = await agent.answer(tuple(messages))
    except FcshimError as error:
        run.state, run.result = "failed", error.message
    except asyncio.CancelledError:
        run.state = "stopped"
        raise
    else:
        run.state, run.result = "done", ended.answer or ""


async def _wait_for_result(run: _SubAgentRun) -> str:
    """Wait for a sub-agent and return its answer; cancelling the wait stops the sub-agent."""
    assert run.task is not None
    try:
        await run.task
    except asyncio.CancelledError:
        run.task.cancel()
        raise
    if run.state == "failed":
        raise ToolError(f"The sub-agent failed: {run.result}")
    return run.result or "(it said nothing)"
