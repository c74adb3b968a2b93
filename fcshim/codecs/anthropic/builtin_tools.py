"""Tools of the API that come without a schema: those that the client runs, and those that the provider runs.

Rule: the type, without its date, is a row of a table. A tool that the client runs is a function with its documented
schema; a toolset is one function for each member. Every other type runs at the provider.
"""

from collections.abc import Iterator

import msgspec

from fcshim.codecs.json_text import object_schema, read_field, read_texts, read_tool_name
from fcshim.events import JSON
from fcshim.messages import ProviderTool, Tool, WebAction

_TEXT: JSON = {"type": "string"}
_COUNT: JSON = {"type": "integer", "minimum": 0}
_RANGE: JSON = {"type": "array", "items": {"type": "integer"}, "minItems": 2, "maxItems": 2}
_POINT: JSON = {**_RANGE, "description": "x from the left edge and y from the top edge, in pixels"}
_REGION: JSON = {**_RANGE, "minItems": 4, "maxItems": 4, "description": "x0, y0, x1, y1"}
_DIRECTION: JSON = {"enum": ["up", "down", "left", "right"]}
_KEYS: JSON = {"type": "string", "description": "keys to hold down meanwhile, such as ctrl+shift"}


def _described(schema: JSON, description: str) -> JSON:
    return {**schema, "description": description}


_BASH = object_schema(
    command=_described(_TEXT, "the command to run"),
    restart={"type": "boolean", "description": "true, without a command, restarts the shell"},
)
_VIEW = {"path": _TEXT, "view_range": _described(_RANGE, "for view: first and last line, -1 for the end of the file")}
_REPLACE = {
    "old_str": _described(_TEXT, "for str_replace: the text to replace, which occurs once in the file"),
    "new_str": _described(_TEXT, "for str_replace: the text that takes its place"),
}
_CREATE = {"file_text": _described(_TEXT, "for create: the whole content of the file")}
_INSERT = {"insert_line": _described(_COUNT, "for insert: the line after which to insert, 0 for the beginning")}
_INSERT_TEXT = {"insert_text": _described(_TEXT, "for insert: the text to insert")}
_EDIT_COMMANDS = ("view", "create", "str_replace", "insert")


def _commands(*names: str) -> dict[str, JSON]:
    return {"command": {"enum": list(names)}}


_EDITOR = object_schema(
    "command", "path", **_commands(*_EDIT_COMMANDS), **_VIEW, **_CREATE, **_REPLACE, **_INSERT, **_INSERT_TEXT
)
_OLD_EDITOR = object_schema(
    "command",
    "path",
    **_commands(*_EDIT_COMMANDS, "undo_edit"),
    **_VIEW,
    **_CREATE,
    **{**_REPLACE, "new_str": _described(_TEXT, "for str_replace and insert: the new text")},
    **_INSERT,
)
_MEMORY = object_schema(
    "command",
    **_commands(*_EDIT_COMMANDS, "delete", "rename"),
    **_VIEW,
    **_CREATE,
    **_REPLACE,
    **_INSERT,
    **_INSERT_TEXT,
    old_path=_described(_TEXT, "for rename"),
    new_path=_described(_TEXT, "for rename"),
)
_FIRST_ACTIONS = (
    "key", "type", "mouse_move", "left_click", "left_click_drag", "right_click", "middle_click", "double_click",
    "screenshot", "cursor_position",
)  # fmt: skip
_LATER_ACTIONS = ("left_mouse_down", "left_mouse_up", "scroll", "hold_key", "wait", "triple_click")


def _computer(*actions: str, **fields: JSON) -> dict[str, JSON]:
    return object_schema(
        "action",
        action={"enum": list(actions)},
        coordinate=_POINT,
        start_coordinate=_described(_POINT, "for left_click_drag: where the drag begins, x and y in pixels"),
        text=_described(_TEXT, "for type: the text; for key and hold_key: the keys, such as ctrl+s"),
        **fields,
    )


_LATER_FIELDS = {
    "scroll_direction": _DIRECTION,
    "scroll_amount": _described(_COUNT, "for scroll: clicks of the wheel"),
    "duration": {"type": "number", "description": "for hold_key and wait: seconds"},
}


class _ClientTool(msgspec.Struct, frozen=True):
    """A tool that the client runs, as it is described to the model."""

    description: str
    parameters: dict[str, JSON]


_EDITOR_TEXT = "View, create and edit files."
_COMPUTER_TEXT = "Use the mouse and the keyboard of a computer, and see its screen."

_CLIENT_TOOLS = {
    "bash_": _ClientTool("Run a command in a shell that keeps its state between calls.", _BASH),
    "text_editor_20241022": _ClientTool(_EDITOR_TEXT, _OLD_EDITOR),
    "text_editor_20250124": _ClientTool(_EDITOR_TEXT, _OLD_EDITOR),
    "text_editor_": _ClientTool(_EDITOR_TEXT, _EDITOR),
    "memory_": _ClientTool("Read and write the files under /memories, which outlive the conversation.", _MEMORY),
    "computer_20241022": _ClientTool(_COMPUTER_TEXT, _computer(*_FIRST_ACTIONS)),
    "computer_20250124": _ClientTool(_COMPUTER_TEXT, _computer(*_FIRST_ACTIONS, *_LATER_ACTIONS, **_LATER_FIELDS)),
    "computer_2": _ClientTool(
        _COMPUTER_TEXT,
        _computer(*_FIRST_ACTIONS, *_LATER_ACTIONS, "zoom", **_LATER_FIELDS, region=_described(_REGION, "for zoom")),
    ),
}
"""By the beginning of the type; the first row that matches counts."""

