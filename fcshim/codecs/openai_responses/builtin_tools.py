"""Tools of the API that come without a schema: those that the client runs, and those that the provider runs.

Rule: a tool that the client runs is a row: a function for the model, named after the tool's type, and an item type of
its own for the client. A call is converted only if its arguments fit the item, so that no client runs an incomplete
call. Every other type runs at the provider.
"""

import json
from collections.abc import Iterator

import msgspec

from fcshim.codecs.json_text import expect, object_schema, read_field, read_texts, write_json
from fcshim.events import JSON
from fcshim.messages import ProviderTool, Tool


class _ShellAction(msgspec.Struct, omit_defaults=True):
    commands: list[str]
    timeout_ms: int | None = None
    max_output_length: int | None = None


class _LocalShellAction(msgspec.Struct, omit_defaults=True, tag="exec"):
    command: list[str]
    env: dict[str, str]
    timeout_ms: int | None = None
    user: str | None = None
    working_directory: str | None = None


class _CreateFile(msgspec.Struct, tag="create_file"):
    path: str
    diff: str


class _UpdateFile(msgspec.Struct, tag="update_file"):
    path: str
    diff: str


class _DeleteFile(msgspec.Struct, tag="delete_file"):
    path: str


class _BuiltinTool(msgspec.Struct, frozen=True):
    """A tool that the client runs; `field` is the item's field that has the arguments, as `content` converts them."""

    call_type: str
    description: str
    parameters: dict[str, JSON]
    field: str
    content: JSON
    defaults: dict[str, JSON] = {}
    """Members of the field that the model need not write."""
    extra: dict[str, JSON] = {}
    """Further fields of the item."""


_TEXT: JSON = {"type": "string"}
_TEXTS: JSON = {"type": "array", "items": _TEXT, "minItems": 1}
_MILLISECONDS: JSON = {"type": "integer", "minimum": 1, "description": "limit of the time, in milliseconds"}
_PATCH_SCHEMA = object_schema(
    "type",
    "path",
    type={"enum": ["create_file", "update_file", "delete_file"]},
    path=_TEXT,
    diff={
        "type": "string",
        "description": "all but delete_file: the lines of the change. A line to add begins with +, a line to remove "
        "with -, a line that stays with a blank; a line with @@ precedes each changed part. In a new file all lines "
        "begin with +.",
    },
)
_HAS_DIFF = [{"properties": {"type": {"const": "delete_file"}}}, {"required": ["diff"]}]

BUILTIN_TOOLS = {
    "shell": _BuiltinTool(
        "shell_call",
        "Run shell commands on the user's machine, one after the other.",
        object_schema(
            "commands",
            commands=_TEXTS,
            timeout_ms=_MILLISECONDS,
            max_output_length={"type": "integer", "minimum": 1, "description": "most characters of each output"},
        ),
        "action",
        _ShellAction,
    ),
    "local_shell": _BuiltinTool(
        "local_shell_call",
        "Run a command on the user's machine.",
        object_schema(
            "command",
            command={**_TEXTS, "description": 'the program and its arguments, such as ["bash", "-lc", "ls | wc"]'},
            env={"type": "object", "additionalProperties": _TEXT},
            timeout_ms=_MILLISECONDS,
            user=_TEXT,
            working_directory=_TEXT,
        ),
        "action",
        _LocalShellAction,
        defaults={"type": "exec", "env": {}},
    ),
    "apply_patch": _BuiltinTool(
        "apply_patch_call",
        "Create, change or delete a file.",
        {**_PATCH_SCHEMA, "anyOf": _HAS_DIFF},
        "operation",
        _CreateFile | _UpdateFile | _DeleteFile,
    ),
    "tool_search": _BuiltinTool(
        "tool_search_call",
        "Search for further tools; those that are found can be called afterwards.",
        object_schema("query", query=_TEXT),
        "arguments",
        dict[str, JSON],
        extra={"execution": "client"},
    ),
}
"""By type, which is also the name for the model."""
BUILTIN_CALLS = {tool.call_type: name for name, tool in BUILTIN_TOOLS.items()}
BUILTIN_OUTPUTS = {f"{tool.call_type}_output": name for name, tool in BUILTIN_TOOLS.items()} | {
    "tool_search_output": "tool_search"
}


