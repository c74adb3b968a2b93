"""Refuses or leaves out tools that the client expects its provider to run.

Rule: a request that has only such tools, or that demands one, is refused. Beside other tools they are left out: one
line of the system prompt and, once per tool, one of the log say so.
"""

import logging
from collections.abc import Collection, Sequence

import msgspec

from fcshim.errors import RequestError
from fcshim.messages import ProviderTool, Request, SystemMessage, TextPart, ToolChoice, count_leading_system

logger = logging.getLogger("fcshim.server")

_MAX_LOGGED = 256
"""Tools that are remembered as logged; clients choose the names of their types."""


class ProviderToolPolicy:
    """Refuses provider tools or leaves them out; remembers which were logged."""

    def __init__(self) -> None:
        self._logged: set[str] = set()

    def apply(self, request: Request) -> Request:
        """Return the request without provider tools. A function of the same name takes the place of one.

        Raises `RequestError` if nothing else is offered, or a call of one is demanded.
        """
        functions = {tool.name for tool in request.tools}
        left_out = [tool for tool in request.provider_tools if tool.name not in functions]
        choice = _without_names(request.tool_choice, {tool.name for tool in left_out})
        stripped = msgspec.structs.replace(request, provider_tools=(), tool_choice=choice)
        if not left_out or request.tool_choice.mode == "none":
            return stripped
        _check_choice(request, left_out)
        self._log(left_out)
        return _with_note(stripped, left_out)

    def _log(self, tools: Sequence[ProviderTool]) -> None:
        for kind in dict.fromkeys(tool.type for tool in tools):
            if kind not in self._logged and len(self._logged) < _MAX_LOGGED:
                self._logged.add(kind)
                logger.info("the tool %r cannot be run here and is left out%s", kind, _hint(tools, kind))


def _check_choice(request: Request, left_out: Sequence[ProviderTool]) -> None:
    choice = request.tool_choice
    demanded = [tool for tool in left_out if choice.mode == "required" and tool.name in choice.names]
    if request.tools and len(demanded) < len(choice.names or request.tools):
        return
    named = ", ".join(repr(kind) for kind in dict.fromkeys(tool.type for tool in demanded or left_out))
    verb = "demands" if demanded else "offers only"
    raise RequestError(
        f"the request {verb} {named}. Such a tool runs at the provider of this API, and there is none behind this "
        "address, or fcshim does not know its form. Offer a function that your client runs; for the web, the operator "
        "can start fcshim with --web-search.",
        param="tool_choice" if demanded else "tools",
        kind="unsupported_tool",
    )


def _hint(tools: Sequence[ProviderTool], kind: str) -> str:
    runs_here = any(tool.type == kind and tool.action is not None for tool in tools)
    return "; --web-search lets fcshim run it" if runs_here else ""


def _without_names(choice: ToolChoice, left_out: Collection[str]) -> ToolChoice:
    """Return the choice without tools that are left out; nothing may be called if no other tool was allowed."""
    names = tuple(name for name in choice.names if name not in left_out)
    return ToolChoice(choice.mode, names) if names or not choice.names else ToolChoice("none")


def _with_note(request: Request, left_out: Sequence[ProviderTool]) -> Request:
    names = {tool.type: tool.name for tool in reversed(left_out)}  # one type may stand for several tools
    named = ", ".join(dict.fromkeys(names[tool.type] for tool in left_out))
    note = SystemMessage(
        (TextPart(f"Not available here, whatever is said elsewhere: {named}. Never pretend to use it."),)
    )
    at = count_leading_system(request.messages)
    return msgspec.structs.replace(request, messages=(*request.messages[:at], note, *request.messages[at:]))