_CLICK = object_schema(coordinate=_POINT, text=_KEYS)
_NOTHING = object_schema()
_COMPUTER_TOOLSET = {
    "key": _ClientTool(
        "Press keys, such as ctrl+s.",
        object_schema("text", text=_TEXT, repeat={"type": "integer", "minimum": 1}),
    ),
    "hold_key": _ClientTool(
        "Hold keys down for some seconds.", object_schema("text", "duration", text=_TEXT, duration=_COUNT)
    ),
    "type": _ClientTool("Type a text on the keyboard.", object_schema("text", text=_TEXT)),
    "cursor_position": _ClientTool("Get the position of the cursor.", _NOTHING),
    "mouse_move": _ClientTool("Move the cursor without clicking.", object_schema("coordinate", coordinate=_POINT)),
    "left_mouse_down": _ClientTool("Press the left mouse button and hold it.", _NOTHING),
    "left_mouse_up": _ClientTool("Release the left mouse button.", _NOTHING),
    "left_click": _ClientTool("Click, at the cursor if there is no coordinate.", _CLICK),
    "left_click_drag": _ClientTool(
        "Drag with the left mouse button.",
        object_schema("start_coordinate", "coordinate", start_coordinate=_POINT, coordinate=_POINT, text=_KEYS),
    ),
    "right_click": _ClientTool("Click with the right mouse button.", _CLICK),
    "middle_click": _ClientTool("Click with the middle mouse button.", _CLICK),
    "double_click": _ClientTool("Click twice.", _CLICK),
    "triple_click": _ClientTool("Click three times.", _CLICK),
    "scroll": _ClientTool(
        "Turn the wheel of the mouse.",
        object_schema(
            "scroll_direction",
            "scroll_amount",
            scroll_direction=_DIRECTION,
            scroll_amount=_COUNT,
            coordinate=_POINT,
            text=_KEYS,
        ),
    ),
    "wait": _ClientTool("Wait for some seconds.", object_schema("duration", duration=_COUNT)),
    "screenshot": _ClientTool("See the screen.", _NOTHING),
    "zoom": _ClientTool("See a part of the screen enlarged.", object_schema("region", region=_REGION)),
}
TOOLSET_PREFIX = "computer_toolset_"
TOOLSET = "computer"
"""The name of the toolset in the calls of its members."""

_WEB_ACTIONS: dict[str, WebAction] = {"web_search_": "search", "web_fetch_": "fetch"}
TOOL_SEARCH_PREFIX = "tool_search_tool_"
"""The provider's search for deferred tools; the model gets these tools at once instead."""


def read_client_tool(tool: dict[str, JSON], path: str) -> Tool | None:
    """Read a tool that the client runs; None for any other tool. Raises `RequestError`."""
    kind = str(tool["type"])
    row = next((row for prefix, row in _CLIENT_TOOLS.items() if kind.startswith(prefix)), None)
    if row is None or kind.startswith(TOOLSET_PREFIX):
        return None
    width, height = tool.get("display_width_px"), tool.get("display_height_px")
    max_characters = tool.get("max_characters")
    notes = [
        row.description,
        f"The screen has {width} x {height} pixels." if isinstance(width, int) and isinstance(height, int) else "",
        f"At most {max_characters} characters of a file are shown." if isinstance(max_characters, int) else "",
    ]
    return Tool(read_tool_name(tool, path), " ".join(filter(None, notes)), row.parameters)


def read_toolset(tool: dict[str, JSON], path: str) -> Iterator[Tool]:
    """Yield the members of a computer toolset that are enabled. Raises `RequestError`."""
    configs = read_field(tool, "configs", dict, {}, f"{path}.")
    for name, row in _COMPUTER_TOOLSET.items():
        if read_field(configs, name, dict, {}, f"{path}.configs.").get("enabled") is not False:
            yield Tool(name, row.description, row.parameters)


def read_remote_servers(source: dict[str, JSON]) -> list[ProviderTool]:
    """Read MCP servers that the provider would connect to; a toolset in `tools` names them in newer requests."""
    servers = read_field(source, "mcp_servers", list, [])
    names = [server.get("name") for server in servers if isinstance(server, dict)]
    return [ProviderTool(name=str(name), type="mcp_servers") for name in names]


def read_provider_tool(tool: dict[str, JSON], path: str) -> ProviderTool:
    """Read a tool that runs at the provider. Raises `RequestError`."""
    kind = str(tool["type"])
    name = tool.get("name")
    action = next((action for prefix, action in _WEB_ACTIONS.items() if kind.startswith(prefix)), None)
    return ProviderTool(
        name=name if isinstance(name, str) else kind,
        type=kind,
        action=None if tool.get("url_sources") else action,  # a limit that is not known here
        allowed_domains=read_texts(tool, "allowed_domains", f"{path}."),
        blocked_domains=read_texts(tool, "blocked_domains", f"{path}."),
        max_uses=read_field(tool, "max_uses", int, None, f"{path}."),
        max_tokens=read_field(tool, "max_content_tokens", int, None, f"{path}."),
    )