def read_builtin_tool(tool: dict[str, JSON], path: str) -> Tool | None:
    """Read a tool that the client runs; None for any other tool. Raises `RequestError`."""
    kind = str(tool.get("type"))
    row = BUILTIN_TOOLS.get(kind)
    if row is None:
        return None
    if kind == "tool_search":
        runs_at_client = str(tool.get("execution")) == "client"
    else:
        environment = read_field(tool, "environment", dict, {}, f"{path}.")
        runs_at_client = str(environment.get("type") or "local") == "local"
    if not runs_at_client:
        return None
    description = read_field(tool, "description", str, "", f"{path}.") or row.description
    parameters = read_field(tool, "parameters", dict, row.parameters, f"{path}.")
    # Validated as a whole, because an item for the client needs valid arguments.
    return Tool(kind, description, parameters, strict=True)


def is_provider_search(kind: str) -> bool:
    """Return whether a tool is the provider's search for deferred tools, which the model gets at once instead."""
    return kind == "tool_search"


def read_provider_tools(tool: dict[str, JSON], path: str) -> Iterator[ProviderTool]:
    """Yield the tools that one entry of `tools` stands for and that run at the provider. Raises `RequestError`.

    A web search may also open pages. A client that forbids live access gets neither.
    """
    kind = str(tool.get("type") or "a tool without a type")[:80]
    if not kind.startswith("web_search") or tool.get("external_web_access") is False:
        yield ProviderTool(name=kind, type=kind)
        return
    filters = read_field(tool, "filters", dict, {}, f"{path}.")
    allowed = read_texts(filters, "allowed_domains", f"{path}.filters.")
    blocked = read_texts(filters, "blocked_domains", f"{path}.filters.")
    for name, action in (("web_search", "search"), ("open_page", "fetch")):
        yield msgspec.convert(
            {"name": name, "type": kind, "action": action, "allowed_domains": allowed, "blocked_domains": blocked},
            ProviderTool,
        )


def call_fields(name: str, arguments: str) -> dict[str, JSON] | None:
    """Return the fields of the item for a call, None where the arguments do not fit it."""
    row = BUILTIN_TOOLS[name]
    try:
        content = msgspec.convert({**row.defaults, **json.loads(arguments)}, row.content)
    except msgspec.ValidationError:
        return None
    return {row.field: msgspec.to_builtins(content), **row.extra}


def read_call(item: dict[str, JSON], path: str) -> str:
    """Return the arguments of a call in the history, as the model wrote them. Raises `RequestError`."""
    row = BUILTIN_TOOLS[BUILTIN_CALLS[item["type"]]]
    content = dict(expect(item.get(row.field), dict, f"{path}.{row.field}"))
    kept = {name: value for name, value in content.items() if value is not None and row.defaults.get(name) != value}
    return write_json(kept).decode()


def read_output(item: dict[str, JSON], path: str) -> str:
    """Return the result of a call in the history as text. Raises `RequestError`."""
    output = item.get("output")
    if isinstance(output, str):
        return output
    if item["type"] == "shell_call_output":
        listed = expect(output, list, f"{path}.output")
        return "\n".join(_describe_output(expect(part, dict, f"{path}.output")) for part in listed)
    return str(item.get("status") or "completed") if output is None else write_json(output).decode()


def _describe_output(part: dict[str, JSON]) -> str:
    outcome = part.get("outcome")
    fields = outcome if isinstance(outcome, dict) else {}
    end = "the time limit was reached" if fields.get("type") == "timeout" else f"exit code {fields.get('exit_code', 0)}"
    output, error = (str(part.get(name) or "").removesuffix("\n") for name in ("stdout", "stderr"))
    return "\n".join(filter(None, (output, f"stderr:\n{error}" if error else "", f"[{end}]")))
