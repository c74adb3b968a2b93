"""Renders tools, past calls and results with a dialect's Jinja templates.

Rule: text of clients, tools and models is only ever a template variable, never template source.
"""

import functools
import json
from collections.abc import Sequence
from pathlib import Path

import msgspec
from jinja2 import FileSystemLoader, StrictUndefined, Template, nodes
from jinja2.sandbox import ImmutableSandboxedEnvironment

from fcshim.events import JSON
from fcshim.messages import AUTO, Tool, ToolChoice
from fcshim.parse.body_selection import UnionBody
from fcshim.parse.dialect import Body, Dialect
from fcshim.parse.json.body import JsonShape
from fcshim.parse.json.header import HeaderShape
from fcshim.prompt.notation import gemma_literal, gemma_schema, python_arguments, python_literal
from fcshim.prompt.signature import ToolsStyle, compact, signature
from fcshim.prompt.styles import OWN_STYLE, PromptStyle
from fcshim.resources import resource_dir

_TOOLS_BLOCK = "tools"
"""The block of a system template that lists the tools."""
PLACEHOLDER_CALL = ("<function name>", '{"<parameter>": "<value>"}')
"""A call that cannot be read as one."""
REMINDER = "(Remember: to call one of the functions, write this and nothing else around it:"


def render_system(
    dialect: Dialect,
    tools: Sequence[Tool],
    choice: ToolChoice = AUTO,
    *,
    parallel: bool = True,
    style: ToolsStyle = "schema",
    words: PromptStyle = OWN_STYLE,
) -> str:
    """Write the part of the system prompt that lists `tools` and describes the call format of `dialect`.

    Tools are listed with their JSON Schema, in the form that the dialect's models know, or in a shorter form;
    `words` may replace the dialect's own text around the list.
    """
    offered = [_definition(tool, style) for tool in tools]
    values: dict[str, JSON] = {"tools": offered, "choice": choice, "parallel": parallel}
    if words.template:
        text = _render_style(words, dialect, listing=style, **values)
    elif style != "schema":
        is_user_folder = Path(_folder(dialect)).is_absolute()
        layout = "system.jinja" if is_user_folder else f"{_folder(dialect)}/system.jinja"
        text = _render(dialect, "signatures", **values, layout=layout, listing=style)
    else:
        text = _render(dialect, "system", **values)
    return text.rstrip("\n")


def render_tools(dialect: Dialect, tools: Sequence[Tool], style: ToolsStyle = "schema") -> str:
    """Write only the list of tools, in the form of the system prompt."""
    template = _template(_folder(dialect), "system" if style == "schema" else "signatures")
    if _TOOLS_BLOCK not in template.blocks:
        template = _environment((resource_dir("templates"),)).get_template("_shared/system.jinja")
    context = template.new_context(
        {**_dialect_variables(dialect), "tools": [_definition(tool, style) for tool in tools], "listing": style}
    )
    return "".join(template.blocks[_TOOLS_BLOCK](context)).strip("\n")


def render_call(dialect: Dialect, name: str, arguments: str) -> str:
    """Write one past call in the model's own format; `arguments` is JSON text and is kept unchanged."""
    return history_writer(dialect).write_call(name, arguments)


def render_calls(dialect: Dialect, calls: Sequence[tuple[str, str]]) -> str:
    """Write the calls of one turn, each a name and JSON text, line by line or with the dialect's template for lists."""
    return history_writer(dialect).write_calls(calls)


def render_result(dialect: Dialect, name: str, content: str, *, is_error: bool = False) -> str:
    """Write one tool result in the form that the system prompt announces."""
    return history_writer(dialect).write_result(name, content, is_error=is_error)


def history_writer(dialect: Dialect) -> "HistoryWriter":
    """Return the writer of past calls and results in this dialect (cached)."""
    return _history_writer(resource_dir("templates"), dialect)


@functools.lru_cache(maxsize=256)
def _history_writer(templates: Path, dialect: Dialect) -> "HistoryWriter":
    return HistoryWriter(templates, dialect)


