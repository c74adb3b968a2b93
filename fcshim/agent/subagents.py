"""Tools for sub-agents: an agent gives a task to another agent, with some of its tools.

Rule: a sub-agent has at most the permissions of its parent and starts no sub-agents; all end with the conversation. The
docstrings of the tools are their descriptions for models.
"""

import asyncio
import itertools
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Literal, TypeAlias

import msgspec

from fcshim.agent.loop import DEFAULT_MAX_ROUNDS
from fcshim.agent.run import Agent, ReplyStream
from fcshim.errors import ConfigError, FcshimError, ToolError
from fcshim.messages import Message, SystemMessage, TextPart, Tool, UserMessage
from fcshim.tools import Executor, FunctionTool, Permissions, Registry, Traits
from fcshim.tools.front_matter import read_front_matter
from fcshim.tools.permission import PermissionMode

AskNamedModel: TypeAlias = Callable[[tuple[Message, ...], tuple[Tool, ...], str | None], ReplyStream]
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
_NAMES = ("spawn_agent", "subagent_list", "subagent_status")


class SubAgentProfile(msgspec.Struct, frozen=True):
    """A kind of sub-agent that the operator describes: its system message, tools and model."""

    system: str = ""
    tools: tuple[str, ...] = ()
    model: str | None = None


def load_profiles(folder: Path) -> dict[str, SubAgentProfile]:
    """Read the profiles of a folder: `NAME.md` with the system message, `tools` and `model` in its front matter.

    Raises `ConfigError` if it is not a folder.
    """
    if not folder.is_dir():
        raise ConfigError(f"{folder}: not a folder; expected one with NAME.md files that describe agents")
    return {file.stem: _read_profile(file) for file in sorted(folder.glob("*.md"))[:_MAX_PROFILES]}


def _read_profile(file: Path) -> SubAgentProfile:
    with file.open(encoding="utf-8", errors="replace") as opened:
        fields, system = read_front_matter(opened.read(_PROFILE_SIZE))
    tools = tuple(filter(None, re.split(r"[\s,]+", fields.get("tools", "").strip("[]"))))
    return SubAgentProfile(system.strip(), tools, fields.get("model") or None)


class _SubAgentRun(msgspec.Struct):
    id: str
    prompt: str
    state: State = "running"
    result: str = ""
    task: asyncio.Task[None] | None = None


class SubAgents:
    """The sub-agents of one conversation. Close it with the conversation.

    `registry` has the parent's tools, `mode` returns its permission mode, `permissions` makes those of a sub-agent.
    """

    def __init__(
        self,
        ask: AskNamedModel,
        registry: Registry,
        *,
        permissions: MakePermissions = Permissions,
        mode: Callable[[], PermissionMode] = lambda: "ask",
        profiles: Mapping[str, SubAgentProfile] | None = None,
    ) -> None:
        self._ask, self._registry = ask, registry
        self._permissions, self._mode = permissions, mode
        self._profiles = dict(profiles or {})
        self._runs: dict[str, _SubAgentRun] = {}
        self._numbers = itertools.count(1)

    def tools(self) -> list[FunctionTool]:
        """Return the tools."""
        safe = Traits(sensitivity="safe", reads_only=True, source="builtin:agents")
        spawn = FunctionTool(
            self.spawn_agent, traits=Traits(source="builtin:agents", subject="prompt", timeout=3_600.0)
        )
        if self._profiles:
            kinds = f"{spawn.definition.description}\n\nKinds of agents: {', '.join(self._profiles)}."
            spawn.definition = msgspec.structs.replace(spawn.definition, description=kinds)
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
        permissionMode: PermissionMode | None = None,  # noqa: N803
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
            tools: names of tools that it gets, besides those of servers
        """
        profile = self.profile(agent)
        if sum(run.state == "running" for run in self._runs.values()) >= MAX_RUNNING:
            raise ToolError(f"{MAX_RUNNING} sub-agents are running already; wait for one.")
        executor = Executor(
            self._inherited_tools(profile, tools), permissions=self._permissions(self._clamp_mode(permissionMode))
        )
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

    def profile(self, name: str | None) -> SubAgentProfile:
        """Return a kind of agent; None is the ordinary one. Raises `ToolError` for an unknown one."""
        if name is None:
            return SubAgentProfile()
        if name not in self._profiles:
            raise ToolError(f"There is no agent {name}. There are: {', '.join(self._profiles) or 'none'}.")
        return self._profiles[name]

    def _inherited_tools(self, profile: SubAgentProfile, named: Sequence[str] | None) -> Registry:
        inherited = self._registry.create_inherited(profile.tools if named is None else named)
        for name in _NAMES:
            inherited.unregister(name)
        return inherited

    def _clamp_mode(self, requested: PermissionMode | None) -> PermissionMode:
        """Return the requested mode, but at most the parent's."""
        own = self._mode()
        return own if requested is None else min(own, requested, key=_MODES_BY_PERMISSION.index)

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
