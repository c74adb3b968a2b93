"""Asks the user for the fields of a server's form, one by one.

Rule: nothing is sent to the server before the user has agreed to answer and the answers match its schema.
"""

import json
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, TypeAlias

from fcshim.errors import ToolError
from fcshim.events import JSON
from fcshim.messages import Tool
from fcshim.tools.arguments import read_arguments

if TYPE_CHECKING:
    from fcshim.mcp.server_requests import ElicitationForm

PromptLine: TypeAlias = Callable[[str], Awaitable[str | None]]
"""Asks for one line; None means that the user wants to stop."""

_MAX_ATTEMPTS = 3


async def fill_form(form: "ElicitationForm", prompt: PromptLine) -> Mapping[str, JSON] | None:
    """Ask for every field of a form; return None if the user declines or gives invalid answers too often."""
    question = " ".join(form.message.split())
    answer = await prompt(f"  a server asks: {question}\n  answer it? [y]es, [n]o: ")
    if answer not in ("y", "yes"):
        return None
    error_line = ""
    for _ in range(_MAX_ATTEMPTS):
        values = await _ask_fields(form, prompt, error_line)
        if values is None:
            return None
        try:
            return read_arguments(Tool(name="the answer", parameters=form.schema), json.dumps(values))
        except ToolError as error:
            error_line = f"  {error.message}\n"
    return None


async def _ask_fields(form: "ElicitationForm", prompt: PromptLine, error: str) -> dict[str, str] | None:
    values: dict[str, str] = {}
    properties = form.schema.get("properties")
    for name, schema in (properties if isinstance(properties, dict) else {}).items():
        line = await prompt(f"{error}  {name}{_field_hint(schema)}: ")
        error = ""
        if line is None:
            return None
        if line:
            values[name] = line
    return values


def _field_hint(schema: JSON) -> str:
    if not isinstance(schema, dict):
        return ""
    choices = schema.get("enum") or [schema.get("type", "")]
    parts = [str(schema.get("description") or ""), " | ".join(map(str, choices))]
    hint = "; ".join(filter(None, parts))
    return f" ({' '.join(hint.split())})" if hint else ""
