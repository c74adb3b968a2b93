"""Loading the tools from the file that `--tools FILE` names.

Rule: the file holds a JSON array of tools (OpenAI's `{type, function}` or a bare `{name, description, parameters}`),
one such tool, or an object with the array under `tools`. An error names the file and the line where the tool begins.
"""

import json
import re
from collections.abc import Iterator

from fcshim.cli.text import parse_json, read_text
from fcshim.errors import ConfigError, RequestError
from fcshim.events import JSON
from fcshim.messages import Tool, as_tools

_SEPARATOR = re.compile(r"[\s,]*")


def load_tools(path: str) -> tuple[Tool, ...]:
    """Read the tools of a file (`-`: stdin). Raises `ConfigError`."""
    text = read_text(path)
    items = _items(parse_json(text, path))
    if not isinstance(items, list):
        raise ConfigError(f"{path}: expected a JSON array of tools, got {text.strip()[:60]!r}")
    try:
        return as_tools(items)
    except RequestError as error:
        raise ConfigError(f"{path}{_line_of(error.param, text)}: {error.message}") from error


def _items(value: JSON) -> JSON:
    if not isinstance(value, dict):
        return value
    return value.get("tools", [value])


def _line_of(param: str | None, text: str) -> str:
    """Return `:line` of the tool that `param` (`tools[2]`, `tools[2].name`) names; "" if the text is not an array."""
    position = re.search(r"\d+", param or "")
    if position is None or not text.lstrip().startswith("["):
        return ""
    starts = list(_item_offsets(text))
    return f":{text.count(chr(10), 0, starts[int(position[0])]) + 1}"


def _item_offsets(text: str) -> Iterator[int]:
    """Yield the offset of each item of the well-formed array."""
    decoder = json.JSONDecoder()
    at = _skip_separator(text, text.index("[") + 1)
    while text[at] != "]":
        yield at
        _, end = decoder.raw_decode(text, at)
        at = _skip_separator(text, end)


def _skip_separator(text: str, at: int) -> int:
    found = _SEPARATOR.match(text, at)
    return found.end() if found else at
