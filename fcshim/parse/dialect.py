"""The dialect table: one row per text format in which models write calls.

Rule: a marker is written here and nowhere else; grammars, templates and parsers receive it from the row.
Neighbours: `stream` reads a dialect's calls, `prompt` asks for them.
"""

import difflib
from dataclasses import dataclass

from fcshim.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Shape:
    """How a call body says which tool and which arguments; the first key of each is the one that is asked for."""

    name_keys: tuple[str, ...] = ("name", "tool", "tool_name")
    argument_keys: tuple[str, ...] = ("arguments", "parameters", "args", "input")
    wrapper_keys: tuple[str, ...] = ("function",)
    """Keys whose object holds the name and the arguments instead."""


@dataclass(frozen=True, slots=True)
class Dialect:
    """One format: its markers, the reader and grammar of its bodies, its shape.

    `open` and `close` surround a call; `result_open` (an unfinished tag, attributes may follow) and `result_close`
    surround a tool's result; `grammar` and `templates` name a file and a folder under `grammars/` and `templates/`.
    """

    name: str
    summary: str
    open: str
    close: str
    result_open: str
    result_close: str
    grammar: str
    templates: str
    shape: Shape = Shape()


FUNCTION_CALL = Dialect(
    name="function_call",
    summary="fcshim's own format: a JSON object with name and arguments between <function_call> tags",
    open="<function_call>",
    close="</function_call>",
    result_open="<function_result",
    result_close="</function_result>",
    grammar="json_call",
    templates="function_call",
)

HERMES = Dialect(
    name="hermes",
    summary="Hermes, Qwen and many others: a JSON object with name and arguments between <tool_call> tags",
    open="<tool_call>",
    close="</tool_call>",
    result_open="<tool_response",
    result_close="</tool_response>",
    grammar="json_call",
    templates="hermes",
)

DIALECTS: dict[str, Dialect] = {row.name: row for row in (FUNCTION_CALL, HERMES)}


def get_dialect(dialect: str | Dialect) -> Dialect:
    """Give the row of that name (a `Dialect` is given back as it is). Raises `ConfigError` naming the known ones."""
    if isinstance(dialect, Dialect):
        return dialect
    if dialect in DIALECTS:
        return DIALECTS[dialect]
    near = difflib.get_close_matches(dialect, DIALECTS, n=1)
    hint = f", did you mean {near[0]!r}?" if near else "."
    raise ConfigError(f"unknown dialect {dialect!r}{hint} Known dialects: {', '.join(DIALECTS)}")