class HistoryWriter:
    """Writes calls and results; if a template only inserts a text, with the cached text around it."""

    def __init__(self, templates: Path, dialect: Dialect) -> None:
        self._dialect = dialect
        self._lists_calls = _has_template(templates, _folder(dialect), "calls")
        # a conversation has a few names, a hundred times each
        self._around_call = functools.lru_cache(maxsize=512)(
            functools.partial(_around, templates, dialect, "call", "arguments")
        )
        self._around_result = functools.lru_cache(maxsize=512)(
            functools.partial(_around, templates, dialect, "result", "content")
        )

    def write_calls(self, calls: Sequence[tuple[str, str]]) -> str:
        """Write the calls of one turn, each a name and JSON text."""
        if self._lists_calls and calls:
            return _render(self._dialect, "calls", calls=[{"name": name, "arguments": text} for name, text in calls])
        return "\n".join([self.write_call(name, arguments) for name, arguments in calls])

    def write_call(self, name: str, arguments: str) -> str:
        """Write one call."""
        around = self._around_call(name) if len(name) <= _MAX_NAME else ()
        return arguments.join(around) if around else _render(self._dialect, "call", name=name, arguments=arguments)

    def write_result(self, name: str, content: str, *, is_error: bool) -> str:
        """Write one result."""
        around = self._around_result(name, is_error) if len(name) <= _MAX_NAME else ()
        if around:
            return content.join(around)
        return _render(self._dialect, "result", name=name, content=content, is_error=is_error)


def render_reminder(dialect: Dialect) -> str:
    """Write a reminder of the call format, with placeholders that cannot be read as a call."""
    call = render_calls(dialect, [PLACEHOLDER_CALL])
    return f"{REMINDER}\n{call}\nOtherwise answer in plain text.)"


def render_correction(dialect: Dialect, **values: JSON) -> str:
    """Write the turn that requests a call again, with the dialect's own template if it has one."""
    return _render(dialect, "correction", **values).rstrip("\n")


def render_samples(dialect: Dialect) -> str:
    """Render every template once with a sample tool. Raises jinja2's `TemplateError` for an invalid template."""
    tool = Tool("f", "Does nothing.", {"type": "object", "properties": {"a": {"type": "string"}}})
    call = ("f", '{"a": "b"}')
    texts = [render_system(dialect, [tool]), render_calls(dialect, [call, call]), render_call(dialect, *call)]
    fault: dict[str, JSON] = {"kind": "bad", "name": "f", "message": "e"}
    texts.append(
        render_correction(dialect, faults=[fault], names=["f"], taken=[], optional=True, answer=False, form=texts[1])
    )
    return "\n".join([*texts, render_result(dialect, "f", "c"), render_result(dialect, "f", "c", is_error=True)])


_EXAMPLE_CALLS = (("local_time", '{"city": "Oslo"}'), ("local_time", '{"city": "Lima"}'))
"""The calls of the example in a prompt style. The tool is not one that clients offer: a copied call must not run."""


def _render_style(words: PromptStyle, dialect: Dialect, **values: JSON) -> str:
    """Write a style's template with the dialect's own form of a call, and of the calls of the example."""
    template = _environment((resource_dir("templates"),)).get_template(f"styles/{words.template}.jinja")
    example = _EXAMPLE_CALLS if values["parallel"] else _EXAMPLE_CALLS[:1]
    return template.render(
        form=render_calls(dialect, [PLACEHOLDER_CALL]), example=render_calls(dialect, example), **values
    )


def _definition(tool: Tool, style: ToolsStyle) -> dict[str, JSON]:
    """Return a tool as templates get it; its JSON Schema does not say what it returns."""
    parameters = tool.parameters if tool.parameters else {"type": "object", "properties": {}}
    described = {"description": tool.description} if tool.description else {}
    returning = {} if style == "schema" else {"returns": tool.returns}
    return {"name": tool.name, **described, "parameters": parameters, **returning}


def _signature(tool: dict[str, JSON], listing: ToolsStyle = "signature") -> str:
    write = compact if listing == "compact" else signature
    return write(tool["name"], tool.get("description", ""), tool["parameters"], tool.get("returns"))


def _render(dialect: Dialect, template: str, **values: JSON) -> str:
    return _template(_folder(dialect), template).render(_dialect_variables(dialect) | values)


_MARK = "\0"
"""Placeholder for an inserted text; if it also occurs elsewhere in the rendered text, nothing is cached."""
_MAX_NAME = 128
"""Characters of a name whose texts are remembered: as many as the name of an offered tool may have."""


