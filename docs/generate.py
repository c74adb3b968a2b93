"""Writes the pages of the reference when the documentation is built: each comes from the code that it describes.

Rule: nothing about a setting, a command, an event, a dialect or a route is written here.
"""

import argparse
import inspect
import json
import os
from collections.abc import Iterable, Sequence
from importlib import import_module
from pathlib import Path
from typing import get_args

import mkdocs_gen_files
import msgspec

import fcshim.ext
from fcshim.cli.entry import COMMANDS, CliParser
from fcshim.cli.flags import HelpAll
from fcshim.cli.text import help_formatter
from fcshim.codecs.routes import APIS
from fcshim.config.table import Setting, model_settings, settings
from fcshim.events import Event, event_to_dict
from fcshim.model_defaults import MODEL_PATTERNS
from fcshim.parse.dialects import DIALECTS, Dialect
from fcshim.prompt.render import render_call, render_result

_SETTINGS = """\
# Settings

Each setting is a flag of `fcshim serve`, an environment variable, and a line in the TOML file of `--config`. The flag
comes before the variable, and the variable before the file. A list is a repeated flag, values with commas between
them in a variable, and an array in the file. Those with a star may stand in a row of `[models]`."""
_COMMANDS = """\
# Commands

`fcshim COMMAND --help` shows the same in the terminal."""
_EVENTS = """\
# Events

`StreamParser`, `Client.stream` and `fcshim parse` give these events, whatever the provider and the dialect. In JSON
(`event_to_dict`) each has its `type`; fields that have their default are left out."""
_DIALECTS = """\
# Every dialect

One call and one result in each dialect, as the prompt writes them, and the names of models that are asked for it when
no dialect is set. [Dialects](../dialects.md) says how a dialect is chosen."""
_ENDPOINTS = """\
# Endpoints

What the proxy serves to clients. Every other path below `/v1` is relayed to an upstream of OpenAI's API."""
_FOLDER = Path(__file__).parent
_COLUMNS = "100"
"""The width of the help, in characters."""
_API_MODULES = ("fcshim", "fcshim.ext", "fcshim.agent", "fcshim.openai", "fcshim.testing", "fcshim.errors")


def main() -> None:
    """Write every page."""
    _write("settings.md", _settings())
    _write("commands.md", _commands())
    _write("events.md", _events())
    _write("dialects.md", _dialects())
    _write("endpoints.md", _endpoints())
    for module in _API_MODULES:
        _write(f"api/{module}.md", [f"# {module}", "", f"::: {module}"])
    with mkdocs_gen_files.open("llms.txt", "w") as page:
        page.write("\n".join(_list_of_pages()) + "\n")


def _write(name: str, lines: Iterable[str]) -> None:
    with mkdocs_gen_files.open(f"reference/{name}", "w") as page:
        page.write("\n".join(lines) + "\n")


def _settings() -> Iterable[str]:
    yield _SETTINGS
    of_models = {setting.name for setting in model_settings()}
    groups = dict.fromkeys(setting.group for setting in settings())
    for group in groups:
        rows = [setting for setting in settings() if setting.group == group]
        yield from ("", f"## {group.capitalize()}", "")
        yield from _table(
            ["key", "flag, variable", "what it does", "values", "default"],
            [_setting_row(setting, starred=setting.name in of_models) for setting in rows],
        )


def _setting_row(setting: Setting, *, starred: bool) -> list[str]:
    flag = f"{setting.flag}, --no{setting.flag[1:]}" if setting.kind == "switch" else setting.flag
    values = ", ".join(f"`{choice}`" for choice in setting.choices) or setting.expected
    name = f"`{setting.name}`{' *' if starred else ''}"
    return [name, f"`{flag}`<br>`{setting.env}`", setting.help, values, setting.default]


def _commands() -> Iterable[str]:
    yield _COMMANDS
    os.environ["COLUMNS"] = _COLUMNS
    for name, summary in COMMANDS.items():
        parser = CliParser(prog=f"fcshim {name}", formatter_class=help_formatter, allow_abbrev=False)
        import_module(f"fcshim.cli.{name}").configure_parser(parser)
        for action in parser._actions:  # noqa: SLF001 - argparse has no public list of its options
            if isinstance(action, HelpAll):
                action.show_all()
        yield from ("", f"## fcshim {name}", "", f"{summary[0].upper()}{summary[1:]}.", "", "```text")
        yield from (parser.format_help().rstrip(), "```")
        yield from _nested(parser)


