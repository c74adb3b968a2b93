"""Loads a user-defined dialect: a folder, or a model's `tokenizer_config.json` with a `response_template`.

A folder has `dialect.toml`, templates and an optional grammar.

Rule: every error in a file is found when it is loaded, and reported with file and line. Calls that its templates write
and its parser does not read are such an error.
"""

import dataclasses
import functools
import json
import re
import tomllib
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar, get_type_hints

import msgspec
from jinja2 import TemplateError, TemplateSyntaxError

from fcshim.errors import ConfigError
from fcshim.files import read_limited
from fcshim.model_defaults import defaults_for
from fcshim.parse.dialect import Body, CallMarkers, Dialect, Markers, TurnMarkup
from fcshim.parse.dialects import AUTO, get_dialect
from fcshim.parse.grammar import load_grammar
from fcshim.parse.json.body import JsonShape
from fcshim.parse.json.header import HeaderShape
from fcshim.parse.literals.python_body import PythonCalls
from fcshim.parse.response_template.shapes import template_dialect
from fcshim.parse.response_template.template import decode_template
from fcshim.parse.tagged.syntax import TaggedCalls
from fcshim.parse.tagged.tags import Tags
from fcshim.prompt.dialect_check import check_dialect
from fcshim.prompt.render import render_samples

FILE = "dialect.toml"
TEMPLATE_FILE = "tokenizer_config.json"
_BODIES: Mapping[str, type] = {"json": JsonShape, "header": HeaderShape, "tagged": Tags, "python": PythonCalls}
_MARKERS: Mapping[str, type] = {"call": CallMarkers, "section": Markers, "result": Markers, "turn": TurnMarkup}
_MAX_FILE = 2**20
_MAX_TEMPLATE_FILE = 16 * 2**20
"""Bytes of a `tokenizer_config.json`; with the tokens that some models list in it, it has more than 1 MB."""
_TEMPLATE_KEY = "response_template"
_OLD_TEMPLATE_KEY = "response_schema"
_TEMPLATES = ("system.jinja", "call.jinja", "result.jinja")
_Row = TypeVar("_Row")


def find_dialect(dialect: str | Dialect) -> Dialect:
    """Return the dialect of this name, or the one of this folder or JSON file (`./mine`). Raises `ConfigError`."""
    return load_dialect(dialect) if isinstance(dialect, str) and is_dialect_folder(dialect) else get_dialect(dialect)


def is_dialect_folder(name: str) -> bool:
    """Return whether the setting names a folder or a JSON file, not a dialect of the table."""
    return "/" in name or "\\" in name or name.endswith(".json")


@functools.lru_cache(maxsize=256)
def chosen_dialect(setting: str | Dialect, model: str) -> Dialect:
    """Return the dialect of the setting (cached), for `auto` the one of the model. Raises `ConfigError`."""
    return find_dialect(defaults_for(model).dialect if setting == AUTO else setting)


def load_dialect(folder: str | Path) -> Dialect:
    """Load a dialect from a folder (cached), or from a `tokenizer_config.json` with a `response_template`.

    A model's folder without `dialect.toml` counts as its `tokenizer_config.json`; docs/dialects.md describes the files.
    Raises `ConfigError` with the file, and the line if known, if something in it is invalid.
    """
    path = Path(folder).resolve()
    if path.is_dir() and not (path / FILE).exists() and (path / TEMPLATE_FILE).exists():
        path /= TEMPLATE_FILE
    return _load_template_file(path) if path.suffix == ".json" else _load(path)


@functools.cache
def _load_template_file(path: Path) -> Dialect:
    """Load the dialect of a `tokenizer_config.json`. Raises `ConfigError` with the file."""
    try:
        data = read_limited(path, _MAX_TEMPLATE_FILE + 1)
        if len(data) > _MAX_TEMPLATE_FILE:
            raise ConfigError(f"{path}: expected at most {_MAX_TEMPLATE_FILE} bytes of JSON")
        config = json.loads(data.decode())
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path}: not JSON: {error}") from error
    if not isinstance(config, dict) or _TEMPLATE_KEY not in config:
        is_old = isinstance(config, dict) and _OLD_TEMPLATE_KEY in config
        old = f" (its {_OLD_TEMPLATE_KEY} is an older format)" if is_old else ""
        raise ConfigError(f"{path}: expected the key {_TEMPLATE_KEY!r}{old}")
    try:
        dialect = template_dialect(path.resolve().parent.name or path.stem, decode_template(config[_TEMPLATE_KEY]))
        check_dialect(dialect)
    except (ConfigError, TemplateError) as error:
        raise ConfigError(f"{path}: {error}") from error
    return dialect


