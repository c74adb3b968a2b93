"""Decides whether a call may run.

Rule: the checks are, in order: deny rules, the mode's prohibitions, calls that need no approval, remembered decisions,
the user. Without a user to ask, the call is refused. A decision is remembered for the calls that its question names.

| mode | safe tools | Write, Edit | everything else, including every MCP tool |
|---|---|---|---|
| ask | run | ask | ask |
| accept_edits | run | run | ask |
| read_only | run | refused | refused; ask for a tool whose server declares that it only reads |
| allow | run | run | run |
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterable, Mapping
from pathlib import Path
from typing import Literal, TypeAlias, get_args

import msgspec

from fcshim.errors import ConfigError, ToolError
from fcshim.events import JSON
from fcshim.tools.base import AnyTool, FileChange, Traits, tool_category
from fcshim.tools.command_subject import CommandSubject
from fcshim.tools.commands.risks import inspect_command
from fcshim.tools.rules import PermissionRule, judge
from fcshim.tools.subjects import PathSubject, Subject, TextSubject, UrlSubject

PermissionMode: TypeAlias = Literal["ask", "accept_edits", "read_only", "allow"]
ModeName: TypeAlias = Literal["ask", "accept_edits", "read_only", "allow", "plan", "acceptEdits"]
"""The names of modes that users and models may write."""
_MODE_ALIASES: dict[ModeName, PermissionMode] = {"plan": "read_only", "acceptEdits": "accept_edits"}


def parse_mode(name: str) -> PermissionMode:
    """Return the mode of a name, which may be one of other agents (`plan`, `acceptEdits`). Raises `ConfigError`."""
    for known in get_args(ModeName):
        if name == known:
            mode: PermissionMode = _MODE_ALIASES.get(known, known)
            return mode
    raise ConfigError(f"there is no mode {name:.40}; expected one of {', '.join(get_args(ModeName))}")


class PermissionRequest(msgspec.Struct, frozen=True):
    """A call that the user has to approve or refuse.

    `scope` says for which calls the decision can be remembered, `warnings` what the call risks, each as a verb phrase,
    `change` the change that it would make to a file.
    """

    name: str
    arguments: Mapping[str, JSON]
    traits: Traits
    scope: str = "this call"
    warnings: tuple[str, ...] = ()
    change: FileChange | None = None


class PermissionDecision(msgspec.Struct, frozen=True):
    """A decision; `remember` keeps it for the conversation. The model gets the `reason` of a refusal."""

    allowed: bool
    remember: bool = False
    reason: str = ""


AskPermission: TypeAlias = Callable[[PermissionRequest], Awaitable[PermissionDecision]]

Restrictions: TypeAlias = tuple[tuple[PermissionRule, ...], ...]
"""Lists of rules; a call runs only if each list allows it. Sub-agents get those of their parent."""

_LISTED = 5
_READ_ONLY_REFUSAL = "The tools are read-only now: plan, and say what you would do."
_RESTRICTED_REFUSAL = "The command that the user gave allows other tools only."
_NO_USER_REFUSAL = "It needs permission, and there is no user to ask."
_USER_REFUSAL = "The user refused."


class Permissions:
    """Decides about the calls of one conversation; `ask` is called for one call at a time."""

    def __init__(
        self,
        mode: PermissionMode = "ask",
        *,
        rules: Iterable[PermissionRule] = (),
        ask: AskPermission | None = None,
        restrictions: Restrictions = (),
    ) -> None:
        self.mode = mode
        self._rules = tuple(rules)
        self._ask = ask
        self._remembered: dict[tuple[str, str], PermissionDecision] = {}
        self._ask_lock = asyncio.Lock()
        self.restrictions = restrictions

    def restrict(self, rules: Iterable[PermissionRule]) -> None:
        """Allow only calls that these rules allow, until `lift_restrictions`; earlier restrictions stay too."""
        self.restrictions = (*self.restrictions, tuple(rules))

    def lift_restrictions(self) -> None:
        """Forget all restrictions."""
        self.restrictions = ()

    def offers(self, tool: AnyTool) -> bool:
        """Return whether any call of a tool could run; other tools are not offered to the model."""
        name, traits = tool.definition.name, tool.traits
        if self.mode == "read_only" and not _only_reads(traits):
            return False
        category = tool_category(tool)
        return all(any(rule.is_about(name, category) for rule in rules) for rules in self.restrictions)

    def forbidden_reason(self, tool: AnyTool) -> str | None:
        """Return why no call of a tool may run, whatever its arguments, for the model; None if one may."""
        name = tool.definition.name
        rules = (rule for rule in self._rules if rule.subject is None)
        if judge(rules, (name,), TextSubject(""), tool_category(tool)) == "deny":
            return f"A rule of the user forbids {name} here."
        if self.offers(tool):
            return None
        return _READ_ONLY_REFUSAL if self.mode == "read_only" and not _only_reads(tool.traits) else _RESTRICTED_REFUSAL

    async def refusal_reason(self, tool: AnyTool, arguments: Mapping[str, JSON]) -> str | None:
        """Return why the call may not run, for the model; None if it may."""
        traits, name = tool.traits, tool.definition.name
        category = tool_category(tool)
        verdict = judge(self._rules, (name, *traits.ruled_as), _subject(traits, arguments), category)
        if verdict == "deny":
            return f"A rule of the user forbids {name} here."
        if self.mode == "read_only" and not _only_reads(traits):
            return _READ_ONLY_REFUSAL
        if any(judge(rules, (name,), _subject(traits, arguments), category) != "allow" for rules in self.restrictions):
            return _RESTRICTED_REFUSAL
        if verdict != "ask" and (verdict == "allow" or self.runs_unasked(traits)):
            return None
        # If a rule requires the question, or it is about one command, the decision holds for these arguments only.
        exact = verdict == "ask" or bool(traits.subject and traits.sensitivity == "ask")
        answer = await self._decide(name, arguments, traits, exact=exact)
        return None if answer.allowed else answer.reason or _USER_REFUSAL

    def forbids_reading(self, file: Path, root: Path) -> bool:
        """Return whether a deny rule forbids reading a file, whichever tool names it."""
        return judge(self._rules, ("Read",), PathSubject(str(file), root), "files") == "deny"

    def may_open(self, tool: AnyTool) -> Callable[[Path], bool]:
        """Return which files a call may open that its arguments do not name: none under a deny or ask rule."""
        traits = tool.traits
        names = (tool.definition.name, *traits.ruled_as)
        root = traits.root
        rules = [rule for rule in self._rules if rule.verdict != "allow" and rule.subject is not None]
        if root is None or not rules:
            return lambda _: True
        return lambda file: judge(rules, names, PathSubject(str(file), root)) is None

    def runs_unasked(self, traits: Traits) -> bool:
        """Return whether calls of such a tool run without a question, where no rule says otherwise."""
        if traits.sensitivity == "safe" or traits.allowed or self.mode == "allow":
            return True
        return self.mode == "accept_edits" and traits.sensitivity == "edit"

    def may_run_unasked(self, tool: AnyTool) -> bool:
        """Return whether any call of a tool may run without a question, by its traits or by a rule."""
        named = [rule for rule in self._rules if rule.is_about(tool.definition.name, tool_category(tool))]
        if any(rule.verdict == "deny" and rule.subject is None for rule in named):
            return False
        return self.runs_unasked(tool.traits) or any(rule.verdict == "allow" for rule in named)

    async def _decide(
        self, name: str, arguments: Mapping[str, JSON], traits: Traits, *, exact: bool
    ) -> PermissionDecision:
        """Return the remembered decision or ask: about these arguments if `exact`, else about all calls of the tool."""
        key = (name, json.dumps(arguments, sort_keys=True) if exact else "")
        scope = "this very call" if exact else f"every call of {name}"
        async with self._ask_lock:
            if key in self._remembered:
                return self._remembered[key]
            if self._ask is None:
                return PermissionDecision(allowed=False, reason=_NO_USER_REFUSAL)
            request = PermissionRequest(name, arguments, traits, scope, _warnings(traits, arguments))
            answer = await self._ask(await asyncio.to_thread(_with_change, request))
            if answer.remember:
                self._remembered[key] = answer
            return answer


def _only_reads(traits: Traits) -> bool:
    return traits.sensitivity == "safe" or traits.reads_only


def describe_untrusted(tools: Iterable[AnyTool], may_run: Callable[[AnyTool], bool]) -> str:
    """Describe the tools that would run by their servers' own word alone, where nobody can be asked; empty for none."""
    names = [tool.definition.name for tool in tools if tool.traits.reads_only and not may_run(tool)]
    if not names:
        return ""
    more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    return (
        f"{', '.join(names[:_LISTED])}{more}: refused here, where nobody can be asked, although the server says that "
        'they only read; --allow lets single tools run, "trust": "annotations" in the servers file all of a server'
    )