def _nested(parser: argparse.ArgumentParser) -> Iterable[str]:
    """Give the commands below a command (`fcshim tools list`)."""
    for action in parser._actions:  # noqa: SLF001
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
            for name, nested in action.choices.items():
                yield from ("", f"### {parser.prog} {name}", "", "```text", nested.format_help().rstrip(), "```")


def _events() -> Iterable[str]:
    yield _EVENTS
    for kind in get_args(Event):
        yield from ("", f"## {kind.__struct_config__.tag}: {kind.__name__}", "", inspect.getdoc(kind) or "", "")
        fields = msgspec.structs.fields(kind)
        yield from _table(
            ["field", "type", "default"],
            [[f"`{field.name}`", f"`{_type_name(field.type)}`", _default(field)] for field in fields],
        )
    yield from ("", "An event as JSON:", "", "```json", json.dumps(event_to_dict(fcshim.Text("Hello"))), "```")


def _type_name(declared: object) -> str:
    text = declared.__name__ if isinstance(declared, type) else str(declared)
    return text.replace("typing.", "").replace("fcshim.events.", "")


def _default(field: msgspec.structs.FieldInfo) -> str:
    if field.default is not msgspec.NODEFAULT:
        return f"`{field.default!r}`"
    return "" if field.default_factory is msgspec.NODEFAULT else f"`{field.default_factory()!r}`"


def _dialects() -> Iterable[str]:
    yield _DIALECTS
    for dialect in DIALECTS.values():
        yield from ("", f"## {dialect.name}", "", f"{dialect.summary[0].upper()}{dialect.summary[1:]}.", "")
        call = render_call(dialect, "get_weather", '{"city": "Paris"}').strip("\n")
        result = render_result(dialect, "get_weather", "sunny, 21 degrees").strip("\n")
        fence = "````" if "```" in call + result else "```"
        yield from (f"{fence}text", call, "", result, fence, "")
        yield f"Models: {_models(dialect)}."
        if dialect.waits:
            yield from ("", f"What does not stream: {dialect.waits}.")


def _models(dialect: Dialect) -> str:
    patterns = [row.patterns for row in MODEL_PATTERNS if row.dialect == dialect.name]
    names = [f"`{name}`" for pattern in patterns for name in pattern.split()]
    if dialect.name == "function_call":
        names.append("every name that no other dialect claims")
    return ", ".join(names) or "only where the setting `dialect` names it"


def _endpoints() -> Iterable[str]:
    yield _ENDPOINTS
    for api in APIS:
        yield from ("", f"## {api.codec.name}", "")
        yield from _table(
            ["method", "path", "operation", "only with the header"],
            [
                [route.method, f"`{route.path}`", route.operation, ", ".join(name.decode() for name in route.headers)]
                for route in api.routes
            ],
        )


def _list_of_pages() -> Iterable[str]:
    """Give the list of all pages in the form of llms.txt: a link and the first sentence of each."""
    config = mkdocs_gen_files.FilesEditor.current().config
    yield from (f"# {config.site_name}", "", f"> {config.site_description}", "", "## Pages", "")
    for name in sorted(file.relative_to(_FOLDER).as_posix() for file in _FOLDER.rglob("*.md")):
        text = (_FOLDER / name).read_text(encoding="utf-8")
        title, _, rest = text.removeprefix("# ").partition("\n\n")
        first = " ".join(rest.partition("\n\n")[0].split()).partition(". ")[0].rstrip(".")
        about = "" if first.startswith(("|", "#", "`", "!")) else f": {first}"
        yield f"- [{title}]({name}){about}"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterable[str]:
    yield "| " + " | ".join(head) + " |"
    yield "|" + " --- |" * len(head)
    for row in rows:
        yield "| " + " | ".join(map(_cell, row)) + " |"


def _cell(text: str) -> str:
    return text.replace("\n", " ").replace("|", "\\|")


main()