def _around(
    templates: Path, dialect: Dialect, template: str, variable: str, name: str, *is_error: bool
) -> tuple[str, ...]:
    """Return the texts before and after `variable`; nothing where they may depend on it."""
    if not _only_prints(templates, _folder(dialect), template, variable):
        return ()
    values: dict[str, JSON] = {"name": name, variable: _MARK, **({"is_error": is_error[0]} if is_error else {})}
    around = tuple(_render(dialect, template, **values).split(_MARK))
    return around if len(around) == 2 else ()


@functools.cache
def _only_prints(templates: Path, folder: str, template: str, variable: str) -> bool:
    """Return true only if a template has a variable in one place, outside all statements and filters."""
    environment = _find_template(templates, folder, template).environment
    loader, path = environment.loader, _find_template(templates, folder, template).name
    if loader is None or path is None:
        return False
    tree = environment.parse(loader.get_source(environment, path)[0])
    printed = [node for output in tree.body if isinstance(output, nodes.Output) for node in output.nodes]
    uses = [node for node in tree.find_all(nodes.Name) if node.name == variable]
    return len(uses) == 1 and uses[0] in printed and not any(map(tree.find, _WITH_CONTEXT))


_WITH_CONTEXT: tuple[type[nodes.Node], ...] = (nodes.Include, nodes.Import, nodes.FromImport, nodes.Extends)
"""Statements that may give a variable to another template."""


@functools.lru_cache(maxsize=256)  # a conversation with a hundred calls renders two hundred templates
def _dialect_variables(dialect: Dialect) -> dict[str, object]:
    return {
        "body": dialect.body,
        "open": dialect.call.open,
        "close": dialect.call.close,
        "quote": dialect.quote,
        "section_open": dialect.section.open,
        "section_close": dialect.section.close,
        "result_open": dialect.result.open,
        "result_close": dialect.result.close,
        **_key_variables(dialect.body),
    }


def _key_variables(body: Body) -> dict[str, object]:
    """Return the keys of a JSON call that the prompt requests: those of the body, or the usual ones if it has none."""
    body = body.bodies[0] if isinstance(body, UnionBody) else body
    body = body.json if isinstance(body, HeaderShape) and body.json is not None else body
    if not isinstance(body, JsonShape):
        return {"name_key": "name", "arguments_key": "arguments"}
    return {"name_key": next(iter(body.name_keys), ""), "arguments_key": next(iter(body.argument_keys), "")}


def _folder(dialect: Dialect) -> str:
    return dialect.templates or dialect.name


def _template(folder: str, name: str) -> Template:
    return _load_template(resource_dir("templates"), folder, name)


@functools.cache  # a conversation with a hundred calls looks up two hundred templates
def _load_template(templates: Path, folder: str, name: str) -> Template:
    template = _find_template(templates, folder, name)
    template.globals = dict(template.globals)  # each rendering copies them: as a `ChainMap`, in 10 us
    return template


def _find_template(templates: Path, folder: str, name: str) -> Template:
    if name == "signatures":
        user_folder = (Path(folder),) if Path(folder).is_absolute() else ()
        return _environment((*user_folder, templates)).get_template("_shared/signatures.jinja")
    if name == "correction" and not _has_template(templates, folder, name):
        return _environment((templates,)).get_template("_shared/correction.jinja")
    if Path(folder).is_absolute():  # a user-defined dialect
        return _environment((Path(folder), templates)).get_template(f"{name}.jinja")
    return _environment((templates,)).get_template(f"{folder}/{name}.jinja")


def _as_json(value: JSON) -> str:
    """Write JSON like `json.dumps`, except for the exponents of numbers, in a third of the time."""
    try:
        return msgspec.json.format(msgspec.json.encode(value), indent=0).decode()
    except (TypeError, ValueError):  # not for the API either, but a caller of this library may have such a value
        return json.dumps(value, ensure_ascii=False)


@functools.cache  # joining the path of a template takes as long as rendering it
def _has_template(templates: Path, folder: str, name: str) -> bool:
    return (templates / folder / f"{name}.jinja").exists()


@functools.cache
def _environment(folders: tuple[Path, ...]) -> ImmutableSandboxedEnvironment:
    environment = ImmutableSandboxedEnvironment(
        loader=FileSystemLoader(folders),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        autoescape=False,
        auto_reload=False,
    )
    environment.filters["json"] = _as_json
    environment.filters["from_json"] = json.loads
    environment.filters["signature"] = _signature
    environment.filters["gemma"] = gemma_literal
    environment.filters["gemma_schema"] = gemma_schema
    environment.filters["python"] = python_literal
    environment.filters["python_arguments"] = python_arguments
    return environment