@functools.cache
def _load(folder: Path) -> Dialect:
    path = folder / FILE
    try:
        text = read_limited(path, _MAX_FILE).decode()
        table = tomllib.loads(text)
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:  # also a number of thousands of digits
        raise ConfigError(f"{path}: not TOML: {error}") from error
    body = _body(table, folder, path)
    markers: dict[str, Any] = {
        name: _build_row(kind, _section(table, name, path), f"{path}: [{name}]") for name, kind in _MARKERS.items()
    }
    row = {"name": folder.name, "summary": "", **table, "body": body, "templates": str(folder)}
    dialect = dataclasses.replace(_build_row(Dialect, row, str(path), body), **markers)
    if not (dialect.call.open or dialect.call.starts):
        raise ConfigError(f"{path}: [call]: expected `open`, the marker that opens a call, or `starts`")
    _check_templates(dialect, folder)
    return dialect


def _body(table: dict[str, Any], folder: Path, path: Path) -> Body:
    """Build the call body from the one section that names its format."""
    kinds = [kind for kind in _BODIES if kind in table]
    if len(kinds) != 1:
        raise ConfigError(f"{path}: expected one of the sections {', '.join(f'[{kind}]' for kind in _BODIES)}")
    options = _section(table, kinds[0], path)
    grammar = options.pop("grammar", None)
    row: Any = _build_row(_BODIES[kinds[0]], options, f"{path}: [{kinds[0]}]")
    if isinstance(row, Tags):
        row = TaggedCalls(row)
    if grammar is not None:
        row = dataclasses.replace(row, grammar=str(folder / str(grammar)).removesuffix(".lark"))
    if isinstance(row, HeaderShape):
        _check_header(row, f"{path}: [{kinds[0]}]")
    load_grammar(row.grammar)
    body: Body = row
    return body


def _section(table: dict[str, Any], name: str, path: Path) -> dict[str, Any]:
    """Take a section out of the file's table; it is empty if the file has none."""
    section = table.pop(name, {})
    if not isinstance(section, dict):
        raise ConfigError(f"{path}: [{name}]: expected a section")
    return section


def _check_header(shape: HeaderShape, location: str) -> None:
    try:
        groups = re.compile(shape.header).groupindex
        re.compile(shape.never)
    except re.error as error:
        raise ConfigError(f"{location}: not a regular expression: {error}") from error
    if "name" not in groups:
        raise ConfigError(f"{location}: header: expected a group for the tool's name, (?P<name>...)")


def _build_row(kind: type[_Row], values: Mapping[str, Any], location: str, body: Body | None = None) -> _Row:
    """Build a dataclass from a TOML table; every value must have the type of its field."""
    assert dataclasses.is_dataclass(kind)
    fields = {field.name: field for field in dataclasses.fields(kind)}
    unknown = [name for name in values if name not in fields]
    if unknown:
        raise ConfigError(f"{location}: unknown key {unknown[0]!r}; expected one of {', '.join(fields)}")
    missing = [
        field.name
        for field in fields.values()
        if field.default is dataclasses.MISSING
        and field.default_factory is dataclasses.MISSING
        and field.name not in values
    ]
    if missing:
        raise ConfigError(f"{location}: expected {', '.join(map(repr, missing))}")
    try:
        types = get_type_hints(kind)
        typed = {name: msgspec.convert(value, types[name]) for name, value in values.items() if name != "body"}
    except msgspec.ValidationError as error:
        raise ConfigError(f"{location}: {error}") from error
    return kind(**typed, **({"body": body} if body is not None else {}))


def _check_templates(dialect: Dialect, folder: Path) -> None:
    for name in _TEMPLATES:
        if not (folder / name).is_file():
            raise ConfigError(f"{folder / name}: this template is missing; expected {', '.join(_TEMPLATES)}")
    try:
        render_samples(dialect)
        check_dialect(dialect)
    except TemplateSyntaxError as error:
        raise ConfigError(f"{error.filename or folder}:{error.lineno}: {error.message}") from error
    except (RecursionError, MemoryError) as error:
        raise ConfigError(f"{folder}: a template needs too much depth or memory: {type(error).__name__}") from error
    except (TemplateError, ArithmeticError, LookupError, TypeError, ValueError) as error:
        frame = traceback.extract_tb(error.__traceback__)[-1]  # jinja2 puts the template's own line there
        raise ConfigError(f"{frame.filename}:{frame.lineno}: {error}") from error