def _warnings(traits: Traits, arguments: Mapping[str, JSON]) -> tuple[str, ...]:
    """Return what a call risks: by its tool, and for a command as far as its words show it."""
    if traits.subject_kind != "command":
        return traits.warnings
    risks = inspect_command(str(arguments.get(traits.subject, "")), traits.root or Path.cwd())
    return (f"will be refused: {risks.refusal}", *risks.warnings) if risks.refusal else risks.warnings


def _with_change(request: PermissionRequest) -> PermissionRequest:
    """Return the request with the change that the call would make to a file, or why it will fail."""
    if request.traits.change is None:
        return request
    try:
        change = request.traits.change(request.arguments)
    except ToolError as error:
        return msgspec.structs.replace(request, warnings=(*request.warnings, f"will fail: {error.message}"))
    if change is not None and change.before is None:
        return msgspec.structs.replace(request, warnings=(*request.warnings, "replaces a file that is not text"))
    return msgspec.structs.replace(request, change=change)


def _subject(traits: Traits, arguments: Mapping[str, JSON]) -> Subject:
    text = str(arguments.get(traits.subject, "")) if traits.subject else ""
    match traits.subject_kind:
        case "command":
            return CommandSubject(text)
        case "path":
            return PathSubject(text, traits.root or Path.cwd())
        case "url":
            return UrlSubject(text)
        case "text":
            return TextSubject(text)
