"""Decides whether a call may run.

Rule: the checks are, in order: deny rules, the mode's prohibitions, calls that need no approval, remembered decisions,
the user. Without a user to ask, the call is refused.

| mode | safe tools | Write, Edit | everything else, including every MCP tool |
|---|---|---|---|
| ask | run | ask | ask |
| accept_edits | run | run | ask |
| read_only | run | refused | refused; ask for a tool whose server declares that it only reads |
| allow | run | run | run |
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Literal, TypeAlias

import msgspec

from fcshim.events import JSON
from fcshim.tools.base import AnyTool, Traits
from fcshim.tools.rules import PermissionRule, first_match

PermissionMode: TypeAlias = Literal["ask", "accept_edits", "read_only", "allow"]


class PermissionRequest(msgspec.Struct, frozen=True):
    """A call that the user has to approve or refuse."""

    name: str
    arguments: Mapping[str, JSON]
    traits: Traits


class PermissionDecision(msgspec.Struct, frozen=True):
    """A decision; `remember` keeps it for the conversation. The model gets the `reason` of a refusal."""

    allowed: bool
    remember: bool = False
    reason: str = ""


AskPermission: TypeAlias = Callable[[PermissionRequest], Awaitable[PermissionDecision]]

_READ_ONLY_REFUSAL = "The tools are read-only now: plan, and say what you would do."
_NO_USER_REFUSAL = "It needs permission, and there is nobody to ask."
_USER_REFUSAL = "The user refused."


class Permissions:
    """Decides about the calls of one conversation; `ask` is called for one call at a time."""

    def __init__(
        self, mode: PermissionMode = "ask", *, rules: Iterable[PermissionRule] = (), ask: AskPermission | None = None
    ) -> None:
        self.mode = mode
        self._rules = tuple(rules)
        self._ask = ask
        self._remembered: dict[tuple[str, str], PermissionDecision] = {}
        self._ask_lock = asyncio.Lock()

    async def refusal_reason(self, tool: AnyTool, arguments: Mapping[str, JSON]) -> str | None:
        """Return why the call may not run, for the model; None if it may."""
        traits, name = tool.traits, tool.definition.name
        subject = str(arguments.get(traits.subject, "")) if traits.subject else ""
        rule = first_match(self._rules, name, subject)
        verdict = rule.verdict if rule is not None else None
        if verdict == "deny":
            return f"A rule of the user forbids {name} here."
        if self.mode == "read_only" and not (traits.sensitivity == "safe" or traits.reads_only):
            return _READ_ONLY_REFUSAL
        if verdict != "ask" and (verdict == "allow" or self._runs_unasked(traits)):
            return None
        answer = await self._decide(PermissionRequest(name, arguments, traits), subject)
        return None if answer.allowed else answer.reason or _USER_REFUSAL

    def _runs_unasked(self, traits: Traits) -> bool:
        if traits.sensitivity == "safe" or traits.allowed or self.mode == "allow":
            return True
        return self.mode == "accept_edits" and traits.sensitivity == "edit"

    async def _decide(self, request: PermissionRequest, subject: str) -> PermissionDecision:
        """Return the remembered decision or ask: per exact subject (a command) for sensitivity `ask`, else per tool."""
        key = (request.name, subject if request.traits.sensitivity == "ask" else "")
        async with self._ask_lock:
            if key in self._remembered:
                return self._remembered[key]
            if self._ask is None:
                return PermissionDecision(allowed=False, reason=_NO_USER_REFUSAL)
            answer = await self._ask(request)
            if answer.remember:
                self._remembered[key] = answer
            return answer
